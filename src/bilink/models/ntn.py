"""NTN (Socher et al., 2013): s = Σᵢ uᵢ tanh(hᵀ Wᵢ t + ⟨vᵢ, (h, t)⟩ + bᵢ), a neural tensor layer.

It has k = ``SLICES`` slices.  A relation's row is W₁, …, W_k, row by row, then v₁, …, v_k, each
of a part for the head and a part for the tail, then b and u: k (dim² + 2 dim + 2) numbers.  Given
one side, each slice is a form of the other, ⟨qᵢ, e⟩ + cᵢ.  A query is (q₁, …, q_k, c, u).

The paper's entities are means of word vectors; ours are trained as in any other model.
"""

from collections.abc import Sequence

import numpy as np

from bilink._jit import kernel_function
from bilink.models.form import dot, norms
from bilink.models.readout import Readout

NAME = "ntn"
TITLE = "NTN"
SLICES = 4


def widths(dim: int) -> tuple[int, int]:
    """A relation has, for each slice, a matrix, two vectors and two numbers."""
    return dim, SLICES * (dim * dim + 2 * dim + 2)


@kernel_function
def query_width(width):
    """For each slice a vector, what is added to its product, and its weight."""
    return SLICES * (width + 2)


@kernel_function
def tail_query(head, relation, query):
    """qᵢ = Wᵢᵀ h + vᵢ's tail, cᵢ = ⟨vᵢ's head, h⟩ + bᵢ, uᵢ."""
    d = head.shape[0]
    vectors, rest = SLICES * d * d, SLICES * d * (d + 2)
    for i in range(SLICES):
        v = vectors + 2 * i * d
        for k in range(d):
            query[i * d + k] = relation[v + d + k]
        for j in range(d):
            x, row = head[j], (i * d + j) * d
            for k in range(d):
                query[i * d + k] += x * relation[row + k]
        query[SLICES * d + i] = dot(relation[v : v + d], head) + relation[rest + i]
        query[SLICES * (d + 1) + i] = relation[rest + SLICES + i]


@kernel_function
def head_query(tail, relation, query):
    """qᵢ = Wᵢ t + vᵢ's head, cᵢ = ⟨vᵢ's tail, t⟩ + bᵢ, uᵢ."""
    d = tail.shape[0]
    vectors, rest = SLICES * d * d, SLICES * d * (d + 2)
    for i in range(SLICES):
        v = vectors + 2 * i * d
        for j in range(d):
            row = (i * d + j) * d
            query[i * d + j] = dot(relation[row : row + d], tail) + relation[v + j]
        query[SLICES * d + i] = dot(relation[v + d : v + 2 * d], tail) + relation[rest + i]
        query[SLICES * (d + 1) + i] = relation[rest + SLICES + i]


@kernel_function
def tail_backward(head, relation, gradient, head_gradient, relation_gradient):
    """Carry the gradient in the query for the tail back to h and the relation."""
    d = head.shape[0]
    vectors, rest = SLICES * d * d, SLICES * d * (d + 2)
    for i in range(SLICES):
        v, part = vectors + 2 * i * d, gradient[i * d : (i + 1) * d]
        constant = gradient[SLICES * d + i]
        for j in range(d):
            x, row = head[j], (i * d + j) * d
            head_gradient[j] += dot(relation[row : row + d], part) + constant * relation[v + j]
            for k in range(d):
                relation_gradient[row + k] += x * part[k]
        for k in range(d):
            relation_gradient[v + k] += constant * head[k]
            relation_gradient[v + d + k] += part[k]
        relation_gradient[rest + i] += constant
        relation_gradient[rest + SLICES + i] += gradient[SLICES * (d + 1) + i]


@kernel_function
def head_backward(tail, relation, gradient, tail_gradient, relation_gradient):
    """Carry the gradient in the query for the head back to t and the relation."""
    d = tail.shape[0]
    vectors, rest = SLICES * d * d, SLICES * d * (d + 2)
    for i in range(SLICES):
        v, part = vectors + 2 * i * d, gradient[i * d : (i + 1) * d]
        constant = gradient[SLICES * d + i]
        for j in range(d):
            x, row = part[j], (i * d + j) * d
            for k in range(d):
                tail_gradient[k] += x * relation[row + k]
            for k in range(d):
                relation_gradient[row + k] += x * tail[k]
        for k in range(d):
            tail_gradient[k] += constant * relation[v + d + k]
            relation_gradient[v + k] += part[k]
            relation_gradient[v + d + k] += constant * tail[k]
        relation_gradient[rest + i] += constant
        relation_gradient[rest + SLICES + i] += gradient[SLICES * (d + 1) + i]


# -- how a query is compared with an entity --------------------------------------------------------


@kernel_function
def _output(query, entity, i):
    """tanh(⟨qᵢ, e⟩ + cᵢ)."""
    d = entity.shape[0]
    return np.tanh(dot(query[i * d : (i + 1) * d], entity) + query[SLICES * d + i])


@kernel_function
def compare(query, entity):
    """Σᵢ uᵢ tanh(⟨qᵢ, e⟩ + cᵢ)."""
    weights = SLICES * (entity.shape[0] + 1)
    total = query[weights] * _output(query, entity, 0)
    for i in range(1, SLICES):
        total += query[weights + i] * _output(query, entity, i)
    return total


@kernel_function
def query_gradient(query, entity, weight, out):
    """out += weight · (u₁ y₁′ e, …, u₁ y₁′, …, y₁, …), with yᵢ′ = 1 − yᵢ² for the output yᵢ."""
    d = entity.shape[0]
    weights = SLICES * (d + 1)
    for i in range(SLICES):
        output = _output(query, entity, i)
        change = weight * query[weights + i] * (1 - output * output)
        for k in range(d):
            out[i * d + k] += change * entity[k]
        out[SLICES * d + i] += change
        out[weights + i] += weight * output


@kernel_function
def entity_gradient(query, entity, weight, out):
    """out += weight · Σᵢ uᵢ yᵢ′ qᵢ."""
    d = entity.shape[0]
    weights = SLICES * (d + 1)
    for i in range(SLICES):
        output = _output(query, entity, i)
        change = weight * query[weights + i] * (1 - output * output)
        for k in range(d):
            out[k] += change * query[i * d + k]


class _Form(Readout):
    """Σ uᵢ tanh(xᵢ + cᵢ)."""

    name = "sum of hyperbolic tangents"

    def products(
        self, queries: np.ndarray, candidates: np.ndarray
    ) -> Sequence[tuple[np.ndarray, np.ndarray]]:
        """The vector of each slice with the entity."""
        d = candidates.shape[1]
        return [(queries[:, i * d : (i + 1) * d], candidates) for i in range(SLICES)]

    def read(self, values: np.ndarray, queries: np.ndarray) -> np.ndarray:
        """The weighted sum of the outputs."""
        constants, weights = np.split(queries[:, -2 * SLICES :].T[:, :, None], 2)
        values += constants
        np.tanh(values, out=values)
        values *= weights
        return values.sum(axis=0)

    def sizes(self, queries: np.ndarray, norm: float) -> np.ndarray:
        """Σ |uᵢ| (‖qᵢ‖‖e‖ + |cᵢ| + 1)."""
        constants, weights = np.abs(np.split(queries[:, -2 * SLICES :], 2, axis=1))
        vectors = np.split(queries[:, : -2 * SLICES], SLICES, axis=1)
        reach = np.stack([norms(vector) for vector in vectors], axis=1) * norm
        return 2 * np.einsum("ij,ij->i", weights, reach + constants + 1)


FORM = _Form(NAME, compare, query_gradient, entity_gradient, query_width)
