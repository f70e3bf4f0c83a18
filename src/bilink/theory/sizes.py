"""Sizes as they are written in the theorems, and as numbers."""

from collections.abc import Callable
from dataclasses import dataclass

from bilink.theory.mixed import mixed_size
from bilink.theory.slices import inertia_bound


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
HALF = Size("⌊r/2⌋ + 1", lambda r, k: r // 2 + 1)
REALS_IN_HOLE = Size("2r − 2 (1 if r = 1)", lambda r, k: mixed_size("hole", 0, r))
TRIANGLE = Size("r(r + 1)/2", lambda r, k: r * (r + 1) // 2)
TRIANGLE_IN_HOLE = Size(
    "r(r + 1) − 2 (1 if r = 1)", lambda r, k: mixed_size("hole", r * (r - 1) // 2, r)
)
EACH = Size("K f(r)", lambda r, k: k * inertia_bound(r))
EACH_IN_HOLE = Size("2K f(r) + 1", lambda r, k: 2 * k * inertia_bound(r) + 1)
