"""TransG (Xiao et al., 2016): a relation has several meanings, each with a translation of its own.

    s = log Σₘ πₘ exp(−‖h + uₘ − t‖²)

Two simplifications.  The paper's variances σₕ² + σₜ² are 1: the lengths of entities take their
place.  The paper lets a Chinese restaurant process choose how many meanings a relation has; here
all have ``COMPONENTS``, whose weights π are trained, so that those that are not needed fade.

A relation's row is u₁, …, u_M and, behind them, M numbers whose softmax is π.  A query is
(h + u₁, …, h + u_M, log π₁, …, log π_M).
"""

from collections.abc import Sequence

import numpy as np

from bilink._jit import kernel_function
from bilink.models.form import (
    SQUARED_DISTANCE,
    norms,
    squared_distance,
    squared_distance_entity_gradient,
    squared_distance_query_gradient,
)
from bilink.models.readout import Readout, lifted

NAME = "transg"
TITLE = "TransG"
COMPONENTS = 4


def widths(dim: int) -> tuple[int, int]:
    """A relation has translations and weights."""
    return dim, COMPONENTS * (dim + 1)


@kernel_function
def query_width(width):
    """Where the answer should be by each meaning, and the logarithms of their weights."""
    return COMPONENTS * (width + 1)


@kernel_function
def _fill_weights(relation, query):
    """log π, behind the points."""
    first = query.shape[0] - COMPONENTS
    top = relation[first]
    for m in range(first + 1, query.shape[0]):
        top = max(top, relation[m])
    total = query.dtype.type(0)
    for m in range(first, query.shape[0]):
        total += np.exp(relation[m] - top)
    for m in range(first, query.shape[0]):
        query[m] = relation[m] - top - np.log(total)


@kernel_function
def tail_query(head, relation, query):
    """h + uₘ, and log πₘ."""
    d = head.shape[0]
    for m in range(COMPONENTS):
        for k in range(d):
            query[m * d + k] = head[k] + relation[m * d + k]
    _fill_weights(relation, query)


@kernel_function
def head_query(tail, relation, query):
    """t − uₘ, and log πₘ."""
    d = tail.shape[0]
    for m in range(COMPONENTS):
        for k in range(d):
            query[m * d + k] = tail[k] - relation[m * d + k]
    _fill_weights(relation, query)


@kernel_function
def _weights_backward(relation, gradient, relation_gradient):
    """Carry the gradient g in log π back: g − π Σ g."""
    first = gradient.shape[0] - COMPONENTS
    top, wanted = relation[first], gradient[first]
    for m in range(first + 1, gradient.shape[0]):
        top = max(top, relation[m])
        wanted += gradient[m]
    total = gradient.dtype.type(0)
    for m in range(first, gradient.shape[0]):
        total += np.exp(relation[m] - top)
    for m in range(first, gradient.shape[0]):
        relation_gradient[m] += gradient[m] - wanted * np.exp(relation[m] - top) / total


@kernel_function
def tail_backward(head, relation, gradient, head_gradient, relation_gradient):
    """Carry the gradient in h + uₘ and log πₘ back to h and the relation."""
    d = head.shape[0]
    for m in range(COMPONENTS):
        for k in range(d):
            head_gradient[k] += gradient[m * d + k]
            relation_gradient[m * d + k] += gradient[m * d + k]
    _weights_backward(relation, gradient, relation_gradient)


@kernel_function
def head_backward(tail, relation, gradient, tail_gradient, relation_gradient):
    """Carry the gradient in t − uₘ and log πₘ back to t and the relation."""
    d = tail.shape[0]
    for m in range(COMPONENTS):
        for k in range(d):
            tail_gradient[k] += gradient[m * d + k]
            relation_gradient[m * d + k] -= gradient[m * d + k]
    _weights_backward(relation, gradient, relation_gradient)


def begin(relations: np.ndarray, translations: np.ndarray | None = None) -> None:
    """Around the translations of a TransE, where it is given; weights start equal."""
    relations[:, -COMPONENTS:] = 0
    if translations is not None:
        relations[:, :-COMPONENTS] += np.tile(translations, COMPONENTS)


# -- how a query is compared with an entity --------------------------------------------------------


@kernel_function
def _term(query, entity, m):
    """log πₘ − ‖qₘ − e‖²."""
    d = entity.shape[0]
    distance = squared_distance(query[m * d : (m + 1) * d], entity)
    return query[COMPONENTS * d + m] + distance


@kernel_function
def compare(query, entity):
    """log Σₘ πₘ exp(−‖qₘ − e‖²)."""
    top = _term(query, entity, 0)
    total = query.dtype.type(1)
    for m in range(1, COMPONENTS):
        term = _term(query, entity, m)
        if term > top:
            total = total * np.exp(top - term) + query.dtype.type(1)
            top = term
        else:  # also for NaN, which must show in the sum
            total += np.exp(term - top)
    return top + np.log(total)


@kernel_function
def query_gradient(query, entity, weight, out):
    """out += weight · (p₁ · 2(e − q₁), …, p₁, …), pₘ being the share of meaning m in the sum."""
    d = entity.shape[0]
    score = compare(query, entity)
    for m in range(COMPONENTS):
        share = weight * np.exp(_term(query, entity, m) - score)
        part = slice(m * d, (m + 1) * d)
        squared_distance_query_gradient(query[part], entity, share, out[part])
        out[COMPONENTS * d + m] += share


@kernel_function
def entity_gradient(query, entity, weight, out):
    """out += weight · Σₘ pₘ · 2(qₘ − e)."""
    d = entity.shape[0]
    score = compare(query, entity)
    for m in range(COMPONENTS):
        share = weight * np.exp(_term(query, entity, m) - score)
        squared_distance_entity_gradient(query[m * d : (m + 1) * d], entity, share, out)


class _Form(Readout):
    """log Σ exp of squared distances and constants."""

    name = "logarithm of a sum of exponentials"
    extra = SQUARED_DISTANCE.extra

    def candidates(self, entities: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """(e, ‖e‖², 1)."""
        return SQUARED_DISTANCE.candidates(entities, out)

    def products(
        self, queries: np.ndarray, candidates: np.ndarray
    ) -> Sequence[tuple[np.ndarray, np.ndarray]]:
        """The squared distance from each point, and log π."""
        parts = np.split(queries[:, :-COMPONENTS], COMPONENTS, axis=1)
        rows = [lifted(part) for part in parts]
        for row, weight in zip(rows, queries[:, -COMPONENTS:].T, strict=True):
            row[:, -1] += weight
        return [(row, candidates) for row in rows]

    def read(self, values: np.ndarray, queries: np.ndarray) -> np.ndarray:
        """The logarithm of the sum of exponentials."""
        top = values.max(axis=0)
        values -= top
        total = np.exp(values, out=values).sum(axis=0)
        return np.add(np.log(total, out=total), top, out=total)

    def sizes(self, queries: np.ndarray, norm: float) -> np.ndarray:
        """Those of the largest distance, with its lift, and of log π."""
        parts = np.split(queries[:, :-COMPONENTS], COMPONENTS, axis=1)
        reach = np.max([norms(part) for part in parts], axis=0) + norm
        return 4 * reach**2 + np.abs(queries[:, -COMPONENTS:]).max(axis=1) + COMPONENTS


FORM = _Form(NAME, compare, query_gradient, entity_gradient, query_width)
