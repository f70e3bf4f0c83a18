"""ComplEx (Trouillon et al., 2016): s = Re Σₖ hₖ rₖ t̄ₖ over complex numbers.

A row holds the real parts in its first half and the imaginary parts in its second.  The conjugate
on the tail matters: without it, as the formula of Wang et al. (2018) is printed, every relation
would be symmetric.
"""

import numpy as np

from bilink._jit import verb
from bilink.models.inner import DOT

NAME = "complex"
TITLE = "ComplEx"
COMPARISON = DOT


def widths(dim: int) -> tuple[int, int]:
    """``dim`` complex numbers are 2·dim real ones."""
    return 2 * dim, 2 * dim


@verb
def tail_query(head, relation, query):
    """Q = h r."""
    d = query.shape[0] // 2
    for k in range(d):
        query[k] = head[k] * relation[k] - head[d + k] * relation[d + k]
        query[d + k] = head[k] * relation[d + k] + head[d + k] * relation[k]


@verb
def head_query(tail, relation, query):
    """Q = t r̄."""
    d = query.shape[0] // 2
    for k in range(d):
        query[k] = tail[k] * relation[k] + tail[d + k] * relation[d + k]
        query[d + k] = tail[d + k] * relation[k] - tail[k] * relation[d + k]


@verb
def tail_pullback(head, relation, slope, head_slope, relation_slope):
    """Carry the slope g in q = h r back: g r̄ to h, g h̄ to r."""
    d = slope.shape[0] // 2
    for k in range(d):
        x, y = slope[k], slope[d + k]
        head_slope[k] += x * relation[k] + y * relation[d + k]
        head_slope[d + k] += y * relation[k] - x * relation[d + k]
        relation_slope[k] += x * head[k] + y * head[d + k]
        relation_slope[d + k] += y * head[k] - x * head[d + k]


@verb
def head_pullback(tail, relation, slope, tail_slope, relation_slope):
    """Carry the slope g in q = t r̄ back: g r to t, ḡ t to r."""
    d = slope.shape[0] // 2
    for k in range(d):
        x, y = slope[k], slope[d + k]
        tail_slope[k] += x * relation[k] - y * relation[d + k]
        tail_slope[d + k] += y * relation[k] + x * relation[d + k]
        relation_slope[k] += x * tail[k] + y * tail[d + k]
        relation_slope[d + k] += x * tail[d + k] - y * tail[k]


@verb
def cube_slope(row, weight, out):
    """Out += weight times the slope of Σ|xₖ|³ over complex numbers."""
    d = row.shape[0] // 2
    triple = weight * row.dtype.type(3)
    for k in range(d):
        size = triple * np.sqrt(row[k] * row[k] + row[d + k] * row[d + k])
        out[k] += size * row[k]
        out[d + k] += size * row[d + k]


def matrix(relation: np.ndarray) -> np.ndarray:
    """[[diag a, diag b], [−diag b, diag a]] for r = a + ib."""
    a, b = np.split(relation, 2)
    return np.block([[np.diag(a), np.diag(b)], [np.diag(-b), np.diag(a)]])
