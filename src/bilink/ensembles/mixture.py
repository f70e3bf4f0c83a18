"""The scorer of an ensemble: for each relation and side, a weighted sum of the members' scores.

A sum of bilinear forms is a bilinear form.  So a mixture is one scorer, whose queries are the
members' weighted queries side by side, and whose candidates are the members' candidates.

With offsets, the weighted scores are log-odds, and the mixture is the mean of the members'
probabilities instead (Krompaß and Tresp, 2015): a readout of as many forms as there are members.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from bilink.errors import ConfigError
from bilink.models.scorer import SIDES, Readout, Scorer, Side, mean_probability

Weights = Mapping[Side, np.ndarray]  # for each side, one row per relation, one column per member


class MixtureScorer(Scorer):
    """Several scorers as one; ranked, queried and served as any model is."""

    def __init__(
        self, members: Sequence[Scorer], weights: Weights, offsets: np.ndarray | None = None
    ):
        check_members(members)
        shape = weights["head"].shape
        if any(weights[side].shape != (shape[0], len(members)) for side in SIDES):
            raise ConfigError(f"{len(members)} members need as many weights for each relation")
        self.members, self.weights, self.offsets = tuple(members), dict(weights), offsets
        candidates, readout = np.hstack([member.candidates for member in members]), None
        if offsets is not None:
            # In double precision: in single, confident answers would all be 1.
            candidates = candidates.astype(np.float64)
            parts = [(columns, columns) for columns in self._columns()]
            readout = Readout("mean_probability", mean_probability, parts)
        nbytes = candidates.nbytes + sum(member.nbytes for member in members)
        super().__init__(candidates, readout=readout, nbytes=nbytes)

    def _columns(self) -> Iterator[slice]:
        """The columns of each member."""
        end = 0
        for member in self.members:
            start, end = end, end + member.width
            yield slice(start, end)

    def queries(self, side: Side, given: np.ndarray, relations: np.ndarray) -> np.ndarray:
        """The members' queries side by side, each times its weight."""
        return self._weighted(side, given, relations, self.weights[side][relations])

    def fact_queries(self, heads: np.ndarray, relations: np.ndarray) -> np.ndarray:
        """As for tails, with the mean of the two sides' weights."""
        return self._weighted("tail", heads, relations, self._mean_weights(relations))

    def _weighted(
        self, side: Side, given: np.ndarray, relations: np.ndarray, weights: np.ndarray
    ) -> np.ndarray:
        """With one row of ``weights`` per question; offsets stand behind the members' columns."""
        offsets = () if self.offsets is None else self.offsets
        rows = np.empty((len(given), self.width + len(offsets)), dtype=self.dtype)
        rows[:, self.width :] = offsets
        for i, (member, columns) in enumerate(zip(self.members, self._columns(), strict=True)):
            queries = member.queries(side, given, relations)  # which also checks the ids
            weight = weights[:, i].astype(self.dtype)
            np.multiply(queries, weight[:, None], out=rows[:, columns])
        return rows

    def score(self, triples: np.ndarray) -> np.ndarray:
        """What the mean of the two sides' weights makes of the members' scores."""
        if self.offsets is not None:
            return super().score(triples)
        triples = np.asarray(triples).reshape(-1, 3)
        scores = np.stack([member.score(triples) for member in self.members], axis=1)
        weights = self._mean_weights(triples[:, 1])
        return np.einsum("ij,ij->i", scores, weights).astype(self.dtype)

    def _mean_weights(self, relations: np.ndarray) -> np.ndarray:
        return np.mean([self.weights[side][relations] for side in SIDES], axis=0)

    def with_members(self, members: Sequence[Scorer]) -> "MixtureScorer":
        """The same weights for other members."""
        return MixtureScorer(members, self.weights, self.offsets)


def check_members(members: Sequence[Scorer]) -> None:
    """Complain about scorers that cannot stand side by side."""
    if not members:
        raise ConfigError("an ensemble needs at least one member")
    if not all(member.is_product for member in members):
        raise ConfigError(
            "TransE (L1) cannot be a member: it is no bilinear form; take TransE (transe) instead"
        )
    sizes = {member.n_entities for member in members}
    if len(sizes) > 1:
        raise ConfigError(
            f"the members have different numbers of entities: {', '.join(map(str, sorted(sizes)))}"
        )
