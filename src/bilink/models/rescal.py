"""RESCAL (Nickel et al., 2011): s = hᵀ R t, an unconstrained relation matrix.

A relation's row is its matrix, row by row: dim² numbers.
"""

import numpy as np

from bilink._jit import kernel_function
from bilink.models.form import INNER_PRODUCT, dot

NAME = "rescal"
TITLE = "RESCAL"
FORM = INNER_PRODUCT


def widths(dim: int) -> tuple[int, int]:
    """An entity has ``dim`` numbers, a relation dim²."""
    return dim, dim * dim


def initial_bounds(n_entities: int, dim: int) -> tuple[float, float]:
    """Of the initial values in the code of Wang et al. (2018): Glorot's rule for each matrix."""
    return (6 / (n_entities + dim)) ** 0.5, (6 / (2 * dim)) ** 0.5


@kernel_function
def tail_query(head, relation, query):
    """q = Rᵀ h."""
    d = query.shape[0]
    for j in range(d):
        query[j] = 0
    for i in range(d):
        x = head[i]
        for j in range(d):
            query[j] += x * relation[i * d + j]


@kernel_function
def head_query(tail, relation, query):
    """q = R t."""
    d = query.shape[0]
    for i in range(d):
        query[i] = dot(relation[i * d : (i + 1) * d], tail)


@kernel_function
def tail_backward(head, relation, gradient, head_gradient, relation_gradient):
    """Carry the gradient g in q = Rᵀ h back: R g to h, the rank-one matrix h gᵀ to R."""
    d = gradient.shape[0]
    for i in range(d):
        x = head[i]
        head_gradient[i] += dot(relation[i * d : (i + 1) * d], gradient)
        for j in range(d):
            relation_gradient[i * d + j] += x * gradient[j]


@kernel_function
def head_backward(tail, relation, gradient, tail_gradient, relation_gradient):
    """Carry the gradient g in q = R t back: Rᵀ g to t, the rank-one matrix g tᵀ to R."""
    d = gradient.shape[0]
    for i in range(d):
        x = gradient[i]
        for j in range(d):
            tail_gradient[j] += x * relation[i * d + j]
        for j in range(d):
            relation_gradient[i * d + j] += x * tail[j]


def matrix(relation: np.ndarray) -> np.ndarray:
    """R itself."""
    d = round(len(relation) ** 0.5)
    return relation.reshape(d, d)
