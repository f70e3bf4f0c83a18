"""DistMult (Yang et al., 2015): s = Σₖ hₖ rₖ tₖ, a diagonal relation matrix."""

import numpy as np

from bilink._jit import verb
from bilink.models.inner import DOT

NAME = "distmult"
TITLE = "DistMult"
COMPARISON = DOT


def widths(dim: int) -> tuple[int, int]:
    """How many numbers an entity and a relation have."""
    return dim, dim


@verb
def tail_query(head, relation, query):
    """Q = h ∘ r."""
    for k in range(query.shape[0]):
        query[k] = head[k] * relation[k]


@verb
def tail_pullback(head, relation, slope, head_slope, relation_slope):
    """Carry the slope in q = h ∘ r back to h and r."""
    for k in range(slope.shape[0]):
        head_slope[k] += relation[k] * slope[k]
        relation_slope[k] += head[k] * slope[k]


# A diagonal matrix is its own transpose.
head_query = tail_query
head_pullback = tail_pullback


def matrix(relation: np.ndarray) -> np.ndarray:
    """diag(r)."""
    return np.diag(relation)
