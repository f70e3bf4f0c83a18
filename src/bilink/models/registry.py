"""The models by name."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache as remember
from typing import Any

import numpy as np

from bilink import _jit
from bilink._text import closest
from bilink.errors import ConfigError
from bilink.models import (
    analogy,
    cp,
    distmult,
    hole,
    ntn,
    quate,
    rescal,
    rotate,
    simple,
    transe,
    transg,
    transh,
    transr,
)
from bilink.models import complex as complex_
from bilink.models.form import Form, cube_gradient
from bilink.models.reciprocal import SUFFIX, reciprocal

_lock = threading.Lock()


@dataclass(frozen=True, eq=False)
class Family:
    """What a model file defines, in one object.

    ``widths(dim)`` are the real parameters per entity and per relation.  The kernel functions turn
    one entity and a relation into a query and carry gradients back; the form compares a query with
    an entity.
    """

    name: str
    title: str
    form: Form
    widths: Callable[[int], tuple[int, int]]
    kernels: dict[str, Any]  # the kernel functions that templates are bound to
    is_reciprocal: bool  # whether heads and tails are scored by different forms
    # The relation matrix of the equivalent bilinear form, on rows ``form.candidates(entities)``.
    matrix: Callable[[np.ndarray], np.ndarray]
    # From the coordinates of training to those of files and papers, and back.
    export: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
    restore: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
    # Changes random initial relations in place; where a TransE is given, starts from its relations.
    begin: Callable[..., None] | None
    # The half-widths of the initial values in the code of Wang et al. (2018), for so many entities
    # and a dim; None where relations are then scaled to length one.
    initial_bounds: Callable[[int, int], tuple[float, float | None]] | None
    # How much longer the trained coordinates of relations are than the paper's, where they are.
    relation_scales: Callable[[int], np.ndarray] | None
    _bound: dict[Callable[..., Any], Any] = field(default_factory=dict)

    @classmethod
    def of(cls, module: Any) -> "Family":
        """Read a model file."""
        names = ("tail_query", "head_query", "tail_backward", "head_backward")
        cube = getattr(module, "cube_gradient", cube_gradient)
        return cls(
            name=module.NAME,
            title=module.TITLE,
            form=module.FORM,
            widths=module.widths,
            kernels={
                **{name: getattr(module, name) for name in names},
                **module.FORM.kernels,
                "cube_gradient": cube,
                "relation_cube_gradient": getattr(module, "relation_cube_gradient", cube),
            },
            is_reciprocal=module.NAME.endswith(SUFFIX),
            matrix=getattr(module, "matrix", _no_matrix),
            export=getattr(module, "export", _as_they_are),
            restore=getattr(module, "restore", _as_they_are),
            begin=getattr(module, "begin", None),
            initial_bounds=getattr(module, "initial_bounds", None),
            relation_scales=getattr(module, "relation_scales", None),
        )

    def query_width(self, entity_width: int) -> int:
        """How many numbers a query has, for entities of so many."""
        return int(self.kernels["query_width"](entity_width))

    @property
    def base(self) -> str:
        """The name without "-reciprocal"."""
        return self.name.removesuffix(SUFFIX)

    def bind(self, template: Callable[..., Any]) -> Any:
        """Compile ``template`` for this model, once per process."""
        with _lock:  # threads ask at the same time
            if template not in self._bound:
                name = self.name.replace("-", "_")
                self._bound[template] = _jit.bind(template, self.kernels, name)
            return self._bound[template]

    def __reduce__(self) -> tuple[Any, ...]:
        """Travels to another process by name."""
        return family, (self.name,)


def _as_they_are(entities: np.ndarray, relations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return entities, relations


def _no_matrix(relation: np.ndarray) -> np.ndarray:
    raise ConfigError("this model is no bilinear form, so its relations have no matrix")


_MODULES = (
    rescal,
    distmult,
    hole,
    complex_,
    transe,
    transe.L1,
    cp,
    simple,
    analogy,
    rotate,
    quate,
    transh,
    transr,
    transg,
    ntn,
)
FAMILIES = {module.NAME: Family.of(module) for module in _MODULES}


@remember
def _reciprocal(base: str) -> Family:
    modules = {module.NAME: module for module in _MODULES}
    return Family.of(reciprocal(modules[base]))


def family(name: str) -> Family:
    """The model called ``name``, in any case; "-reciprocal" behind it is its reciprocal model."""
    found = FAMILIES.get(name.lower())
    base = name.lower().removesuffix(SUFFIX)
    if found is None and base in FAMILIES:
        return _reciprocal(base)
    if found is None:
        close = closest(name, [*FAMILIES, "paths", "ptranse", "rgcn", "auto"], n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ConfigError(
            f"unknown model {name!r}; {hint}There are {', '.join(FAMILIES)}, "
            f"and each with {SUFFIX!r} behind it."
        )
    return found
