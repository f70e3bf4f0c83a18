"""Sizes as they are written in the theorems, and as numbers."""

import math
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


def warren_bound(name: str, n: int, k: int) -> int:
    """A size below which some Boolean tensor of N entities and K relations has no consistent model.

    Warren (1968): m polynomials of degree 3 in v ≤ m variables have at most (12em/v)ᵛ patterns of
    signs, and all 2ᵐ Boolean tensors, m = KN², must be among those of score minus threshold.
    The variables are a model's numbers, but for those that a change of basis makes superfluous.
    """
    m = k * n * n
    variables = {
        "rescal": lambda r: (n - r) * r + k * r * r + k,
        "complex": lambda r: 2 * r * (n - 1 + k) + k,
        "hole": lambda r: r * (n - 1 + k) + k,
    }[name]

    def too_few(r: int) -> bool:
        v = variables(r)
        return v <= m and v * math.log2(12 * math.e * m / v) < m

    low, high = 0, n if name == "rescal" else 2 * k * n + 1
    while high - low > 1:  # the number of patterns grows with r
        middle = (low + high) // 2
        low, high = (middle, high) if too_few(middle) else (low, middle)
    return low + 1
