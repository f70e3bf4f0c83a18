"""TransR (Lin et al., 2015): s = −‖M h + r − M t‖², with a matrix M for each relation.

A relation's row is r and, row by row, M: dim + dim² numbers; relations have as many coordinates as
entities.  A query is (u, M) with u = M h + r or u = M t − r.  Ranking projects the entities once
for each relation, and then it is TransE.

As the authors advise, M is the identity at first, so that training starts as that of a TransE; see
also the option ``start``.  The norms of entities may be bounded, those of M h and M t are not.
"""

from itertools import pairwise

import numpy as np

from bilink._jit import kernel_function
from bilink.models.form import dot, norms
from bilink.models.readout import Readout, lifted

NAME = "transr"
TITLE = "TransR"
_TILE = 1024  # entities that are projected at once


def widths(dim: int) -> tuple[int, int]:
    """A relation has a translation and a matrix."""
    return dim, dim + dim * dim


@kernel_function
def query_width(width):
    """Where the answer's projection should be, and the matrix."""
    return width + width * width


@kernel_function
def tail_query(head, relation, query):
    """(M h + r, M)."""
    d = head.shape[0]
    for i in range(d):
        query[i] = dot(relation[d + i * d : 2 * d + i * d], head) + relation[i]
    for k in range(d, query.shape[0]):
        query[k] = relation[k]


@kernel_function
def head_query(tail, relation, query):
    """(M t − r, M)."""
    d = tail.shape[0]
    for i in range(d):
        query[i] = dot(relation[d + i * d : 2 * d + i * d], tail) - relation[i]
    for k in range(d, query.shape[0]):
        query[k] = relation[k]


@kernel_function
def _projection_backward(entity, relation, gradient, entity_gradient, relation_gradient):
    """Carry the gradient in (M e, M) back to e and M."""
    d = entity.shape[0]
    for k in range(d, gradient.shape[0]):
        relation_gradient[k] += gradient[k]
    for i in range(d):
        x, start = gradient[i], d + i * d
        for k in range(d):
            entity_gradient[k] += x * relation[start + k]
        for k in range(d):
            relation_gradient[start + k] += x * entity[k]


@kernel_function
def tail_backward(head, relation, gradient, head_gradient, relation_gradient):
    """Carry the gradient in (M h + r, M) back to h and (r, M)."""
    for i in range(head.shape[0]):
        relation_gradient[i] += gradient[i]
    _projection_backward(head, relation, gradient, head_gradient, relation_gradient)


@kernel_function
def head_backward(tail, relation, gradient, tail_gradient, relation_gradient):
    """Carry the gradient in (M t − r, M) back to t and (r, M)."""
    for i in range(tail.shape[0]):
        relation_gradient[i] -= gradient[i]
    _projection_backward(tail, relation, gradient, tail_gradient, relation_gradient)


def begin(relations: np.ndarray, translations: np.ndarray | None = None) -> None:
    """Matrices start as the identity, translations as those of a TransE where it is given."""
    d = _dim(relations.shape[1])
    relations[:, d:] = np.eye(d, dtype=relations.dtype).ravel()
    if translations is not None:
        relations[:, :d] = translations


# -- how a query is compared with an entity --------------------------------------------------------


@kernel_function
def compare(query, entity):
    """−‖u − M e‖²."""
    d = entity.shape[0]
    total = query.dtype.type(0)
    for i in range(d):
        gap = query[i] - dot(query[d + i * d : 2 * d + i * d], entity)
        total -= gap * gap
    return total


@kernel_function
def query_gradient(query, entity, weight, out):
    """out += weight · (−2x, 2x eᵀ) with x = u − M e."""
    d = entity.shape[0]
    double = weight + weight
    for i in range(d):
        start = d + i * d
        gap = double * (query[i] - dot(query[start : start + d], entity))
        out[i] -= gap
        for k in range(d):
            out[start + k] += gap * entity[k]


@kernel_function
def entity_gradient(query, entity, weight, out):
    """out += weight · 2 Mᵀ x with x = u − M e."""
    d = entity.shape[0]
    double = weight + weight
    for i in range(d):
        start = d + i * d
        gap = double * (query[i] - dot(query[start : start + d], entity))
        for k in range(d):
            out[k] += gap * query[start + k]


class _Form(Readout):
    """−Σᵢ (uᵢ − ⟨Mᵢ, e⟩)², one form for each row of M."""

    name = "distance after a projection"

    def scores(self, queries: np.ndarray, candidates: np.ndarray, out: np.ndarray) -> None:
        """out[i, j] = the score of candidate j for query i; queries of a relation share M."""
        d = candidates.shape[1]
        starts = _starts(queries, d)
        rows = np.empty((min(_TILE, len(candidates)), d + 2), dtype=candidates.dtype)
        rows[:, -1] = 1
        for first, last in pairwise(starts):
            left, matrix = lifted(queries[first:last, :d]), queries[first, d:].reshape(d, d)
            for start in range(0, len(candidates), _TILE):
                entities = candidates[start : start + _TILE]
                right = rows[: len(entities)]
                np.matmul(entities, matrix.T, out=right[:, :d])
                np.einsum("ij,ij->i", right[:, :d], right[:, :d], out=right[:, d])
                np.matmul(left, right.T, out=out[first:last, start : start + _TILE])

    def sizes(self, queries: np.ndarray, norm: float) -> np.ndarray:
        """(‖u‖ + ‖M‖ ‖e‖)², with two bounds on the norm of M: Frobenius', and that of its sums."""
        d = _dim(queries.shape[1])
        starts = _starts(queries, d)
        matrices = np.abs(queries[starts[:-1], d:]).reshape(-1, d, d)
        sums = matrices.sum(axis=1).max(axis=1) * matrices.sum(axis=2).max(axis=1)
        squares = np.minimum(sums, np.einsum("ijk,ijk->i", matrices, matrices))
        stretch = np.repeat(np.sqrt(squares), np.diff(starts))
        return 8 * (norms(queries[:, :d]) + stretch * norm) ** 2


def _dim(width: int) -> int:
    """The d of d + d² numbers."""
    return round((width + 0.25) ** 0.5 - 0.5)


def _starts(queries: np.ndarray, d: int) -> np.ndarray:
    """Where queries with another matrix start, and the end."""
    new = (queries[1:, d:] != queries[:-1, d:]).any(axis=1)
    return np.flatnonzero(np.concatenate([[True], new, [True]]))


FORM = _Form(NAME, compare, query_gradient, entity_gradient, query_width)
