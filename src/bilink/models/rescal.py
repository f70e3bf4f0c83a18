"""RESCAL (Nickel et al., 2011): s = hᵀ R t, an unconstrained relation matrix.

A relation's row is its matrix, row by row: dim² numbers.
"""

import numpy as np

from bilink._jit import verb
from bilink.models.inner import DOT, dot

NAME = "rescal"
TITLE = "RESCAL"
COMPARISON = DOT


def widths(dim: int) -> tuple[int, int]:
    """An entity has ``dim`` numbers, a relation dim²."""
    return dim, dim * dim


@verb
def tail_query(head, relation, query):
    """Q = Rᵀ h."""
    d = query.shape[0]
    for j in range(d):
        query[j] = 0
    for i in range(d):
        x = head[i]
        for j in range(d):
            query[j] += x * relation[i * d + j]


@verb
def head_query(tail, relation, query):
    """Q = R t."""
    d = query.shape[0]
    for i in range(d):
        query[i] = dot(relation[i * d : (i + 1) * d], tail)


@verb
def tail_pullback(head, relation, slope, head_slope, relation_slope):
    """Carry the slope g in q = Rᵀ h back: R g to h, the rank-one matrix h gᵀ to R."""
    d = slope.shape[0]
    for i in range(d):
        x = head[i]
        head_slope[i] += dot(relation[i * d : (i + 1) * d], slope)
        for j in range(d):
            relation_slope[i * d + j] += x * slope[j]


@verb
def head_pullback(tail, relation, slope, tail_slope, relation_slope):
    """Carry the slope g in q = R t back: Rᵀ g to t, the rank-one matrix g tᵀ to R."""
    d = slope.shape[0]
    for i in range(d):
        x = slope[i]
        for j in range(d):
            tail_slope[j] += x * relation[i * d + j]
        for j in range(d):
            relation_slope[i * d + j] += x * tail[j]


def matrix(relation: np.ndarray) -> np.ndarray:
    """R itself."""
    d = round(len(relation) ** 0.5)
    return relation.reshape(d, d)
