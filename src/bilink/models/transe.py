"""TransE (Bordes et al., 2013): s = −‖h + r − t‖², the squared distance as in Wang et al. (2018).

As a bilinear form its entities carry two more numbers, (e, ‖e‖², 1); see ``matrix``.  ``L1`` is the
same with the Manhattan distance, s = −‖h + r − t‖₁: the one model that is no bilinear form, has
no matrix, and is ranked without matrix products.
"""

from types import SimpleNamespace

import numpy as np

from bilink._jit import kernel_function
from bilink.models.form import MANHATTAN, SQUARED_DISTANCE

NAME = "transe"
TITLE = "TransE"
FORM = SQUARED_DISTANCE


def widths(dim: int) -> tuple[int, int]:
    """How many numbers an entity and a relation have."""
    return dim, dim


def initial_bounds(n_entities: int, dim: int) -> tuple[float, None]:
    """Of the initial values in the code of Wang et al. (2018), a tenth of those of TransE's."""
    return 0.6 / dim**0.5, None


@kernel_function
def tail_query(head, relation, query):
    """q = h + r."""
    for k in range(query.shape[0]):
        query[k] = head[k] + relation[k]


@kernel_function
def head_query(tail, relation, query):
    """q = t − r."""
    for k in range(query.shape[0]):
        query[k] = tail[k] - relation[k]


@kernel_function
def tail_backward(head, relation, gradient, head_gradient, relation_gradient):
    """Carry the gradient in q = h + r back to h and r."""
    for k in range(gradient.shape[0]):
        head_gradient[k] += gradient[k]
        relation_gradient[k] += gradient[k]


@kernel_function
def head_backward(tail, relation, gradient, tail_gradient, relation_gradient):
    """Carry the gradient in q = t − r back to t and r."""
    for k in range(gradient.shape[0]):
        tail_gradient[k] += gradient[k]
        relation_gradient[k] -= gradient[k]


def matrix(relation: np.ndarray) -> np.ndarray:
    """The form on entities (e, ‖e‖², 1) whose value is −‖h + r − t‖²."""
    d = len(relation)
    form = np.zeros((d + 2, d + 2), dtype=relation.dtype)
    form[:d, :d] = 2 * np.eye(d, dtype=relation.dtype)
    form[:d, -1] = -2 * relation
    form[-1, :d] = 2 * relation
    form[-1, -1] = -relation @ relation
    form[-2, -1] = form[-1, -2] = -1
    return form


L1 = SimpleNamespace(
    NAME="transe-l1",
    TITLE="TransE (L1)",
    FORM=MANHATTAN,
    widths=widths,
    initial_bounds=initial_bounds,
    tail_query=tail_query,
    head_query=head_query,
    tail_backward=tail_backward,
    head_backward=head_backward,
)
