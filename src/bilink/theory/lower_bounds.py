"""Sizes below which some set of facts is out of a family's reach."""

import math


def paper_bound(n: int) -> int:
    """Theorem 6: RESCAL of size ⌊N/32 − 1⌋ is not universal; this is one more, and at least 1.

    The proof shows more, that such a model is not even consistent with every Boolean matrix, and
    is off by one where 32 divides N.  For universality the truth is N itself: see
    ``counterexamples.below_n``.
    """
    return max(1, n // 32)


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
