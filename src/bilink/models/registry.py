"""The models by name."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache as remember
from functools import cached_property
from typing import Any

from bilink._jit import bind
from bilink.data.vocabulary import closest
from bilink.errors import ConfigError
from bilink.models import (
    analogy,
    cp,
    distmult,
    hole,
    quate,
    rescal,
    rotate,
    simple,
    transe,
    transe_l1,
)
from bilink.models import complex as complex_
from bilink.models.inner import Comparison
from bilink.models.inner import cube_slope as cube_slope_of_reals
from bilink.models.reciprocal import SUFFIX, reciprocal

_lock = threading.Lock()


@dataclass(frozen=True, eq=False)
class Family:
    """What a model file says, in one object.

    ``widths(dim)`` are the numbers per entity and per relation.  The verbs turn one entity and a
    relation into a query and carry slopes back; the comparison scores a query against an entity.
    """

    name: str
    title: str
    comparison: Comparison
    widths: Callable[[int], tuple[int, int]]
    queries: Mapping[str, Any]
    module: Any  # the model file, or what stands for one

    @classmethod
    def of(cls, module: Any) -> "Family":
        """Read a model file."""
        names = ("tail_query", "head_query", "tail_pullback", "head_pullback")
        if not hasattr(module, "cube_slope"):
            module.cube_slope = cube_slope_of_reals
        return cls(
            name=module.NAME,
            title=module.TITLE,
            comparison=module.COMPARISON,
            widths=module.widths,
            queries={name: getattr(module, name) for name in names},
            module=module,
        )

    @cached_property
    def verbs(self) -> dict[str, Any]:
        """All that a template may ask for."""
        return {
            **self.queries,
            "cube_slope": self.module.cube_slope,
            "relation_cube_slope": getattr(
                self.module, "relation_cube_slope", self.module.cube_slope
            ),
            "inner": self.comparison.inner,
            "query_slope": self.comparison.query_slope,
            "entity_slope": self.comparison.entity_slope,
        }

    def bind(self, template: Callable[..., Any]) -> Any:
        """Compile ``template`` for this model, once per process."""
        with _lock:  # threads ask at the same time
            if template not in self._bound:
                self._bound[template] = bind(template, self.verbs, self.name.replace("-", "_"))
            return self._bound[template]

    def __reduce__(self) -> tuple[Any, ...]:
        """Travels to another process by name."""
        return family, (self.name,)

    @cached_property
    def _bound(self) -> dict[Callable[..., Any], Any]:
        return {}


_MODULES = (
    rescal,
    distmult,
    hole,
    complex_,
    transe,
    transe_l1,
    cp,
    simple,
    analogy,
    rotate,
    quate,
)
FAMILIES = {module.NAME: Family.of(module) for module in _MODULES}


@remember
def _twin(name: str) -> Family:
    return Family.of(reciprocal(FAMILIES[name].module))


def family(name: str) -> Family:
    """The model called ``name``, in any case; "-reciprocal" behind it means its twin."""
    found = FAMILIES.get(name.lower())
    base = name.lower().removesuffix(SUFFIX)
    if found is None and base in FAMILIES:
        return _twin(base)
    if found is None:
        close = closest(name, list(FAMILIES), n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ConfigError(
            f"unknown model {name!r}; {hint}There are {', '.join(FAMILIES)}, "
            f"and each with {SUFFIX!r} behind it."
        )
    return found
