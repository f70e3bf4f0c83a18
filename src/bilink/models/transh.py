"""TransH (Wang et al., 2014): s = −‖h′ + d − t′‖², h′ and t′ being projections on a hyperplane.

The plane of a relation has the unit normal w, and h′ = h − ⟨w, h⟩ w; d lies in the plane.  A
relation's row is (d, w).  The formula takes w/‖w‖ for w and leaves out what of d is along it, so
that the paper's constraints hold for any row.  With q = h + d and x = q − t,

    s = −‖x‖² + ⟨w, x⟩²,

two forms of the same candidate.  A query is (q, w).
"""

from collections.abc import Sequence

import numpy as np

from bilink._jit import kernel_function, reduction
from bilink.models.form import SQUARED_DISTANCE, dot, norms, squared_distance
from bilink.models.readout import Readout, lifted

NAME = "transh"
TITLE = "TransH"


def widths(dim: int) -> tuple[int, int]:
    """A relation has a translation and a normal."""
    return dim, 2 * dim


@kernel_function
def query_width(width):
    """Where the answer should be, and the normal."""
    return 2 * width


@kernel_function
def _fill_normal(relation, query):
    """The unit normal behind the point."""
    d = query.shape[0] // 2
    size = dot(relation[d:], relation[d:])
    scale = query.dtype.type(1 / np.sqrt(size)) if size > 0 else query.dtype.type(0)
    for k in range(d, 2 * d):
        query[k] = scale * relation[k]


@kernel_function
def tail_query(head, relation, query):
    """(h + d, w)."""
    for k in range(head.shape[0]):
        query[k] = head[k] + relation[k]
    _fill_normal(relation, query)


@kernel_function
def head_query(tail, relation, query):
    """(t − d, w)."""
    for k in range(tail.shape[0]):
        query[k] = tail[k] - relation[k]
    _fill_normal(relation, query)


@kernel_function
def _normal_backward(relation, gradient, relation_gradient):
    """Carry the gradient in w/‖w‖ back: what of it is across w, over ‖w‖."""
    d = gradient.shape[0] // 2
    normal, wanted = relation[d:], gradient[d:]
    size = dot(normal, normal)
    if size > 0:
        scale = gradient.dtype.type(1 / np.sqrt(size))
        along = dot(normal, wanted) / size
        for k in range(d):
            relation_gradient[d + k] += scale * (wanted[k] - along * normal[k])


@kernel_function
def tail_backward(head, relation, gradient, head_gradient, relation_gradient):
    """Carry the gradient in (h + d, w) back to h and (d, w)."""
    for k in range(head.shape[0]):
        head_gradient[k] += gradient[k]
        relation_gradient[k] += gradient[k]
    _normal_backward(relation, gradient, relation_gradient)


@kernel_function
def head_backward(tail, relation, gradient, tail_gradient, relation_gradient):
    """Carry the gradient in (t − d, w) back to t and (d, w)."""
    for k in range(tail.shape[0]):
        tail_gradient[k] += gradient[k]
        relation_gradient[k] -= gradient[k]
    _normal_backward(relation, gradient, relation_gradient)


def begin(relations: np.ndarray, translations: np.ndarray | None = None) -> None:
    """Translations start as those of a TransE, where it is given."""
    if translations is not None:
        relations[:, : translations.shape[1]] = translations


# -- how a query is compared with an entity --------------------------------------------------------


@reduction
def _along(normal, point, entity):
    """⟨w, q − e⟩."""
    total = normal[0] * (point[0] - entity[0])
    for k in range(1, normal.shape[0]):
        total += normal[k] * (point[k] - entity[k])
    return total


@kernel_function
def compare(query, entity):
    """−‖q − e‖² + ⟨w, q − e⟩²."""
    d = query.shape[0] // 2
    along = _along(query[d:], query[:d], entity)
    return squared_distance(query[:d], entity) + along * along


@kernel_function
def query_gradient(query, entity, weight, out):
    """out += weight · (−2x + 2⟨w, x⟩ w, 2⟨w, x⟩ x) with x = q − e."""
    d = query.shape[0] // 2
    double = weight + weight
    along = _along(query[d:], query[:d], entity)
    for k in range(d):
        gap = query[k] - entity[k]
        out[k] += double * (along * query[d + k] - gap)
        out[d + k] += double * along * gap


@kernel_function
def entity_gradient(query, entity, weight, out):
    """out += weight · (2x − 2⟨w, x⟩ w) with x = q − e."""
    d = query.shape[0] // 2
    double = weight + weight
    along = _along(query[d:], query[:d], entity)
    for k in range(d):
        out[k] += double * (query[k] - entity[k] - along * query[d + k])


class _Form(Readout):
    """a + (b − c)², with the squared distance a, b = ⟨w, q⟩ and c = ⟨w, e⟩."""

    name = "readout of two forms"
    extra = SQUARED_DISTANCE.extra

    def candidates(self, entities: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """(e, ‖e‖², 1)."""
        return SQUARED_DISTANCE.candidates(entities, out)

    def products(
        self, queries: np.ndarray, candidates: np.ndarray
    ) -> Sequence[tuple[np.ndarray, np.ndarray]]:
        """The squared distance, and ⟨w, e⟩."""
        d = queries.shape[1] // 2
        return [(lifted(queries[:, :d]), candidates), (queries[:, d:], candidates[:, :d])]

    def read(self, values: np.ndarray, queries: np.ndarray) -> np.ndarray:
        """The distance, and the square of what lies along the normal."""
        d = queries.shape[1] // 2
        distance, along = values
        along -= np.einsum("ij,ij->i", queries[:, :d], queries[:, d:])[:, None]
        np.multiply(along, along, out=along)
        return np.add(distance, along, out=distance)

    def sizes(self, queries: np.ndarray, norm: float) -> np.ndarray:
        """(‖q‖ + ‖e‖)² bounds both squares.

        The lift is a sum of four, each rounded as such a sum, and the other is twice that.
        """
        d = queries.shape[1] // 2
        return 8 * (norms(queries[:, :d]) + norm) ** 2


FORM = _Form(NAME, compare, query_gradient, entity_gradient, query_width)
