"""Factors of one block by descent on a squared hinge.

Sought are a, b, L, Q with aᵢ + bⱼ + ⟨Lᵢ, Qⱼ⟩ ≥ 1 on the ones and ≤ −1 on the zeros.  The sum of the
squares of what is missing is smooth, and zero exactly at a solution; L-BFGS walks down from a
drawing of the block.  It may end in a valley that is no solution, so failure proves nothing.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from bilink._jit import kernel
from bilink.theory.rounding.boolean import Lists
from bilink.theory.rounding.layout import drawing

_RADIUS = 2.0  # between one step, to a row's ones, and three, to its nearest zeros
_STALLED = 1e-6  # relative progress of the loss in one step, below which the descent ends
_ENOUGH = 0.5  # a missing part below this leaves a margin that can be scaled up


@dataclass(frozen=True, eq=False)
class LocalFactors:
    """One block: a[i] + b[j] + ⟨left[i], right[j]⟩ ≥ 1 on the ones, ≤ −1 on the zeros."""

    a: np.ndarray
    b: np.ndarray
    left: np.ndarray
    right: np.ndarray


@kernel
def hinge(rows, columns, right, start, items, row_slopes, column_slopes):
    """The loss and its slopes; rows and columns have the bias first, ``right`` is (width, m).

    Return the loss and the largest missing part; from 1 on an entry is on the wrong side.
    """
    n, width = rows.shape
    m = columns.shape[0]
    scores = np.empty(m)
    loss, most = 0.0, 0.0
    for i in range(n):
        for j in range(m):
            scores[j] = rows[i, 0] + right[0, j]
        for k in range(1, width):
            x = rows[i, k]
            for j in range(m):
                scores[j] += x * right[k, j]
        for p in range(start[i], start[i + 1]):  # a one looks like a zero of the opposite score
            scores[items[p]] = -scores[items[p]]
        for j in range(m):
            scores[j] = max(scores[j] + 1, 0.0)
        for p in range(start[i], start[i + 1]):
            scores[items[p]] = -scores[items[p]]
        for j in range(m):
            x = scores[j]
            if x != 0:
                loss += x * x
                most = max(most, abs(x))
                row_slopes[i, 0] += 2 * x
                column_slopes[j, 0] += 2 * x
                for k in range(1, width):
                    row_slopes[i, k] += 2 * x * columns[j, k]
                    column_slopes[j, k] += 2 * x * rows[i, k]
    return loss, most


class _Solved(Exception):
    """Every entry is on its side, far enough from zero."""


@dataclass(frozen=True, eq=False)
class Descent:
    """Where a descent ended."""

    factors: LocalFactors | None  # None where it found none
    loss: float
    evaluations: int  # times that all entries were looked at


def factorise(rows: Lists, columns: Lists, dim: int, *, evaluations: int, seed: int = 0) -> Descent:
    """Look for local factors with ``dim`` products, from a drawing with this seed."""
    n, m, width = len(rows), len(columns), dim + 1
    done, last = 0, np.inf

    def parts(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return x[: n * width].reshape(n, width), x[n * width :].reshape(m, width)

    def evaluate(x: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal done, last
        slopes = np.zeros_like(x)
        r, c = parts(x)
        right = np.ascontiguousarray(c.T)
        last, most = hinge(r, c, right, rows.start, rows.items, *parts(slopes))
        done += 1
        if most <= _ENOUGH:
            raise _Solved(x.copy())
        return last, slopes

    options = {"maxiter": evaluations, "maxfun": evaluations, "maxcor": 20, "ftol": _STALLED}
    start = _discs(*drawing(rows, columns, dim, seed))
    try:
        minimize(evaluate, start, jac=True, method="L-BFGS-B", options=options)
    except _Solved as solved:
        r, c = parts(solved.args[0])
        scale = 1 / (1 - _ENOUGH)
        found = _centred(scale * r[:, 0], scale * c[:, 0], scale * r[:, 1:], c[:, 1:])
        return Descent(found, last, done)
    return Descent(None, last, done)


def _discs(row_places: np.ndarray, column_places: np.ndarray) -> np.ndarray:
    """R² − |p − q|² = (R² − |p|²) − |q|² + 2⟨p, q⟩, as the variables of the descent."""
    a = _RADIUS**2 - np.sum(row_places**2, axis=1)
    b = -np.sum(column_places**2, axis=1)
    rows, columns = np.column_stack([a, 2 * row_places]), np.column_stack([b, column_places])
    return np.concatenate([rows.ravel(), columns.ravel()])


def _centred(a: np.ndarray, b: np.ndarray, left: np.ndarray, right: np.ndarray) -> LocalFactors:
    """The same scores with small biases and vectors of like lengths."""
    middle = right.mean(axis=0)
    a, right = a + left @ middle, right - middle
    middle = left.mean(axis=0)
    b, left = b + right @ middle, left - middle
    shift = (a.max() + a.min()) / 2
    longest = [np.sqrt((x**2).sum(axis=1).max(initial=0)) or 1.0 for x in (left, right)]
    scale = np.sqrt(longest[1] / longest[0])
    return LocalFactors(a - shift, b + shift, left * scale, right / scale)
