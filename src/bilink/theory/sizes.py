"""Sizes as they are written in the theorems, and as numbers."""

from collections.abc import Callable
from dataclasses import dataclass

from bilink._threads import physical_memory
from bilink.errors import ConfigError
from bilink.models.registry import family as find_family
from bilink.theory.mixed import mixed_size
from bilink.theory.slices import inertia_bound

_COPIES = 4  # of the result, while it is put together


@dataclass(frozen=True)
class Size:
    """A size as a function of the source's size r and the number of relations K."""

    text: str
    of: Callable[[int, int], int]

    def __call__(self, r: int, k: int = 1) -> int:
        """The number."""
        return self.of(r, k)


SAME = Size("r", lambda r, k: r)
PLUS_ONE = Size("r + 1", lambda r, k: r + 1)
PLUS_TWO = Size("r + 2", lambda r, k: r + 2)
DOUBLE = Size("2r", lambda r, k: 2 * r)
DOUBLE_PLUS_ONE = Size("2r + 1", lambda r, k: 2 * r + 1)
DOUBLE_PLUS_TWO = Size("2r + 2", lambda r, k: 2 * r + 2)
QUADRUPLE = Size("4r", lambda r, k: 4 * r)
HALF = Size("⌊r/2⌋ + 1", lambda r, k: r // 2 + 1)
REALS_IN_HOLE = Size("2r − 2 (1 if r = 1)", lambda r, k: mixed_size("hole", 0, r))
TRIANGLE = Size("r(r + 1)/2", lambda r, k: r * (r + 1) // 2)
TRIANGLE_IN_HOLE = Size(
    "r(r + 1) − 2 (1 if r = 1)", lambda r, k: mixed_size("hole", r * (r - 1) // 2, r)
)
EACH = Size("K f(r)", lambda r, k: k * inertia_bound(r))
EACH_IN_HOLE = Size("2K f(r) + 1", lambda r, k: 2 * k * inertia_bound(r) + 1)


def check_fits(name: str, dim: int, n_entities: int, n_relations: int) -> None:
    """Complain about a model, in double precision, that this machine cannot hold."""
    found = find_family(name)
    per_entity, per_relation = found.widths(dim)
    numbers = n_entities * per_entity + n_relations * per_relation
    if _COPIES * 8 * numbers > physical_memory():
        raise ConfigError(
            f"{found.title} of size {dim:,} has {numbers:,} numbers here, {8 * numbers / 1e9:,.0f}"
            f" GB; making it takes {_COPIES} times that, which does not fit into the memory of "
            "this machine"
        )
