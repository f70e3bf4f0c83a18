"""Factors of all distinct rows and columns: columns on a circle, or blocks on a sphere.

**On a circle** every row is a trigonometric polynomial.  The product of cos w − cos(t − mid) over
the row's c intervals, each with its middle and half its width, is negative exactly on the row's
ones.  Without its mean, which becomes the threshold, it is the inner product of 2c numbers of the
row with cos t, sin t, …, cos ct, sin ct of the column.  Unlike powers of t, these do not grow with
the number of columns.  The least margins are where intervals end; so columns get a larger part of
the circle where their margins are least.

**On a sphere** each connected block has a point v of its own.  The block's facts are told apart in
a small region around v, in the directions tangent to the sphere.  So any number of blocks takes
only as many dimensions as the worst of them: one more than its products.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bilink.theory.rounding.boolean import Block, BooleanMatrix
from bilink.theory.rounding.certificates import Intervals
from bilink.theory.rounding.descent import LocalFactors

_SPANS = (1.0, 0.5, 0.25, 0.125)  # of the circle; on a short arc every mean is positive
_LEAST_MEAN = 0.05  # a row is divided by its mean, and large numbers leave no margin
_SHARE = 0.7  # of the circle, for blocks with several intervals per row: their margins are small
_ROUNDS = 30  # of moving the columns
_FASTEST = 1.5  # by which a column's part of the circle grows in one round
_EXTENT = 0.2  # of the distance to the next block on the sphere, for the intervals of a block
_WIDEST = 0.45  # of the circle, for a single block: its widest interval must be below a half turn


# -- on a circle -----------------------------------------------------------------------------------


def circle_factors(
    matrix: BooleanMatrix, order: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Left and right factors of the distinct rows and columns, for the threshold ½.

    Rows with more than ``most`` intervals get a coordinate of their own.  None where the mean of
    some row's polynomial stays too small.
    """
    intervals = Intervals.of(matrix, False, np.arange(matrix.shape[0]), order, most)
    weights = _first_weights(matrix, intervals)
    for span in _SPANS:
        best: tuple[float, np.ndarray] = (0.0, weights)
        for _ in range(_ROUNDS):
            margins = _margins(intervals, most, weights, span)
            if margins is None:
                break
            least = float(margins.min(initial=1.0))
            if least > best[0]:
                best = (least, weights)
            wanted = np.sqrt(least * np.median(margins))
            weights = weights * np.clip((wanted / margins) ** 0.25, 1, _FASTEST)
            weights /= weights.mean()
        if best[0] > 0:
            break
    else:
        return None
    angles, _, _ = _cells(best[1], span)
    turns = np.outer(angles, np.arange(1, most + 1))
    right = np.empty((len(order), 2 * most))
    right[order, 0::2], right[order, 1::2] = np.cos(turns), np.sin(turns)
    left = _polynomials(intervals, most, best[1], span)
    assert left is not None
    apart = np.flatnonzero(intervals.apart)
    own = np.zeros((len(right), len(apart)))
    for k, row in enumerate(apart.tolist()):
        own[matrix.rows[row], k] = 1
    return np.hstack([left, np.arange(len(left))[:, None] == apart]), np.hstack([right, own])


def _first_weights(matrix: BooleanMatrix, intervals: Intervals) -> np.ndarray:
    """Each column's part of the circle: blocks with several intervals per row share most of it."""
    worst = np.zeros(matrix.n_blocks, dtype=np.int64)
    np.maximum.at(worst, matrix.row_block, intervals.count)
    several = worst[matrix.column_block[intervals.columns]] > 1
    weights = np.ones(len(several))
    if several.any() and not several.all():
        weights[several] = _SHARE / several.mean()
        weights[~several] = (1 - _SHARE) / (~several).mean()
    return weights


