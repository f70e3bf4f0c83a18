"""A mixture: for each relation and side, a weighted sum of the members' scores.

A sum of bilinear forms is a bilinear form.  So a mixture is one scorer, whose queries are the
members' weighted queries side by side, and whose candidates are the members' candidates.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from bilink.errors import ConfigError
from bilink.models.scorer import SIDES, ManhattanScorer, Scorer, Side

Weights = Mapping[Side, np.ndarray]  # for each side, one row per relation, one column per member


class MixtureScorer(Scorer):
    """Members under one roof; ranked, asked and served as any model is."""

    def __init__(self, members: Sequence[Scorer], weights: Weights):
        check_members(members)
        shape = weights["head"].shape
        if any(weights[side].shape != (shape[0], len(members)) for side in SIDES):
            raise ConfigError(f"{len(members)} members need as many weights for each relation")
        super().__init__(np.hstack([member.candidates for member in members]))
        self.members, self.weights = tuple(members), dict(weights)
        self.nbytes = self.candidates.nbytes + sum(member.nbytes for member in members)

    def queries(self, side: Side, given: np.ndarray, relations: np.ndarray) -> np.ndarray:
        """The members' queries side by side, each times its weight."""
        return self._weighted(side, given, relations, self.weights[side][relations])

    def fact_queries(self, heads: np.ndarray, relations: np.ndarray) -> np.ndarray:
        """As for tails, with the mean of the two sides' weights."""
        return self._weighted("tail", heads, relations, self._mean_weights(relations))

    def _weighted(
        self, side: Side, given: np.ndarray, relations: np.ndarray, weights: np.ndarray
    ) -> np.ndarray:
        """With one row of ``weights`` per question."""
        rows = np.empty((len(given), self.width), dtype=self.dtype)
        end = 0
        for i, member in enumerate(self.members):
            start, end = end, end + member.width
            queries = member.queries(side, given, relations)  # which also checks the ids
            weight = weights[:, i].astype(self.dtype)
            np.multiply(queries, weight[:, None], out=rows[:, start:end])
        return rows

    def score(self, triples: np.ndarray) -> np.ndarray:
        """The mean of what the two sides' weights make of the members' scores."""
        triples = np.asarray(triples).reshape(-1, 3)
        scores = np.stack([member.score(triples) for member in self.members], axis=1)
        weights = self._mean_weights(triples[:, 1])
        return np.einsum("ij,ij->i", scores, weights).astype(self.dtype)

    def _mean_weights(self, relations: np.ndarray) -> np.ndarray:
        return np.mean([self.weights[side][relations] for side in SIDES], axis=0)


def check_members(members: Sequence[Scorer]) -> None:
    """Complain about scorers that cannot stand side by side."""
    if not members:
        raise ConfigError("an ensemble needs at least one member")
    if any(isinstance(member, ManhattanScorer) for member in members):
        raise ConfigError(
            "TransE (L1) cannot be a member: it is no bilinear form; take TransE (transe) instead"
        )
    sizes = {member.n_entities for member in members}
    if len(sizes) > 1:
        raise ConfigError(
            f"the members have different numbers of entities: {', '.join(map(str, sorted(sizes)))}"
        )
