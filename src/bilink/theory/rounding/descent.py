"""Factors of one block by minimising a squared hinge loss.

Sought are a, b, L, Q with aᵢ + bⱼ + ⟨Lᵢ, Qⱼ⟩ ≥ 1 on the ones and ≤ −1 on the zeros.  The sum of the
squared violations is smooth, and zero exactly at a solution.  L-BFGS may end in a local minimum, so
failure proves nothing.

The descent starts from a drawing of the block as a graph: rows and columns are points whose
distances are their numbers of steps apart.  A row is one step from its ones, and three or more from
its zeros; so in a good drawing a disc around each row nearly solves the block already.
"""

from dataclasses import dataclass

import numpy as np

from bilink._jit import kernel
from bilink.theory.rounding.boolean import Lists, bipartite

_RADIUS = 2.0  # of the discs: between one step, to a row's ones, and three, to its nearest zeros
_STALLED = 1e-6  # relative progress of the loss in one step, below which the descent ends
_ENOUGH = 0.5  # a violation below this leaves a margin that can be scaled up
_ROUNDS = 30  # of drawing
_LAST_STEP = 0.05


@dataclass(frozen=True, eq=False)
class LocalFactors:
    """One block: a[i] + b[j] + ⟨left[i], right[j]⟩ ≥ 1 on the ones, ≤ −1 on the zeros."""

    a: np.ndarray
    b: np.ndarray
    left: np.ndarray
    right: np.ndarray


@kernel
def hinge(rows, columns, right, start, items, row_gradients, column_gradients):
    """The loss and its gradients; rows and columns have the bias first, ``right`` is columns.T.

    Return the loss and the largest violation; from 1 on an entry is on the wrong side.
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
                row_gradients[i, 0] += 2 * x
                column_gradients[j, 0] += 2 * x
                for k in range(1, width):
                    row_gradients[i, k] += 2 * x * columns[j, k]
                    column_gradients[j, k] += 2 * x * rows[i, k]
    return loss, most


class _Solved(Exception):
    """Every entry is on its side, with a sufficient margin."""


@dataclass(frozen=True, eq=False)
class Descent:
    """Where a descent ended."""

    factors: LocalFactors | None  # None where it found none
    loss: float
    evaluations: int  # of the loss


def factorise(rows: Lists, columns: Lists, dim: int, *, evaluations: int, seed: int = 0) -> Descent:
    """Look for local factors with ``dim`` products, from a drawing with this seed."""
    from scipy.optimize import minimize  # slow to import

    n, m, width = len(rows), len(columns), dim + 1
    done, last = 0, np.inf

    def parts(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return x[: n * width].reshape(n, width), x[n * width :].reshape(m, width)

    def evaluate(x: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal done, last
        gradient = np.zeros_like(x)
        r, c = parts(x)
        right = np.ascontiguousarray(c.T)
        last, most = hinge(r, c, right, rows.start, rows.items, *parts(gradient))
        done += 1
        if most <= _ENOUGH:
            raise _Solved(x.copy())
        return last, gradient

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
    """The same scores with small biases and vectors of similar length."""
    middle = right.mean(axis=0)
    a, right = a + left @ middle, right - middle
    middle = left.mean(axis=0)
    b, left = b + right @ middle, left - middle
    shift = (a.max() + a.min()) / 2
    longest = [np.sqrt((x**2).sum(axis=1).max(initial=0)) or 1.0 for x in (left, right)]
    scale = np.sqrt(longest[1] / longest[0])
    return LocalFactors(a - shift, b + shift, left * scale, right / scale)


# -- the drawing -----------------------------------------------------------------------------------


@kernel
def all_steps(start, items, steps):
    """steps[u, v] = number of edges on a shortest path from u to v, in a connected graph."""
    n = start.shape[0] - 1
    queue = np.empty(n, dtype=np.int64)
    for u in range(n):
        seen = steps[u]
        for v in range(n):
            seen[v] = -1
        seen[u] = 0
        queue[0] = u
        head, tail = 0, 1
        while head < tail:
            v = queue[head]
            head += 1
            for k in range(start[v], start[v + 1]):
                w = items[k]
                if seen[w] < 0:
                    seen[w] = seen[v] + 1
                    queue[tail] = w
                    tail += 1


@kernel
def draw(steps, orders, sizes, points):
    """Move pairs of points towards their wanted distance (Zheng, Pawar and Goodman, 2018).

    ``sizes`` are the step sizes, one per round; near pairs have larger weights than far ones.
    """
    n, d = points.shape
    for r in range(sizes.shape[0]):
        for p in range(n):
            i = orders[r, p]
            for q in range(p):
                j = orders[r, q]
                wanted = float(steps[i, j])
                share = min(1.0, sizes[r] / (wanted * wanted))
                length = 1e-12
                for k in range(d):
                    gap = points[i, k] - points[j, k]
                    length += gap * gap
                length = np.sqrt(length)
                pull = share * (length - wanted) / (2 * length)
                for k in range(d):
                    gap = pull * (points[i, k] - points[j, k])
                    points[i, k] -= gap
                    points[j, k] += gap


def drawing(rows: Lists, columns: Lists, dim: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points in ``dim`` dimensions for the rows and the columns of a connected block."""
    n, m = len(rows), len(columns)
    graph = bipartite(rows, columns)
    steps = np.empty((n + m, n + m), dtype=np.int16)
    all_steps(graph.indptr, graph.indices, steps)
    random = np.random.default_rng(seed)
    points = random.normal(size=(n + m, dim))
    first = float(steps.max(initial=1)) ** 2
    sizes = np.geomspace(first, _LAST_STEP, _ROUNDS)
    orders = np.stack([random.permutation(n + m) for _ in range(_ROUNDS)])
    draw(steps, orders, sizes, points)
    return points[:n], points[n:]
