"""Factors from runs: columns on a circle, and for every row a trigonometric polynomial.

The product of cos w − cos(t − mid) over a row's c runs, each with its middle and half its width,
is negative exactly on the row's ones.  Without its mean, which becomes the threshold, it is a
product of 2c numbers of the row and cos t, sin t, …, cos ct, sin ct of the column.  On a circle
nothing grows with the number of columns, as powers of t would.

What rounding leaves of a margin depends on how far apart the columns stand where runs end, so
columns get more of the circle where their margins are least.
"""

from dataclasses import dataclass

import numpy as np

from bilink.theory.rounding.boolean import BooleanMatrix

_SPANS = (1.0, 0.5, 0.25, 0.125)  # of the circle; on a short arc every mean is positive
_LEAST_MEAN = 0.05  # a row is divided by its mean, and large numbers leave no margin
_SHARE = 0.7  # of the circle, for blocks with several runs, where neighbours must be told by g⁴
_ROUNDS = 30  # of moving the columns
_FASTEST = 1.5  # by which a column's part of the circle grows in one round


def circle_factors(
    matrix: BooleanMatrix, order: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Left and right factors of the distinct rows and columns, for the threshold ½.

    Rows with more than ``most`` runs get a coordinate of their own.  None where the mean of some
    row's polynomial stays too small.
    """
    runs = _Runs.of(matrix, order, most)
    weights = _first_weights(matrix, order, runs)
    for span in _SPANS:
        best: tuple[float, np.ndarray] = (0.0, weights)
        for _ in range(_ROUNDS):
            margins = _margins(runs, weights, span)
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
    left = _polynomials(runs, best[1], span)
    assert left is not None
    apart = np.flatnonzero(runs.apart)
    own_left, own_right = np.zeros((len(left), len(apart))), np.zeros((len(right), len(apart)))
    own_left[apart, np.arange(len(apart))] = 1
    for k, row in enumerate(apart.tolist()):
        own_right[matrix.rows[row], k] = 1
    return np.hstack([left, own_left]), np.hstack([right, own_right])


@dataclass(frozen=True, eq=False)
class _Runs:
    """The runs of all rows that are not apart: where they begin and end in the order."""

    most: int
    apart: np.ndarray
    count: np.ndarray  # runs of each row
    offset: np.ndarray  # the first run of each row
    first: np.ndarray
    last: np.ndarray
    owner: np.ndarray  # the row of each run

    @classmethod
    def of(cls, matrix: BooleanMatrix, order: np.ndarray, most: int) -> "_Runs":
        n, m = matrix.shape
        place = np.empty(m, dtype=np.int64)
        place[order] = np.arange(m)
        owner, places = matrix.rows.owner, place[matrix.rows.items]
        by_row = np.lexsort((places, owner))
        owner, places = owner[by_row], places[by_row]
        begins = np.ones(len(owner), dtype=bool)
        begins[1:] = (np.diff(owner) != 0) | (np.diff(places) > 1)
        first = np.flatnonzero(begins)
        last = np.append(first[1:], len(owner)) - 1
        owner, first, last = owner[first], places[first], places[last]
        count = np.bincount(owner, minlength=n)
        kept = count[owner] <= most
        owner, first, last = owner[kept], first[kept], last[kept]
        offset = np.searchsorted(owner, np.arange(n))
        return cls(most, count > most, count, offset, first, last, owner)


def _first_weights(matrix: BooleanMatrix, order: np.ndarray, runs: _Runs) -> np.ndarray:
    """Each column's part of the circle: blocks with several runs share most of it."""
    worst = np.zeros(matrix.n_blocks, dtype=np.int64)
    np.maximum.at(worst, matrix.row_block, np.where(runs.apart, 0, runs.count))
    several = worst[matrix.column_block[order]] > 1
    weights = np.ones(len(order))
    if several.any() and not several.all():
        weights[several] = _SHARE / several.mean()
        weights[~several] = (1 - _SHARE) / (~several).mean()
    return weights


def _cells(weights: np.ndarray, span: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The angle of each place, and where its cell begins and ends; cells tile the arc."""
    ends = np.append(0, np.cumsum(weights))
    ends *= 2 * np.pi * span / ends[-1]
    return (ends[:-1] + ends[1:]) / 2, ends[:-1], ends[1:]


def _polynomials(runs: _Runs, weights: np.ndarray, span: float) -> np.ndarray | None:
    """The coefficients of every row, (n, 2 · most); zero for rows apart."""
    _, low, high = _cells(weights, span)
    begin, end = low[runs.first], high[runs.last]
    middle, half = (begin + end) / 2, (end - begin) / 2
    left = np.zeros((len(runs.count), 2 * runs.most))
    for c in range(1, runs.most + 1):
        rows = np.flatnonzero(runs.count == c)
        product = np.ones((len(rows), 1), dtype=np.complex128)
        for k in range(c):
            run = runs.offset[rows] + k
            product = _times(product, middle[run], half[run])
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


def _margins(runs: _Runs, weights: np.ndarray, span: float) -> np.ndarray | None:
    """For each place, the least margin of the rows with a run that ends at or beside it.

    It is there that a polynomial is nearest to zero.
    """
    left = _polynomials(runs, weights, span)
    if left is None:
        return None
    angles, _, _ = _cells(weights, span)
    m = len(angles)
    sizes = np.abs(left).sum(axis=1) + 0.5
    margins = np.ones(m)
    for ends, step in ((runs.first, -1), (runs.first, 0), (runs.last, 0), (runs.last, 1)):
        inside = (ends + step >= 0) & (ends + step < m)
        place, owner = ends[inside] + step, runs.owner[inside]
        turns = np.outer(angles[place], np.arange(1, runs.most + 1))
        scores = np.einsum("ij,ij->i", left[owner, 0::2], np.cos(turns))
        scores += np.einsum("ij,ij->i", left[owner, 1::2], np.sin(turns))
        wanted = 1 if step == 0 else -1
        part = np.maximum(wanted * (scores - 0.5) / sizes[owner], 1e-18)
        np.minimum.at(margins, place, part)
    return margins
