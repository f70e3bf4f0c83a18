"""RotatE (Sun et al., 2019): s = −‖h ∘ exp(iθ) − t‖², a turn of each complex coordinate.

The distance is squared, as in TransE; that leaves the ranking as it is, and makes the score a
bilinear form of entities that carry two more numbers, (1, e, ‖e‖²); see ``matrix``.
"""

import numpy as np

from bilink._jit import verb
from bilink.models.inner import SQUARED_DISTANCE
from bilink.models.transe import bilinear_entities

NAME = "rotate"
TITLE = "RotatE"
COMPARISON = SQUARED_DISTANCE

__all__ = ["bilinear_entities"]


def widths(dim: int) -> tuple[int, int]:
    """An entity has ``dim`` complex numbers, a relation as many angles."""
    return 2 * dim, dim


@verb
def tail_query(head, relation, query):
    """Q = h exp(iθ)."""
    d = relation.shape[0]
    for k in range(d):
        c, s = np.cos(relation[k]), np.sin(relation[k])
        query[k] = head[k] * c - head[d + k] * s
        query[d + k] = head[k] * s + head[d + k] * c


@verb
def head_query(tail, relation, query):
    """Q = t exp(−iθ)."""
    d = relation.shape[0]
    for k in range(d):
        c, s = np.cos(relation[k]), np.sin(relation[k])
        query[k] = tail[k] * c + tail[d + k] * s
        query[d + k] = tail[d + k] * c - tail[k] * s


@verb
def tail_pullback(head, relation, slope, head_slope, relation_slope):
    """Carry the slope in q = h exp(iθ) back: turned back to h; to θ what points along i q."""
    d = relation.shape[0]
    for k in range(d):
        c, s = np.cos(relation[k]), np.sin(relation[k])
        x, y = slope[k], slope[d + k]
        head_slope[k] += x * c + y * s
        head_slope[d + k] += y * c - x * s
        real, imaginary = head[k] * c - head[d + k] * s, head[k] * s + head[d + k] * c
        relation_slope[k] += y * real - x * imaginary


@verb
def head_pullback(tail, relation, slope, tail_slope, relation_slope):
    """Carry the slope in q = t exp(−iθ) back: turned to t; to θ what points along −i q."""
    d = relation.shape[0]
    for k in range(d):
        c, s = np.cos(relation[k]), np.sin(relation[k])
        x, y = slope[k], slope[d + k]
        tail_slope[k] += x * c - y * s
        tail_slope[d + k] += x * s + y * c
        real, imaginary = tail[k] * c + tail[d + k] * s, tail[d + k] * c - tail[k] * s
        relation_slope[k] += x * imaginary - y * real


def matrix(relation: np.ndarray) -> np.ndarray:
    """The form on entities (1, e, ‖e‖²) whose value is −‖h exp(iθ) − t‖²."""
    d = len(relation)
    c, s = np.diag(np.cos(relation)), np.diag(np.sin(relation))
    form = np.zeros((2 * d + 2, 2 * d + 2), dtype=relation.dtype)
    form[1:-1, 1:-1] = 2 * np.block([[c, s], [-s, c]])
    form[0, -1] = form[-1, 0] = -1
    return form
