"""A block drawn as a graph: rows and columns as points whose distances are their steps apart.

A row stands within one step of its ones, and three or more from its zeros; so a disc around each
row nearly solves the block already, if the drawing is a good one.
"""

import numpy as np

from bilink._jit import kernel
from bilink.theory.rounding.boolean import Lists, bipartite

_ROUNDS = 30
_LAST_STEP = 0.05


@kernel
def all_steps(start, items, steps):
    """steps[u, v] = edges on a shortest way from u to v, in a connected graph."""
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
    """Move pairs of points towards their right distance (Zheng, Pawar and Goodman, 2018).

    ``sizes`` are the steps of descent, one per round; near pairs weigh more than far ones.
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
    """Places in ``dim`` dimensions of the rows and the columns of a connected block."""
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
