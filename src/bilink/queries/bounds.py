"""Bounds on many scores from few bytes each: coordinates in which the first ones say most, rounded.

A coordinate of the queries may be multiplied by a number if that of the candidates is divided by
it.  So both get the same size, and the largest coordinates come first; where a relation looks at
few coordinates of its entities, they say most.  Let x and y be a query and a candidate in this
form, and b and b′ their bytes: x ≈ s·b and y ≈ s′·b′.  Cauchy–Schwarz bounds what rounding takes
away, and what is left after the first p coordinates, by norms:

⟨q, c⟩ ≤ s·s′·⟨first p of b, first p of b′⟩
         + ‖x − s·b‖·‖y‖ + ‖s·b‖·‖y − s′·b′‖ + ‖rest of x‖·‖rest of y‖
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bilink._jit import kernel
from bilink.queries.byte_products import STEP

_SAMPLE = 2048  # rows that tell the sizes of coordinates
_LEAST = 1e-150  # scale, so that products of two are not zero


@dataclass(frozen=True, eq=False)
class Axes:
    """The coordinates by falling size, and what to multiply them by on both sides."""

    order: np.ndarray
    queries: np.ndarray
    candidates: np.ndarray

    @classmethod
    def of(cls, queries: np.ndarray, candidates: np.ndarray) -> "Axes":
        """The axes that suit these rows."""
        one, other = _root_mean_squares(queries), _root_mean_squares(candidates)
        weights = np.sqrt(other / one)
        return cls(np.argsort(-one * other, kind="stable"), weights, 1 / weights)


def _root_mean_squares(rows: np.ndarray) -> np.ndarray:
    """The size of each coordinate, never nothing."""
    some = rows[:: max(1, len(rows) // _SAMPLE)].astype(np.float64)
    largest = np.abs(some).max(initial=1e-140)
    return largest * np.sqrt(np.maximum(np.mean((some / largest) ** 2, axis=0), 1e-12))


@dataclass(frozen=True, eq=False)
class Sizes:
    """Of rows of bytes, or of the largest among some: what bounds their scores, rounded up."""

    scales: np.ndarray
    errors: np.ndarray  # ‖x − s·b‖
    rests: np.ndarray  # a column for each level: ‖x‖ without its first level · STEP coordinates

    def __getitem__(self, places: Any) -> "Sizes":
        return Sizes(self.scales[places], self.errors[places], self.rests[places])


def rounded(
    rows: np.ndarray,
    places: np.ndarray,
    order: np.ndarray,
    weights: np.ndarray,
    together: int = 1,
) -> tuple[np.ndarray, Sizes]:
    """The rows at some places as bytes, their coordinates in this order, and their sizes.

    ``together`` of them share a scale, and have one size.  The width is rounded up to a multiple of
    STEP.
    """
    n, width = len(places), -(-len(order) // STEP) * STEP
    groups = -(-n // together)
    out = np.zeros((n, width), dtype=np.int8)
    scales, errors, rests = (
        np.empty(groups),
        np.zeros(groups),
        np.zeros((groups, width // STEP + 1)),
    )
    _round(rows, places, order, weights, together, out, scales, errors, rests)
    # A sum of n squares in float32 is within n·ε of the true one; and its terms are rounded, too.
    rounding = (width + 16) * float(np.finfo(np.float32).eps)
    rests *= 1 + rounding
    return out, Sizes(scales, errors * (1 + rounding) + rounding * rests[:, 0], rests)


@kernel
def norms(rows, places, weights, out):
    """The norms of the rows at some places, with their coordinates multiplied by weights."""
    for i in range(places.shape[0]):
        row = rows[places[i]]
        squares = 0.0
        for k in range(row.shape[0]):
            x = row[k] * weights[k]
            squares += x * x
        out[i] = np.sqrt(squares)


@kernel
def _round(rows, places, order, weights, together, out, scales, errors, rests):
    """Bytes with row ≈ scale · bytes; the largest norms of row − scale · bytes, and of the rests.

    Squares are added up in units of the scale, so that they neither vanish nor overflow.
    """
    width, last = order.shape[0], rests.shape[1] - 1
    inputs = np.zeros((together, out.shape[1]))
    for group in range(scales.shape[0]):
        start, stop = group * together, min(places.shape[0], (group + 1) * together)
        largest = 0.0
        for i in range(start, stop):
            row, x = rows[places[i]], inputs[i - start]
            for k in range(width):
                x[k] = row[order[k]] * weights[order[k]]
                largest = max(largest, abs(x[k]))
        scale = max(largest / 127, _LEAST)
        scales[group], inverse = scale, 1 / scale
        for i in range(start, stop):
            squares, off = np.float32(0), np.float32(0)
            for level in range(last - 1, -1, -1):
                for k in range(level * STEP, (level + 1) * STEP):
                    x = np.float32(inputs[i - start, k] * inverse)
                    byte = np.rint(x)
                    out[i, k] = np.int8(byte)
                    squares += x * x
                    off += (x - byte) * (x - byte)
                rests[group, level] = max(rests[group, level], scale * np.sqrt(squares))
            errors[group] = max(errors[group], scale * np.sqrt(off))


def least_sums(bar: float, rows: Sizes, columns: Sizes, level: int) -> np.ndarray:
    """The least sums of bytes with which pairs may have a score of ``bar`` or more.

    Of all rows with all columns; the sums go over the first ``level`` · STEP bytes.
    """
    out = np.empty((len(columns.scales), len(rows.scales)))
    one = rows.scales, rows.errors, rows.rests[:, 0], rows.rests[:, level]
    other = columns.scales, columns.errors, columns.rests[:, 0], columns.rests[:, level]
    _least_sums(bar, *one, *other, out)
    return out.T


@kernel
def _least_sums(bar, scales, errors, sizes, rests, c_scales, c_errors, c_sizes, c_rests, out):
    """out[j, i] = the sum, rounded down, with which the bound for i and j is the bar."""
    for j in range(out.shape[0]):
        for i in range(out.shape[1]):
            rounding = errors[i] * c_sizes[j] + (sizes[i] + errors[i]) * c_errors[j]
            least = (bar - rounding - rests[i] * c_rests[j]) / (scales[i] * c_scales[j])
            out[j, i] = np.floor(least - 1e-9 * abs(least))
