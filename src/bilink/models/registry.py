"""The models by name."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

from bilink._jit import bind
from bilink.data.vocabulary import closest
from bilink.errors import ConfigError
from bilink.models import complex as complex_
from bilink.models import distmult, hole, rescal, transe, transe_l1
from bilink.models.inner import Comparison

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
    module: ModuleType

    @classmethod
    def of(cls, module: ModuleType) -> "Family":
        """Read a model file."""
        names = ("tail_query", "head_query", "tail_pullback", "head_pullback")
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


FAMILIES = {
    module.NAME: Family.of(module)
    for module in (rescal, distmult, hole, complex_, transe, transe_l1)
}


def family(name: str) -> Family:
    """The model called ``name``, in any case."""
    found = FAMILIES.get(name.lower())
    if found is None:
        close = closest(name, list(FAMILIES), n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ConfigError(f"unknown model {name!r}; {hint}There are {', '.join(FAMILIES)}.")
    return found
