"""The form: how a query is compared with an entity, and everything that follows from it.

Every model turns (head, relation) or (tail, relation) into a query and compares it with the rows of
all entities.  Three ways to compare are here; readouts of several forms are in ``readout``.

| form | score | as a matrix product |
| --- | --- | --- |
| inner product | ⟨q, e⟩ | as it is |
| squared distance | −‖q − e‖² | ⟨(2q, −1, −‖q‖²), (e, ‖e‖², 1)⟩, the *lift* |
| Manhattan distance | −‖q − e‖₁ | none |

A form owns the comparison of single rows with its gradients (kernel functions, for margin
training), the lift to a matrix product with its backward pass (for softmax training and ranking),
and the bound on what rounding can do to a score (for ties).
"""

from typing import Any

import numpy as np

from bilink._jit import kernel, kernel_function, reduction


class Form:
    """The inner product ⟨q, e⟩, and the parent of the other forms."""

    name = "inner product"
    is_product = True  # whether scores are a matrix product of lifted rows
    is_distance = False
    splits = True  # whether equal scores are told from rounding wherever they are computed
    extra = 0  # how much longer lifted rows are
    exact_name = "form"  # of what is compiled with ``exact``

    @property
    def kernels(self) -> dict[str, Any]:
        """The kernel functions on single rows, and the width of a query for that of an entity."""
        return {
            "compare": dot,
            "query_gradient": add_entity,
            "entity_gradient": add_query,
            "query_width": same_width,
        }

    @property
    def exact(self) -> Any:
        """The kernel function that scores a query and a candidate in double precision."""
        return exact_score

    # -- the lift and its backward pass ----------------------------------------------------------

    def centred(self, entities: np.ndarray) -> "Form":
        """The same form in the coordinates in which rounding changes these entities least."""
        return self

    def queries(self, queries: np.ndarray) -> np.ndarray:
        """Lifted queries, the left side of the product."""
        return queries

    def candidates(self, entities: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Lifted entities, the right side of the product."""
        return entities

    def query_backward(self, queries: np.ndarray, gradients: np.ndarray) -> np.ndarray:
        """Gradients of lifted queries → gradients of the queries."""
        return gradients

    def candidate_backward(self, entities: np.ndarray, gradients: np.ndarray) -> np.ndarray:
        """Gradients of lifted entities → gradients of the entities."""
        return gradients

    # -- scores of lifted rows -------------------------------------------------------------------

    def scores(self, queries: np.ndarray, candidates: np.ndarray, out: np.ndarray) -> None:
        """out[i, j] = the score of candidate j for query i."""
        np.matmul(queries, candidates.T, out=out)

    def pair_scores(self, queries: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """The score of each query with the candidate in the same row."""
        return np.einsum("ij,ij->i", queries, candidates)

    def largest_norm(self, candidates: np.ndarray) -> float:
        """What bounds the candidates in ``largest_score`` and ``tolerances``."""
        return float(norms(candidates).max(initial=0))

    def largest_score(self, queries: np.ndarray, largest: float, width: int) -> float:
        """A bound on every |score|; infinite or NaN where a score may overflow.

        ``largest`` is the largest norm of a candidate, ``width`` their width.
        """
        return float(norms(queries).max(initial=0)) * largest

    def tolerances(self, queries: np.ndarray, largest: float, width: int) -> np.ndarray:
        """For each query, how far rounding may move two equal scores apart.

        A sum of n products in any order is within n·u·Σ|qₖ cₖ| of the true one, u being half of ε,
        and the sum of sizes is at most ‖q‖·‖c‖; twice that for two scores.
        """
        sizes = norms(queries) * largest
        return ((width + 4) * np.finfo(queries.dtype).eps * sizes).astype(queries.dtype)


class SquaredDistance(Form):
    """−‖q − e‖² = ⟨(2q′, −s, −‖q′‖²/s), (e′, ‖e′‖²/s, s)⟩ with q′ = q − m and e′ = e − m.

    Training lifts with m = 0 and s = 1.  Ranking moves the origin to the middle m of the entities,
    and takes for s a power of two near their largest norm: it changes no digit, and keeps the norms
    of lifted rows, which bound the rounding, small.
    """

    name = "squared distance"
    is_distance = True
    extra = 2

    def __init__(self, middle: np.ndarray | float = 0.0, scale: float = 1.0):
        self._middle, self._scale = middle, scale

    @property
    def kernels(self) -> dict[str, Any]:
        """The kernel functions on single rows."""
        return {
            "compare": squared_distance,
            "query_gradient": squared_distance_query_gradient,
            "entity_gradient": squared_distance_entity_gradient,
            "query_width": same_width,
        }

    def centred(self, entities: np.ndarray) -> "SquaredDistance":
        """Around the middle, itself rounded, so that numbers of moderate size are moved exactly."""
        middle = np.round(entities.mean(axis=0)) if len(entities) else 0.0
        largest = float(squared_norms(entities - middle).max(initial=0))
        scale = 2.0 ** round(np.log2(largest) / 2) if 0 < largest < np.inf else 1.0
        return SquaredDistance(middle, scale)

    def queries(self, queries: np.ndarray) -> np.ndarray:
        """(2q′, −s, −‖q′‖²/s)."""
        moved = queries - self._middle
        rows = np.empty((len(queries), queries.shape[1] + 2), dtype=queries.dtype)
        np.multiply(moved, 2, out=rows[:, :-2])
        rows[:, -2] = -self._scale
        rows[:, -1] = squared_norms(moved) / -self._scale
        return rows

    def candidates(self, entities: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """(e′, ‖e′‖²/s, s)."""
        if out is None:
            out = np.empty((len(entities), entities.shape[1] + 2), dtype=entities.dtype)
        np.subtract(entities, self._middle, out=out[:, :-2])
        np.divide(squared_norms(out[:, :-2]), self._scale, out=out[:, -2])
        out[:, -1] = self._scale
        return out

    def query_backward(self, queries: np.ndarray, gradients: np.ndarray) -> np.ndarray:
        """2 (gradient of 2q − gradient of −‖q‖² · q), without a middle and a scale."""
        return 2 * (gradients[:, :-2] - gradients[:, -1:] * queries)

    def candidate_backward(self, entities: np.ndarray, gradients: np.ndarray) -> np.ndarray:
        """Gradient of e + 2 · gradient of ‖e‖² · e, without a middle and a scale."""
        return gradients[:, :-2] + 2 * gradients[:, -2:-1] * entities


class ManhattanDistance(Form):
    """−‖q − e‖₁, the one form that is no matrix product; always summed in one order."""

    name = "Manhattan distance"
    is_product = False
    is_distance = True

    @property
    def kernels(self) -> dict[str, Any]:
        """The kernel functions on single rows."""
        return {
            "compare": manhattan,
            "query_gradient": manhattan_query_gradient,
            "entity_gradient": manhattan_entity_gradient,
            "query_width": same_width,
        }

    def scores(self, queries: np.ndarray, candidates: np.ndarray, out: np.ndarray) -> None:
        """out[i, j] = −‖queries[i] − candidate j‖₁."""
        _manhattan_block(queries, candidates, out)

    def pair_scores(self, queries: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """The score of each query with the candidate in the same row."""
        return -np.abs(queries - candidates).sum(axis=1)

    def largest_score(self, queries: np.ndarray, largest: float, width: int) -> float:
        """‖q − e‖₁ ≤ √n (‖q‖ + ‖e‖)."""
        return (float(norms(queries).max(initial=0)) + largest) * width**0.5

    def tolerances(self, queries: np.ndarray, largest: float, width: int) -> np.ndarray:
        """Nothing: equal sums come out equal."""
        return np.zeros(len(queries), dtype=queries.dtype)


def squared_norms(rows: np.ndarray) -> np.ndarray:
    """‖row‖² of each row; not finite where it overflows, which is for the caller to notice."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.einsum("ij,ij->i", rows, rows)


def norms(rows: np.ndarray) -> np.ndarray:
    """‖row‖ of each row."""
    return np.sqrt(squared_norms(rows))


# -- kernel functions on a query and an entity -----------------------------------------------------


@kernel_function
def same_width(width):
    """A query is as long as an entity."""
    return width


@reduction
def exact_score(query, candidate):
    """⟨q, c⟩ in double precision: the same numbers give the same sum, wherever they stand."""
    total = np.float64(query[0]) * np.float64(candidate[0])
    for k in range(1, query.shape[0]):
        total += np.float64(query[k]) * np.float64(candidate[k])
    return total


@reduction
def dot(query, entity):
    """⟨q, e⟩."""
    total = query[0] * entity[0]
    for k in range(1, query.shape[0]):
        total += query[k] * entity[k]
    return total


@kernel_function
def add_entity(query, entity, weight, out):
    """out += weight · e, which is weight times the gradient of ⟨q, e⟩ in q."""
    for k in range(out.shape[0]):
        out[k] += weight * entity[k]


@kernel_function
def add_query(query, entity, weight, out):
    """out += weight · q, which is weight times the gradient of ⟨q, e⟩ in e."""
    for k in range(out.shape[0]):
        out[k] += weight * query[k]


@reduction
def squared_distance(query, entity):
    """−‖q − e‖²."""
    total = -((query[0] - entity[0]) ** 2)
    for k in range(1, query.shape[0]):
        gap = query[k] - entity[k]
        total -= gap * gap
    return total


@kernel_function
def squared_distance_query_gradient(query, entity, weight, out):
    """out += weight · 2(e − q)."""
    double = weight + weight
    for k in range(out.shape[0]):
        out[k] += double * (entity[k] - query[k])


@kernel_function
def squared_distance_entity_gradient(query, entity, weight, out):
    """out += weight · 2(q − e)."""
    double = weight + weight
    for k in range(out.shape[0]):
        out[k] += double * (query[k] - entity[k])


@reduction
def manhattan(query, entity):
    """−‖q − e‖₁."""
    total = -abs(query[0] - entity[0])
    for k in range(1, query.shape[0]):
        total -= abs(query[k] - entity[k])
    return total


@kernel_function
def manhattan_query_gradient(query, entity, weight, out):
    """out += weight · sign(e − q)."""
    for k in range(out.shape[0]):
        gap = entity[k] - query[k]
        if gap > 0:
            out[k] += weight
        elif gap < 0:
            out[k] -= weight


@kernel_function
def manhattan_entity_gradient(query, entity, weight, out):
    """out += weight · sign(q − e)."""
    for k in range(out.shape[0]):
        gap = query[k] - entity[k]
        if gap > 0:
            out[k] += weight
        elif gap < 0:
            out[k] -= weight


@kernel
def _manhattan_block(queries, candidates, out):
    """out[i, j] = −‖queries[i] − candidates[j]‖₁."""
    for i in range(queries.shape[0]):
        for j in range(candidates.shape[0]):
            out[i, j] = manhattan(queries[i], candidates[j])


@kernel_function
def cube_gradient(row, weight, out):
    """out += weight times the gradient of Σ|xₖ|³, the N3 penalty."""
    triple = weight * row.dtype.type(3)
    for k in range(row.shape[0]):
        out[k] += triple * abs(row[k]) * row[k]


INNER_PRODUCT, SQUARED_DISTANCE, MANHATTAN = Form(), SquaredDistance(), ManhattanDistance()
