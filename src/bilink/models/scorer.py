"""The inner-product scorer: what ranking, top-k, export and serving see of any model.

score(h, r, t) = ⟨query(h, r), candidate(t)⟩ + offset(query)
"""

from typing import Literal, Protocol

import numpy as np

from bilink.errors import DataError
from bilink.models import kernels
from bilink.models.inner import MANHATTAN, SQUARED_DISTANCE
from bilink.models.registry import Family

Side = Literal["head", "tail"]
SIDES: tuple[Side, ...] = ("head", "tail")  # the side that is asked for


class Scorer(Protocol):
    """Anything that scores: a model, or a mixture of models."""

    @property
    def n_entities(self) -> int:
        """How many candidates a query has."""

    @property
    def dtype(self) -> np.dtype:
        """The precision of the scores."""

    @property
    def width(self) -> int:
        """How many numbers a query has."""

    @property
    def nbytes(self) -> int:
        """What the scorer keeps beside the model's own arrays."""

    def queries(self, side: Side, given: np.ndarray, relations: np.ndarray) -> np.ndarray:
        """One row per question "which ``side``?", given the other entity and the relation."""

    def score_block(self, queries: np.ndarray, out: np.ndarray) -> None:
        """out[i, j] = ⟨queries[i], candidate j⟩, all rivals of a query in one row."""

    def offsets(self, queries: np.ndarray) -> np.ndarray:
        """What is missing from each row of ``score_block`` to the model's own score."""

    @property
    def candidates(self) -> np.ndarray:
        """One row per entity, as wide as a query."""

    def largest_score(self, queries: np.ndarray) -> float:
        """A bound on every |entry| of ``score_block``; infinite or NaN where it may overflow."""

    def tolerances(self, queries: np.ndarray) -> np.ndarray:
        """For each query, how far rounding may move two equal entries of its row apart."""


class ModelScorer:
    """The scorer of one model."""

    def __init__(self, family: Family, entities: np.ndarray, relations: np.ndarray):
        self._family, self._entities, self._relations = family, entities, relations
        self.n_entities, self.dtype = len(entities), entities.dtype
        self._translates = family.comparison is SQUARED_DISTANCE
        # Distances do not change when all is moved, but rounding is least around the middle, which
        # is itself rounded so that numbers of moderate size are moved exactly.
        self._middle = np.round(entities.mean(axis=0)) if self._translates else entities[:0]
        self.candidates = self._augmented() if self._translates else entities
        self.width = self.candidates.shape[1]
        self.nbytes = self.candidates.nbytes if self._translates else 0
        self._largest_norm = float(_norms(self.candidates).max(initial=0))
        self._fill_queries = family.bind(kernels.fill_queries)

    def _augmented(self) -> np.ndarray:
        """−‖q − e‖² = ⟨(2q, −1), (e, ‖e‖²)⟩ − ‖q‖²."""
        rows = np.empty((self.n_entities, self._entities.shape[1] + 1), dtype=self.dtype)
        np.subtract(self._entities, self._middle, out=rows[:, :-1])
        rows[:, -1] = _squares(rows[:, :-1])
        return rows

    def queries(self, side: Side, given: np.ndarray, relations: np.ndarray) -> np.ndarray:
        """One row per question "which ``side``?", given the other entity and the relation."""
        check_ids(given, self.n_entities, "entity")
        check_ids(relations, len(self._relations), "relation")
        rows = np.empty((len(given), self._entities.shape[1]), dtype=self.dtype)
        self._fill_queries(self._entities, self._relations, given, relations, side == "head", rows)
        if not self._translates:
            return rows
        queries = np.full((len(rows), self.width), -1, dtype=self.dtype)
        queries[:, :-1] = 2 * (rows - self._middle)
        return queries

    def score_block(self, queries: np.ndarray, out: np.ndarray) -> None:
        """out[i, j] = ⟨queries[i], candidate j⟩; negated Manhattan distances for TransE (L1)."""
        if self._family.comparison is MANHATTAN:
            self._family.bind(kernels.score_block)(queries, self.candidates, out)
        else:
            np.matmul(queries, self.candidates.T, out=out)

    def offsets(self, queries: np.ndarray) -> np.ndarray:
        """−‖q‖² for TransE, nothing for the others."""
        if not self._translates:
            return np.zeros(len(queries), dtype=self.dtype)
        return -_squares(queries[:, :-1] / 2)

    def largest_score(self, queries: np.ndarray) -> float:
        """The Cauchy-Schwarz bound on the block of these queries."""
        norm = float(_norms(queries).max(initial=0))
        if self._family.comparison is MANHATTAN:
            return (norm + self._largest_norm) * self.width**0.5
        return norm * self._largest_norm

    def tolerances(self, queries: np.ndarray) -> np.ndarray:
        """Twice the bound on the rounding of an inner product; none for the Manhattan distance.

        A sum of n products in any order is within n·u·Σ|qₖ cₖ| of the true one, u being half of ε,
        and the sum of sizes is at most ‖q‖·‖c‖.  TransE's last column is bounded by itself.
        """
        if self._family.comparison is MANHATTAN:  # computed in one order, always
            return np.zeros(len(queries), dtype=self.dtype)
        sizes = _norms(queries) * self._largest_norm
        if self._translates:
            largest = float(self.candidates[:, -1].max(initial=0))
            sizes = _norms(queries[:, :-1]) * largest**0.5 + largest
        return ((self.width + 4) * np.finfo(self.dtype).eps * sizes).astype(self.dtype)


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
