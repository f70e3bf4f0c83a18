"""RotatE (Sun et al., 2019): s = −‖h ∘ exp(iθ) − t‖², a turn of each complex coordinate.

The distance is squared, as in TransE; that leaves the ranking as it is, and makes the score a
bilinear form of entities that carry two more numbers, (e, ‖e‖², 1); see ``matrix``.
"""

import numpy as np

from bilink._jit import kernel_function
from bilink.models.form import SQUARED_DISTANCE

NAME = "rotate"
TITLE = "RotatE"
FORM = SQUARED_DISTANCE


def widths(dim: int) -> tuple[int, int]:
    """An entity has ``dim`` complex numbers, a relation as many angles."""
    return 2 * dim, dim


@kernel_function
def tail_query(head, relation, query):
    """q = h exp(iθ)."""
    d = relation.shape[0]
    for k in range(d):
        c, s = np.cos(relation[k]), np.sin(relation[k])
        query[k] = head[k] * c - head[d + k] * s
        query[d + k] = head[k] * s + head[d + k] * c


@kernel_function
def head_query(tail, relation, query):
    """q = t exp(−iθ)."""
    d = relation.shape[0]
    for k in range(d):
        c, s = np.cos(relation[k]), np.sin(relation[k])
        query[k] = tail[k] * c + tail[d + k] * s
        query[d + k] = tail[d + k] * c - tail[k] * s


@kernel_function
def tail_backward(head, relation, gradient, head_gradient, relation_gradient):
    """Carry the gradient in q = h exp(iθ) back: turned back to h; to θ what points along i q."""
    d = relation.shape[0]
    for k in range(d):
        c, s = np.cos(relation[k]), np.sin(relation[k])
        x, y = gradient[k], gradient[d + k]
        head_gradient[k] += x * c + y * s
        head_gradient[d + k] += y * c - x * s
        real, imaginary = head[k] * c - head[d + k] * s, head[k] * s + head[d + k] * c
        relation_gradient[k] += y * real - x * imaginary


@kernel_function
def head_backward(tail, relation, gradient, tail_gradient, relation_gradient):
    """Carry the gradient in q = t exp(−iθ) back: turned to t; to θ what points along −i q."""
    d = relation.shape[0]
    for k in range(d):
        c, s = np.cos(relation[k]), np.sin(relation[k])
        x, y = gradient[k], gradient[d + k]
        tail_gradient[k] += x * c - y * s
        tail_gradient[d + k] += x * s + y * c
        real, imaginary = tail[k] * c + tail[d + k] * s, tail[d + k] * c - tail[k] * s
        relation_gradient[k] += x * imaginary - y * real


def matrix(relation: np.ndarray) -> np.ndarray:
    """The form on entities (e, ‖e‖², 1) whose value is −‖h exp(iθ) − t‖²."""
    d = len(relation)
    c, s = np.diag(np.cos(relation)), np.diag(np.sin(relation))
    form = np.zeros((2 * d + 2, 2 * d + 2), dtype=relation.dtype)
    form[:-2, :-2] = 2 * np.block([[c, s], [-s, c]])
    form[-2, -1] = form[-1, -2] = -1
    return form