def _cells(weights: np.ndarray, span: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The angle of each place, and where its cell begins and ends; cells tile the arc."""
    ends = np.append(0, np.cumsum(weights))
    ends *= 2 * np.pi * span / ends[-1]
    return (ends[:-1] + ends[1:]) / 2, ends[:-1], ends[1:]


def _polynomials(
    intervals: Intervals, most: int, weights: np.ndarray, span: float
) -> np.ndarray | None:
    """The coefficients of every row, (n, 2 · most); zero for rows apart."""
    _, low, high = _cells(weights, span)
    begin, end = low[intervals.first], high[intervals.last]
    middle, half = (begin + end) / 2, (end - begin) / 2
    count = intervals.count
    left = np.zeros((len(count), 2 * most))
    for c in range(1, most + 1):
        rows = np.flatnonzero(count == c)
        product = np.ones((len(rows), 1), dtype=np.complex128)
        for k in range(c):
            each = intervals.offset[rows] + k
            product = _times(product, middle[each], half[each])
        mean = product[:, c].real
        if (mean < _LEAST_MEAN).any():
            return None
        powers = -product[:, c + 1 :] / mean[:, None]  # (c₀ − p) / 2c₀ = Re Σ powers · e^{ikt}
        left[rows, 0 : 2 * c : 2], left[rows, 1 : 2 * c : 2] = powers.real, -powers.imag
    return left


def _times(product: np.ndarray, middle: np.ndarray, half: np.ndarray) -> np.ndarray:
    """Multiply polynomials in z = e^{it} by cos w − (e^{−im} z + e^{im} / z) / 2."""
    rows, width = product.shape
    result = np.zeros((rows, width + 2), dtype=np.complex128)
    turn = np.exp(1j * middle)[:, None]
    result[:, 1:-1] += np.cos(half)[:, None] * product
    result[:, 2:] -= product / (2 * turn)
    result[:, :-2] -= product * turn / 2
    return result


def _margins(
    intervals: Intervals, most: int, weights: np.ndarray, span: float
) -> np.ndarray | None:
    """For each place, the least margin of the rows with an interval that ends at or beside it.

    This is where a polynomial is nearest to zero.
    """
    left = _polynomials(intervals, most, weights, span)
    if left is None:
        return None
    angles, _, _ = _cells(weights, span)
    m = len(angles)
    sizes = np.abs(left).sum(axis=1) + 0.5
    margins = np.ones(m)
    rows = np.repeat(np.arange(len(left)), intervals.count)  # the row of each interval
    first, last = intervals.first, intervals.last
    for ends, step in ((first, -1), (first, 0), (last, 0), (last, 1)):
        inside = (ends + step >= 0) & (ends + step < m)
        place, owner = ends[inside] + step, rows[inside]
        turns = np.outer(angles[place], np.arange(1, most + 1))
        scores = np.einsum("ij,ij->i", left[owner, 0::2], np.cos(turns))
        scores += np.einsum("ij,ij->i", left[owner, 1::2], np.sin(turns))
        wanted = 1 if step == 0 else -1
        part = np.maximum(wanted * (scores - 0.5) / sizes[owner], 1e-18)
        np.minimum.at(margins, place, part)
    return margins


# -- on a sphere -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Solved:
    """A block with the factors that a descent found for it."""

    block: Block
    factors: LocalFactors


Part = Intervals | Solved  # a block whose rows are single intervals, or another one


def sphere_factors(
    parts: Sequence[Part], shape: tuple[int, int], rank: int
) -> tuple[np.ndarray, np.ndarray]:
    """Left and right factors of all distinct rows and columns, for the threshold ½."""
    left, right = np.zeros((shape[0], rank)), np.zeros((shape[1], rank))
    centres, extents, nearest = _places(parts, rank)
    k = _stiffness([part for part in parts if isinstance(part, Solved)], nearest)
    for part, centre, extent in zip(parts, centres, extents, strict=True):
        # An orthonormal basis of the directions at right angles to the centre.
        tangents = np.linalg.qr(np.column_stack([centre, np.eye(rank)]))[0][:, 1:].T
        if isinstance(part, Intervals):
            points, caps = _arc(part, centre, tangents[0], extent)
            of_rows, of_columns = (right, left) if part.transposed else (left, right)
            of_rows[part.rows], of_columns[part.columns] = caps, points
        else:
            found, basis = part.factors, tangents[: part.factors.left.shape[1]]
            rows, columns = ((x @ basis) / np.sqrt(k) for x in (found.left, found.right))
            left[part.block.row_ids] = np.outer(1 + found.a / k, centre) + rows
            right[part.block.column_ids] = np.outer(1 + found.b / k, centre) + columns
    return left / 2, right


def _places(parts: Sequence[Part], rank: int) -> tuple[np.ndarray, np.ndarray, float]:
    """For each block a point of the sphere and half its extent in radians; the least distance."""
    n = len(parts)
    if rank == 2:
        sizes = np.array([_size(part) for part in parts], dtype=float)
        shares = np.minimum(sizes / sizes.sum(), _WIDEST)
        ends = np.cumsum(shares)
        angles = 2 * np.pi * (ends - shares / 2)
        nearest = float(2 * np.pi * shares.min()) if n > 1 else np.pi
        return np.stack([np.cos(angles), np.sin(angles)], axis=1), np.pi * shares, nearest
    # A spiral of equal areas around the sphere (the Fibonacci lattice), in the first three axes.
    z = 1 - (2 * np.arange(n) + 1) / n
    turn = np.pi * (1 + np.sqrt(5)) * np.arange(n)
    flat = np.sqrt(1 - z * z)
    centres = np.zeros((n, rank))
    centres[:, :3] = np.stack([flat * np.cos(turn), flat * np.sin(turn), z], axis=1)
    nearest = min(np.pi / 2, 3.0 / np.sqrt(n))
    return centres, np.full(n, _EXTENT * nearest), nearest


def _size(part: Part) -> int:
    if isinstance(part, Intervals):
        return len(part.columns) + 1
    return len(part.block.rows) + len(part.block.columns)


def _stiffness(parts: Sequence[Solved], nearest: float) -> float:
    """K, so large that aᵢ bⱼ / K and the scores between two blocks do no harm."""
    if not parts:
        return 1.0
    found = [part.factors for part in parts]
    largest = [[float(np.abs(x).max()) for x in (f.a, f.b)] for f in found]
    longest = [[float(np.sqrt((x**2).sum(axis=1).max())) for x in (f.left, f.right)] for f in found]
    (a, b), (left, right) = np.max(largest, axis=0), np.max(longest, axis=0)
    own = max(x * y for x, y in largest)
    apart = 1 - np.cos(nearest)
    # K(1 − cos) must exceed a + b + ⟨L, Q⟩ and, between tangents and centres, √K (|L| + |Q|) sin.
    return max(4 * own, 2 * (a + b + left * right) / apart, 16 * ((left + right) / nearest) ** 2)


def _arc(
    part: Intervals, centre: np.ndarray, tangent: np.ndarray, extent: float
) -> tuple[np.ndarray, np.ndarray]:
    """Columns as points of a great circle, rows as caps c / cos w: ⟨c, x⟩ > cos w inside."""
    m = len(part.columns)
    cell = 2 * extent / (m + 1)
    angles = cell * (np.arange(m) - (m - 1) / 2)

    def turned(angle: np.ndarray) -> np.ndarray:
        return np.outer(np.cos(angle), centre) + np.outer(np.sin(angle), tangent)

    begin, end = angles[part.first] - cell / 2, angles[part.last] + cell / 2
    caps = turned((begin + end) / 2) / np.cos((end - begin) / 2)[:, None]
    return turned(angles), caps
