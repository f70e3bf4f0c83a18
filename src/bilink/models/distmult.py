"""DistMult (Yang et al., 2015): s = Σₖ hₖ rₖ tₖ, a diagonal relation matrix."""

import numpy as np

from bilink._jit import kernel_function
from bilink.models.form import INNER_PRODUCT

NAME = "distmult"
TITLE = "DistMult"
FORM = INNER_PRODUCT


def widths(dim: int) -> tuple[int, int]:
    """How many numbers an entity and a relation have."""
    return dim, dim


@kernel_function
def tail_query(head, relation, query):
    """q = h ∘ r."""
    for k in range(query.shape[0]):
        query[k] = head[k] * relation[k]


@kernel_function
def tail_backward(head, relation, gradient, head_gradient, relation_gradient):
    """Carry the gradient in q = h ∘ r back to h and r."""
    for k in range(gradient.shape[0]):
        head_gradient[k] += relation[k] * gradient[k]
        relation_gradient[k] += head[k] * gradient[k]


# A diagonal matrix is its own transpose.
head_query = tail_query
head_backward = tail_backward


def matrix(relation: np.ndarray) -> np.ndarray:
    """diag(r)."""
    return np.diag(relation)
