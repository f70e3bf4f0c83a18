"""ComplEx (Trouillon et al., 2016): s = Re Σₖ hₖ rₖ t̄ₖ over complex numbers.

A row holds the real parts in its first half and the imaginary parts in its second.  The conjugate
on the tail matters: without it, as the formula of Wang et al. (2018) is printed, every relation
would be symmetric.
"""

import numpy as np

from bilink._jit import kernel_function
from bilink.models.form import INNER_PRODUCT

NAME = "complex"
TITLE = "ComplEx"
FORM = INNER_PRODUCT


def widths(dim: int) -> tuple[int, int]:
    """``dim`` complex numbers are 2·dim real ones."""
    return 2 * dim, 2 * dim


@kernel_function
def tail_query(head, relation, query):
    """q = h r."""
    d = query.shape[0] // 2
    for k in range(d):
        query[k] = head[k] * relation[k] - head[d + k] * relation[d + k]
        query[d + k] = head[k] * relation[d + k] + head[d + k] * relation[k]


@kernel_function
def head_query(tail, relation, query):
    """q = t r̄."""
    d = query.shape[0] // 2
    for k in range(d):
        query[k] = tail[k] * relation[k] + tail[d + k] * relation[d + k]
        query[d + k] = tail[d + k] * relation[k] - tail[k] * relation[d + k]


@kernel_function
def tail_backward(head, relation, gradient, head_gradient, relation_gradient):
    """Carry the gradient g in q = h r back: g r̄ to h, g h̄ to r."""
    d = gradient.shape[0] // 2
    for k in range(d):
        x, y = gradient[k], gradient[d + k]
        head_gradient[k] += x * relation[k] + y * relation[d + k]
        head_gradient[d + k] += y * relation[k] - x * relation[d + k]
        relation_gradient[k] += x * head[k] + y * head[d + k]
        relation_gradient[d + k] += y * head[k] - x * head[d + k]


@kernel_function
def head_backward(tail, relation, gradient, tail_gradient, relation_gradient):
    """Carry the gradient g in q = t r̄ back: g r to t, ḡ t to r."""
    d = gradient.shape[0] // 2
    for k in range(d):
        x, y = gradient[k], gradient[d + k]
        tail_gradient[k] += x * relation[k] - y * relation[d + k]
        tail_gradient[d + k] += y * relation[k] + x * relation[d + k]
        relation_gradient[k] += x * tail[k] + y * tail[d + k]
        relation_gradient[d + k] += x * tail[d + k] - y * tail[k]


@kernel_function
def cube_gradient(row, weight, out):
    """out += weight times the gradient of Σ|xₖ|³ over complex numbers."""
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
