"""The inner-product scorer: what ranking, top-k, export and serving see of any model.

score(h, r, t) = ⟨query(h, r), candidate(t)⟩ + offset(query)
"""

from typing import Literal, Protocol

import numpy as np

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

    def largest_score(self, queries: np.ndarray) -> float:
        """A bound on every |entry| of ``score_block``; infinite or NaN where it may overflow."""


class ModelScorer:
    """The scorer of one model."""

    def __init__(self, family: Family, entities: np.ndarray, relations: np.ndarray):
        self._family, self._entities, self._relations = family, entities, relations
        self.n_entities, self.dtype = len(entities), entities.dtype
        self._translates = family.comparison is SQUARED_DISTANCE
        self.candidates = self._augmented(entities) if self._translates else entities
        self.width = self.candidates.shape[1]
        self.nbytes = self.candidates.nbytes if self._translates else 0
        with np.errstate(over="ignore"):  # an infinite norm is what the caller looks for
            self._largest_norm = float(
                np.sqrt(np.einsum("ij,ij->i", self.candidates, self.candidates).max())
            )

    @staticmethod
    def _augmented(entities: np.ndarray) -> np.ndarray:
        """−‖q − e‖² = ⟨(2q, −1), (e, ‖e‖²)⟩ − ‖q‖²."""
        return np.hstack([entities, np.einsum("ij,ij->i", entities, entities)[:, None]])

    def queries(self, side: Side, given: np.ndarray, relations: np.ndarray) -> np.ndarray:
        """One row per question "which ``side``?", given the other entity and the relation."""
        rows = np.empty((len(given), self._entities.shape[1]), dtype=self.dtype)
        self._family.bind(kernels.fill_queries)(
            self._entities, self._relations, given, relations, side == "head", rows
        )
        if not self._translates:
            return rows
        return np.hstack([2 * rows, np.full((len(rows), 1), -1, dtype=self.dtype)])

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
        rows = queries[:, :-1] / 2
        return -np.einsum("ij,ij->i", rows, rows)

    def largest_score(self, queries: np.ndarray) -> float:
        """The Cauchy-Schwarz bound on the block of these queries."""
        with np.errstate(over="ignore", invalid="ignore"):
            norm = float(np.sqrt(np.einsum("ij,ij->i", queries, queries).max()))
            if self._family.comparison is MANHATTAN:
                return (norm + self._largest_norm) * self.width**0.5
            return norm * self._largest_norm
