"""CP (Hitchcock, 1927): s = Σₖ aₖ rₖ bₖ, where an entity is another vector as head and as tail.

A row holds the vector as head in its first half and the vector as tail in its second.  Alone, CP
learns little of an entity that stands on one side only; its reciprocal model,
``cp-reciprocal``, joins the two (Lacroix et al., 2018).
"""

import numpy as np

from bilink._jit import kernel_function
from bilink.models.form import INNER_PRODUCT

NAME = "cp"
TITLE = "CP"
FORM = INNER_PRODUCT


def widths(dim: int) -> tuple[int, int]:
    """An entity has two vectors of ``dim`` numbers, a relation one."""
    return 2 * dim, dim


@kernel_function
def tail_query(head, relation, query):
    """q = (0, a ∘ r), where the head is (a, b)."""
    d = relation.shape[0]
    for k in range(d):
        query[k] = 0
        query[d + k] = head[k] * relation[k]


@kernel_function
def head_query(tail, relation, query):
    """q = (b ∘ r, 0), where the tail is (a, b)."""
    d = relation.shape[0]
    for k in range(d):
        query[k] = tail[d + k] * relation[k]
        query[d + k] = 0


@kernel_function
def tail_backward(head, relation, gradient, head_gradient, relation_gradient):
    """Carry the gradient in q = (0, a ∘ r) back to the head and r."""
    d = relation.shape[0]
    for k in range(d):
        head_gradient[k] += gradient[d + k] * relation[k]
        relation_gradient[k] += gradient[d + k] * head[k]


@kernel_function
def head_backward(tail, relation, gradient, tail_gradient, relation_gradient):
    """Carry the gradient in q = (b ∘ r, 0) back to the tail and r."""
    d = relation.shape[0]
    for k in range(d):
        tail_gradient[d + k] += gradient[k] * relation[k]
        relation_gradient[k] += gradient[k] * tail[d + k]


def matrix(relation: np.ndarray) -> np.ndarray:
    """[[0, diag r], [0, 0]]."""
    form = np.zeros((2 * len(relation), 2 * len(relation)), dtype=relation.dtype)
    form[: len(relation), len(relation) :] = np.diag(relation)
    return form
