"""The reciprocal twin of a model: a relation of its own for each direction.

A relation's row holds the parameters r of "which tail?" and, behind them, those r′ of "which
head?", which is asked as "which tail?" of the inverse relation (Lacroix et al., 2018; Kazemi and
Poole, 2018).  So the score depends on the side that is asked for, and the twin is two bilinear
forms per relation; ``score`` is that of the tail.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np

from bilink import _jit

SUFFIX = "-reciprocal"


def reciprocal(module: Any) -> Any:
    """What a model file of the twin of ``module`` would say."""
    ask, pull = module.tail_query, module.tail_pullback

    def verb(function: Any) -> Any:
        # Machine code from the cache is linked by name: without one of its own, a function of one
        # twin would be called in the place of another's.
        function.__qualname__ = f"{function.__name__}_{module.NAME.replace('-', '_')}"
        return _jit.verb(function)

    @verb
    def tail_query(head, relation, query):
        ask(head, relation[: relation.shape[0] // 2], query)

    @verb
    def head_query(tail, relation, query):
        ask(tail, relation[relation.shape[0] // 2 :], query)

    @verb
    def tail_pullback(head, relation, slope, head_slope, relation_slope):
        n = relation.shape[0] // 2
        pull(head, relation[:n], slope, head_slope, relation_slope[:n])

    @verb
    def head_pullback(tail, relation, slope, tail_slope, relation_slope):
        n = relation.shape[0] // 2
        pull(tail, relation[n:], slope, tail_slope, relation_slope[n:])

    cubes = module.cube_slope

    @verb
    def relation_cube_slope(row, weight, out):
        n = row.shape[0] // 2
        cubes(row[:n], weight, out[:n])
        cubes(row[n:], weight, out[n:])

    def widths(dim: int) -> tuple[int, int]:
        entity, relation = module.widths(dim)
        return entity, 2 * relation

    twin = SimpleNamespace(
        NAME=module.NAME + SUFFIX,
        TITLE=f"{module.TITLE} (reciprocal)",
        COMPARISON=module.COMPARISON,
        widths=widths,
        tail_query=tail_query,
        head_query=head_query,
        tail_pullback=tail_pullback,
        head_pullback=head_pullback,
        cube_slope=cubes,
        relation_cube_slope=relation_cube_slope,
    )
    for name in ("export", "restore"):
        if hasattr(module, name):
            setattr(twin, name, _on_both_halves(getattr(module, name)))
    return twin


def _on_both_halves(change: Any) -> Any:
    def changed(entities: np.ndarray, relations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        halves = np.split(relations, 2, axis=1)
        return change(entities, halves[0])[0], np.hstack([change(entities, x)[1] for x in halves])

    return changed
