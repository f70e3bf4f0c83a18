"""QuatE (Zhang et al., 2019): s = Σₖ ⟨hₖ rₖ, tₖ⟩ over quaternions, ComplEx with four parts for two.

A row holds the real parts in its first quarter, then those of i, j and k.  Relations may have any
length, so that scores are linear in them; the paper's have length one.
"""

import numpy as np

from bilink._jit import kernel_function
from bilink.models.form import INNER_PRODUCT

NAME = "quate"
TITLE = "QuatE"
FORM = INNER_PRODUCT


def widths(dim: int) -> tuple[int, int]:
    """``dim`` quaternions are 4·dim real numbers."""
    return 4 * dim, 4 * dim


@kernel_function
def add_product(left, left_sign, right, right_sign, out):
    """out += left · right, quaternion by quaternion; a sign of −1 means the conjugate."""
    d = out.shape[0] // 4
    x, y = out.dtype.type(left_sign), out.dtype.type(right_sign)
    for n in range(d):
        a, b, c, e = left[n], x * left[d + n], x * left[2 * d + n], x * left[3 * d + n]
        p, q, u, v = right[n], y * right[d + n], y * right[2 * d + n], y * right[3 * d + n]
        out[n] += a * p - b * q - c * u - e * v
        out[d + n] += a * q + b * p + c * v - e * u
        out[2 * d + n] += a * u - b * v + c * p + e * q
        out[3 * d + n] += a * v + b * u - c * q + e * p


@kernel_function
def tail_query(head, relation, query):
    """q = h r."""
    query[:] = 0
    add_product(head, 1, relation, 1, query)


@kernel_function
def head_query(tail, relation, query):
    """q = t r̄."""
    query[:] = 0
    add_product(tail, 1, relation, -1, query)


@kernel_function
def tail_backward(head, relation, gradient, head_gradient, relation_gradient):
    """Carry the gradient g in q = h r back: g r̄ to h, h̄ g to r."""
    add_product(gradient, 1, relation, -1, head_gradient)
    add_product(head, -1, gradient, 1, relation_gradient)


@kernel_function
def head_backward(tail, relation, gradient, tail_gradient, relation_gradient):
    """Carry the gradient g in q = t r̄ back: g r to t, ḡ t to r."""
    add_product(gradient, 1, relation, 1, tail_gradient)
    add_product(gradient, -1, tail, 1, relation_gradient)


@kernel_function
def cube_gradient(row, weight, out):
    """out += weight times the gradient of Σ|xₖ|³ over quaternions."""
    d = row.shape[0] // 4
    triple = weight * row.dtype.type(3)
    for n in range(d):
        square = row[n] * row[n] + row[d + n] * row[d + n]
        square += row[2 * d + n] * row[2 * d + n] + row[3 * d + n] * row[3 * d + n]
        size = triple * np.sqrt(square)
        for part in range(n, 4 * d, d):
            out[part] += size * row[part]


def matrix(relation: np.ndarray) -> np.ndarray:
    """Sixteen diagonal blocks: what stands at the right of h is turned by each quaternion."""
    p, q, u, v = (np.diag(part) for part in np.split(relation, 4))
    return np.block([[p, q, u, v], [-q, p, -v, u], [-u, v, p, -q], [-v, -u, q, p]])
