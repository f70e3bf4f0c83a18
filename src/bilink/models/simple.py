"""SimplE (Kazemi and Poole, 2018): s = ½ Σₖ (aₖ uₖ bₖ′ + a′ₖ vₖ bₖ), the mean of two CPs.

An entity (a, b) is one vector as head and another as tail, a prime marks the tail's; a relation
(u, v) has one vector for each direction.
"""

import numpy as np

from bilink._jit import kernel_function
from bilink.models.form import INNER_PRODUCT

NAME = "simple"
TITLE = "SimplE"
FORM = INNER_PRODUCT


def widths(dim: int) -> tuple[int, int]:
    """Two vectors of ``dim`` numbers each."""
    return 2 * dim, 2 * dim


@kernel_function
def tail_query(head, relation, query):
    """q = ½ (b ∘ v, a ∘ u)."""
    d = query.shape[0] // 2
    half = query.dtype.type(0.5)
    for k in range(d):
        query[k] = half * head[d + k] * relation[d + k]
        query[d + k] = half * head[k] * relation[k]


@kernel_function
def head_query(tail, relation, query):
    """q = ½ (b ∘ u, a ∘ v)."""
    d = query.shape[0] // 2
    half = query.dtype.type(0.5)
    for k in range(d):
        query[k] = half * tail[d + k] * relation[k]
        query[d + k] = half * tail[k] * relation[d + k]


@kernel_function
def tail_backward(head, relation, gradient, head_gradient, relation_gradient):
    """Carry the gradient in q = ½ (b ∘ v, a ∘ u) back to (a, b) and (u, v)."""
    d = gradient.shape[0] // 2
    half = gradient.dtype.type(0.5)
    for k in range(d):
        x, y = half * gradient[k], half * gradient[d + k]
        head_gradient[k] += y * relation[k]
        head_gradient[d + k] += x * relation[d + k]
        relation_gradient[k] += y * head[k]
        relation_gradient[d + k] += x * head[d + k]


@kernel_function
def head_backward(tail, relation, gradient, tail_gradient, relation_gradient):
    """Carry the gradient in q = ½ (b ∘ u, a ∘ v) back to (a, b) and (u, v)."""
    d = gradient.shape[0] // 2
    half = gradient.dtype.type(0.5)
    for k in range(d):
        x, y = half * gradient[k], half * gradient[d + k]
        tail_gradient[k] += y * relation[d + k]
        tail_gradient[d + k] += x * relation[k]
        relation_gradient[k] += x * tail[d + k]
        relation_gradient[d + k] += y * tail[k]


def matrix(relation: np.ndarray) -> np.ndarray:
    """½ [[0, diag u], [diag v, 0]]."""
    u, v = np.split(relation, 2)
    zero = np.zeros((len(u), len(u)), dtype=relation.dtype)
    return np.block([[zero, np.diag(u) / 2], [np.diag(v) / 2, zero]]).astype(relation.dtype)
