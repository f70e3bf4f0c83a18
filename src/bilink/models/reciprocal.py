"""The reciprocal model of a model: a relation of its own for each direction.

A relation's row holds the parameters r of "which tail?" and, behind them, those r′ of "which
head?", which is asked as "which tail?" of the inverse relation (Lacroix et al., 2018; Kazemi and
Poole, 2018).  So the score depends on the side that is asked for, and there are two bilinear forms
per relation; ``score`` is that of the tail.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np

from bilink._jit import named
from bilink.models.form import cube_gradient

SUFFIX = "-reciprocal"


def reciprocal(module: Any) -> Any:
    """What the file of the reciprocal model of ``module`` would define."""
    query, backward = module.tail_query, module.tail_backward
    cube = getattr(module, "cube_gradient", cube_gradient)
    kernel_function = named(module.NAME + SUFFIX)

    @kernel_function
    def tail_query(head, relation, out):
        query(head, relation[: relation.shape[0] // 2], out)

    @kernel_function
    def head_query(tail, relation, out):
        query(tail, relation[relation.shape[0] // 2 :], out)

    @kernel_function
    def tail_backward(head, relation, gradient, head_gradient, relation_gradient):
        n = relation.shape[0] // 2
        backward(head, relation[:n], gradient, head_gradient, relation_gradient[:n])

    @kernel_function
    def head_backward(tail, relation, gradient, tail_gradient, relation_gradient):
        n = relation.shape[0] // 2
        backward(tail, relation[n:], gradient, tail_gradient, relation_gradient[n:])

    @kernel_function
    def relation_cube_gradient(row, weight, out):
        n = row.shape[0] // 2
        cube(row[:n], weight, out[:n])
        cube(row[n:], weight, out[n:])

    def widths(dim: int) -> tuple[int, int]:
        entity, relation = module.widths(dim)
        return entity, 2 * relation

    made = SimpleNamespace(
        NAME=module.NAME + SUFFIX,
        TITLE=f"{module.TITLE} (reciprocal)",
        FORM=module.FORM,
        widths=widths,
        tail_query=tail_query,
        head_query=head_query,
        tail_backward=tail_backward,
        head_backward=head_backward,
        cube_gradient=cube,
        relation_cube_gradient=relation_cube_gradient,
    )
    if hasattr(module, "initial_bounds"):
        made.initial_bounds = module.initial_bounds
    if hasattr(module, "relation_scales"):
        made.relation_scales = lambda width: np.tile(module.relation_scales(width // 2), 2)
    for name in ("export", "restore"):
        if hasattr(module, name):
            setattr(made, name, _on_both_halves(getattr(module, name)))
    if hasattr(module, "begin"):
        made.begin = _beginning(module.begin)
    return made


def _beginning(begin: Any) -> Any:
    """A translation leads to the tail, and its opposite to the head."""

    def begin_both(relations: np.ndarray, translations: np.ndarray | None = None) -> None:
        ways = (None, None) if translations is None else (translations, -translations)
        for half, way in zip(np.split(relations, 2, axis=1), ways, strict=True):
            begin(half, way)

    return begin_both


def _on_both_halves(change: Any) -> Any:
    def changed(entities: np.ndarray, relations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        halves = np.split(relations, 2, axis=1)
        return change(entities, halves[0])[0], np.hstack([change(entities, x)[1] for x in halves])

    return changed
