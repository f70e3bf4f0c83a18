"""The inner-product scorer: what ranking, top-k, export and serving see of any model.

score(h, r, t) = ⟨query(h, r), candidate(t)⟩
"""

from collections.abc import Callable
from typing import Literal

import numpy as np

from bilink.errors import DataError
from bilink.models import kernels
from bilink.models.inner import MANHATTAN, SQUARED_DISTANCE
from bilink.models.registry import Family

Side = Literal["head", "tail"]
SIDES: tuple[Side, ...] = ("head", "tail")  # the side that is asked for
# From triples (n, 3) of ids and their scores to the probability of each.
Probability = Callable[[np.ndarray, np.ndarray], np.ndarray]
_ROWS = 8192  # triples that are scored at once


class Scorer:
    """Anything that scores: a model, or a mixture of models.

    ``candidates`` has one row per entity.  A subclass says how questions become queries; with the
    inner product that is all there is to it.
    """

    is_product = True  # whether ``score_block`` is the product of queries and candidates

    def __init__(self, candidates: np.ndarray):
        self.candidates = candidates
        self.nbytes = 0  # what the scorer keeps beside the arrays of its models
        self.n_entities, self.width = candidates.shape
        self.dtype = candidates.dtype
        self._largest_norm = float(_norms(candidates).max(initial=0))

    def queries(self, side: Side, given: np.ndarray, relations: np.ndarray) -> np.ndarray:
        """One row per question "which ``side``?", given the other entity and the relation."""
        raise NotImplementedError

    def fact_queries(self, heads: np.ndarray, relations: np.ndarray) -> np.ndarray:
        """One row per (head, relation); its product with a tail's candidate is the ``score``."""
        return self.queries("tail", heads, relations)

    def score_block(self, queries: np.ndarray, out: np.ndarray) -> None:
        """out[i, j] = ⟨queries[i], candidate j⟩, all rivals of a query in one row."""
        np.matmul(queries, self.candidates.T, out=out)

    def score(self, triples: np.ndarray) -> np.ndarray:
        """The score of each (head, relation, tail) of ids; higher is more likely."""
        triples = np.asarray(triples).reshape(-1, 3)
        check_ids(triples[:, 2], self.n_entities, "entity")
        scores = np.empty(len(triples), dtype=self.dtype)
        for start in range(0, len(triples), _ROWS):
            heads, relations, tails = triples[start : start + _ROWS].T
            queries = self.fact_queries(heads, relations)
            scores[start : start + _ROWS] = self._score_pairs(queries, self.candidates[tails])
        return scores

    def _score_pairs(self, queries: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        return np.einsum("ij,ij->i", queries, candidates)

    def largest_score(self, queries: np.ndarray) -> float:
        """A bound on every |entry| of ``score_block``; infinite or NaN where it may overflow."""
        return float(_norms(queries).max(initial=0)) * self._largest_norm

    def tolerances(self, queries: np.ndarray) -> np.ndarray:
        """For each query, how far rounding may move two equal entries of its row apart.

        A sum of n products in any order is within n·u·Σ|qₖ cₖ| of the true one, u being half of ε,
        and the sum of sizes is at most ‖q‖·‖c‖; twice that for two entries.
        """
        sizes = _norms(queries) * self._largest_norm
        return ((self.width + 4) * np.finfo(self.dtype).eps * sizes).astype(self.dtype)


def model_scorer(family: Family, entities: np.ndarray, relations: np.ndarray) -> Scorer:
    """The scorer of one model."""
    kinds = {SQUARED_DISTANCE: DistanceScorer, MANHATTAN: ManhattanScorer}
    return kinds.get(family.comparison, ProductScorer)(family, entities, relations)


class ProductScorer(Scorer):
    """A model whose comparison is the inner product: its entities are the candidates."""

    def __init__(
        self,
        family: Family,
        entities: np.ndarray,
        relations: np.ndarray,
        candidates: np.ndarray | None = None,
    ):
        super().__init__(entities if candidates is None else candidates)
        self._parameters = entities, relations
        self._fill_queries = family.bind(kernels.fill_queries)

    def queries(self, side: Side, given: np.ndarray, relations: np.ndarray) -> np.ndarray:
        """One row per question "which ``side``?", given the other entity and the relation."""
        entities, forms = self._parameters
        check_ids(given, len(entities), "entity")
        check_ids(relations, len(forms), "relation")
        rows = np.empty((len(given), entities.shape[1]), dtype=self.dtype)
        self._fill_queries(entities, forms, given, relations, side == "head", rows)
        return rows


class DistanceScorer(ProductScorer):
    """TransE: −‖q − e‖² = ⟨(2q, −s, −‖q‖²/s), (e, ‖e‖²/s, s)⟩.

    The s is a power of two near the largest norm.  It changes no rounding, and keeps the norms of
    queries and candidates, which bound the rounding, small.
    """

    def __init__(self, family: Family, entities: np.ndarray, relations: np.ndarray):
        # Distances do not change when all is moved, but rounding is least around the middle, which
        # is itself rounded so that numbers of moderate size are moved exactly.
        self._middle = np.round(entities.mean(axis=0)) if len(entities) else 0
        rows = np.empty((len(entities), entities.shape[1] + 2), dtype=entities.dtype)
        np.subtract(entities, self._middle, out=rows[:, :-2])
        rows[:, -2] = _squares(rows[:, :-2])
        largest = float(rows[:, -2].max(initial=0))
        self._scale = 2.0 ** round(np.log2(largest) / 2) if 0 < largest < np.inf else 1.0
        rows[:, -2] /= self._scale
        rows[:, -1] = self._scale
        super().__init__(family, entities, relations, candidates=rows)
        self.nbytes = rows.nbytes

    def queries(self, side: Side, given: np.ndarray, relations: np.ndarray) -> np.ndarray:
        """The rows (2q, −s, −‖q‖²/s)."""
        moved = super().queries(side, given, relations) - self._middle
        rows = np.empty((len(moved), self.width), dtype=self.dtype)
        np.multiply(moved, 2, out=rows[:, :-2])
        rows[:, -2] = -self._scale
        rows[:, -1] = _squares(moved) / -self._scale
        return rows


class ManhattanScorer(ProductScorer):
    """TransE (L1), the one that is no inner product: −‖q − e‖₁, always summed in one order."""

    is_product = False

    def __init__(self, family: Family, entities: np.ndarray, relations: np.ndarray):
        super().__init__(family, entities, relations)
        self._score_block = family.bind(kernels.score_block)

    def score_block(self, queries: np.ndarray, out: np.ndarray) -> None:
        """out[i, j] = −‖queries[i] − candidate j‖₁."""
        self._score_block(queries, self.candidates, out)

    def _score_pairs(self, queries: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        return -np.abs(queries - candidates).sum(axis=1)

    def largest_score(self, queries: np.ndarray) -> float:
        """‖q − e‖₁ ≤ √n (‖q‖ + ‖e‖)."""
        norm = float(_norms(queries).max(initial=0))
        return (norm + self._largest_norm) * self.width**0.5

    def tolerances(self, queries: np.ndarray) -> np.ndarray:
        """Nothing: equal sums come out equal."""
        return np.zeros(len(queries), dtype=self.dtype)


def check_ids(ids: np.ndarray, count: int, kind: str) -> None:
    """Complain about ids that a kernel would read beyond its arrays."""
    if len(ids) and not (ids.min() >= 0 and ids.max() < count):
        wrong = ids[(ids < 0) | (ids >= count)][0]
        raise DataError(f"{kind} id {wrong} is out of range: the model has {count:,}")


def _squares(rows: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):  # not finite is what the caller looks for
        return np.einsum("ij,ij->i", rows, rows)


def _norms(rows: np.ndarray) -> np.ndarray:
    return np.sqrt(_squares(rows))
