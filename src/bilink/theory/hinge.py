"""Factors of one block by descent on a squared hinge.

Sought are a, b, L, Q with aᵢ + bⱼ + ⟨Lᵢ, Qⱼ⟩ ≥ 1 on the ones and ≤ −1 on the zeros.  The sum of the
squares of what is missing is smooth, and zero exactly at a solution; L-BFGS walks down from a
drawing of the block.  It may end in a valley that is no solution, so failure proves nothing.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from bilink._jit import kernel
from bilink.theory.boolean import Lists
from bilink.theory.layout import drawing

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
def hinge(a, b, left, right, start, items, row_slopes, column_slopes):
    """The loss and its slopes; ``left`` is (n, d), ``right`` (d, m), slopes have the bias first.

    Return the loss and the largest missing part; from 1 on an entry is on the wrong side.
    """
    n, d = left.shape
    m = b.shape[0]
    scores = np.empty(m)
    loss, most = 0.0, 0.0
    for i in range(n):
        for j in range(m):
            scores[j] = a[i] + b[j]
        for k in range(d):
            x = left[i, k]
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
                column_slopes[0, j] += 2 * x
                for k in range(d):
                    row_slopes[i, k + 1] += 2 * x * right[k, j]
                    column_slopes[k + 1, j] += 2 * x * left[i, k]
    return loss, most


class _Solved(Exception):
    """Every entry is on its side, far enough from zero."""


def factorise(
    rows: Lists, columns: Lists, dim: int, *, evaluations: int, seed: int = 0
) -> tuple[LocalFactors | None, int]:
    """Local factors with ``dim`` products, or None where the descent found none.

    Also how many times all entries were looked at.
    """
    n, m, width = len(rows), len(columns), dim + 1
    split = n * width
    done = 0

    def parts(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return x[:split].reshape(n, width), x[split:].reshape(width, m)

    def evaluate(x: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal done
        done += 1
        slopes = np.zeros_like(x)
        r, c = parts(x)
        a, left = np.ascontiguousarray(r[:, 0]), np.ascontiguousarray(r[:, 1:])
        loss, most = hinge(a, c[0], left, c[1:], rows.start, rows.items, *parts(slopes))
        if most <= _ENOUGH:
            raise _Solved(x.copy())
        return loss, slopes

    options = {"maxiter": evaluations, "maxfun": evaluations, "maxcor": 20, "ftol": _STALLED}
    try:
        minimize(
            evaluate,
            _discs(*drawing(rows, columns, dim, seed)),
            jac=True,
            method="L-BFGS-B",
            options=options,
        )
    except _Solved as solved:
        r, c = parts(solved.args[0])
        scale = 1 / (1 - _ENOUGH)
        return _centred(scale * r[:, 0], scale * c[0], scale * r[:, 1:], c[1:].T), done
    return None, done


def _discs(row_places: np.ndarray, column_places: np.ndarray) -> np.ndarray:
    """R² − |p − q|² = (R² − |p|²) − |q|² + 2⟨p, q⟩, as the variables of the descent."""
    a = _RADIUS**2 - np.sum(row_places**2, axis=1)
    b = -np.sum(column_places**2, axis=1)
    r = np.column_stack([a, 2 * row_places])
    return np.concatenate([r.ravel(), b, column_places.T.ravel()])


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
