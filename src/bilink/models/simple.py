"""SimplE (Kazemi and Poole, 2018): s = ½ Σₖ (aₖ uₖ bₖ′ + a′ₖ vₖ bₖ), the mean of two CPs.

An entity (a, b) is one vector as head and another as tail, a prime marks the tail's; a relation
(u, v) has one vector for each direction.
"""

import numpy as np

from bilink._jit import verb
from bilink.models.inner import DOT

NAME = "simple"
TITLE = "SimplE"
COMPARISON = DOT


def widths(dim: int) -> tuple[int, int]:
    """Two vectors of ``dim`` numbers each."""
    return 2 * dim, 2 * dim


@verb
def tail_query(head, relation, query):
    """Q = ½ (b ∘ v, a ∘ u)."""
    d = query.shape[0] // 2
    half = query.dtype.type(0.5)
    for k in range(d):
        query[k] = half * head[d + k] * relation[d + k]
        query[d + k] = half * head[k] * relation[k]


@verb
def head_query(tail, relation, query):
    """Q = ½ (b ∘ u, a ∘ v)."""
    d = query.shape[0] // 2
    half = query.dtype.type(0.5)
    for k in range(d):
        query[k] = half * tail[d + k] * relation[k]
        query[d + k] = half * tail[k] * relation[d + k]


@verb
def tail_pullback(head, relation, slope, head_slope, relation_slope):
    """Carry the slope in q = ½ (b ∘ v, a ∘ u) back to (a, b) and (u, v)."""
    d = slope.shape[0] // 2
    half = slope.dtype.type(0.5)
    for k in range(d):
        x, y = half * slope[k], half * slope[d + k]
        head_slope[k] += y * relation[k]
        head_slope[d + k] += x * relation[d + k]
        relation_slope[k] += y * head[k]
        relation_slope[d + k] += x * head[d + k]


@verb
def head_pullback(tail, relation, slope, tail_slope, relation_slope):
    """Carry the slope in q = ½ (b ∘ u, a ∘ v) back to (a, b) and (u, v)."""
    d = slope.shape[0] // 2
    half = slope.dtype.type(0.5)
    for k in range(d):
        x, y = half * slope[k], half * slope[d + k]
        tail_slope[k] += y * relation[d + k]
        tail_slope[d + k] += x * relation[k]
        relation_slope[k] += x * tail[d + k]
        relation_slope[d + k] += y * tail[k]


def matrix(relation: np.ndarray) -> np.ndarray:
    """½ [[0, diag u], [diag v, 0]]."""
    u, v = np.split(relation, 2)
    zero = np.zeros((len(u), len(u)), dtype=relation.dtype)
    return np.block([[zero, np.diag(u) / 2], [np.diag(v) / 2, zero]]).astype(relation.dtype)
