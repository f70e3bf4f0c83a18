"""The scorer of an ensemble: for each relation and side, a weighted sum of the members' scores.

A sum of bilinear forms is a bilinear form.  So a mixture is one scorer, whose queries are the
members' weighted queries side by side, and whose candidates are the members' candidates.

With offsets, the weighted scores are log-odds, and the mixture is the mean of the members'
probabilities instead (Krompaß and Tresp, 2015): a readout of as many forms as there are members.

Members whose scores are sparse (paths) have no rows, and those of a readout or of a Manhattan
distance are no products; what they say is added to the products.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bilink.errors import ConfigError
from bilink.models.form import INNER_PRODUCT, Form
from bilink.models.readout import MeanProbability
from bilink.models.scorer import SIDES, Scorer, Side
from bilink.paths.scorer import PathScorer

Weights = Mapping[Side, np.ndarray]  # for each side, one row per relation, one column per member


@dataclass(frozen=True, eq=False)
class MixedQueries:
    """Queries of an ensemble with members that are no products."""

    rows: np.ndarray  # of the members that are products
    asked: tuple[Any, ...]  # the queries of each of the others
    weights: np.ndarray  # one row per question, one column per other member

    def __len__(self) -> int:
        return len(self.rows)


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
        self.others = {i: m for i, m in enumerate(members) if not m.is_product}
        self._dense = {i: m for i, m in enumerate(members) if m.is_product}
        dtype = np.result_type(*(member.dtype for member in members))
        none = np.zeros((members[0].n_entities, 0), dtype=dtype)
        candidates = np.hstack([none, *(member.candidates for member in self._dense.values())])
        form: Form = INNER_PRODUCT
        if offsets is not None:
            if self.others:
                raise ConfigError(
                    "the method platt takes bilinear models only; leave out paths, TransE (L1) and "
                    "models that are readouts of several forms"
                )
            # In double precision: in single, confident answers would all be 1.
            candidates = candidates.astype(np.float64)
            form = MeanProbability([*self._columns()])
        nbytes = candidates.nbytes + sum(member.nbytes for member in members)
        super().__init__(candidates, form, nbytes)

    @property
    def is_product(self) -> bool:
        """Whether scores are inner products of queries and candidates."""
        return super().is_product and not self.others

    @property
    def has_rules(self) -> bool:
        """Whether scores are those of products and what rules add to them."""
        return bool(self.others) and all(isinstance(m, PathScorer) for m in self.others.values())

    @property
    def row_bytes(self) -> int:
        """Memory that the scores of one query take."""
        rows = [m.row_bytes for m in self.others.values() if not isinstance(m, PathScorer)]
        return super().row_bytes + max(rows, default=0)

    def _columns(self) -> Iterator[slice]:
        """The columns of each member that has rows."""
        end = 0
        for member in self._dense.values():
            start, end = end, end + member.width
            yield slice(start, end)

    def queries(self, side: Side, given: np.ndarray, relations: np.ndarray) -> Any:
        """The members' queries side by side, each times its weight."""
        return self._weighted(side, given, relations, self.weights[side][relations])

    def fact_queries(self, heads: np.ndarray, relations: np.ndarray) -> Any:
        """As for tails, with the mean of the two sides' weights."""
        return self._weighted("tail", heads, relations, self._mean_weights(relations))

    def _weighted(
        self, side: Side, given: np.ndarray, relations: np.ndarray, weights: np.ndarray
    ) -> Any:
        """With one row of ``weights`` per question; offsets stand behind the members' columns."""
        offsets = () if self.offsets is None else self.offsets
        rows = np.empty((len(given), self.width + len(offsets)), dtype=self.dtype)
        rows[:, self.width :] = offsets
        for (i, member), columns in zip(self._dense.items(), self._columns(), strict=True):
            queries = member.queries(side, given, relations)  # which also checks the ids
            weight = weights[:, i].astype(self.dtype)
            np.multiply(queries, weight[:, None], out=rows[:, columns])
        if not self.others:
            return rows
        asked = tuple(member.queries(side, given, relations) for member in self.others.values())
        return MixedQueries(rows, asked, weights[:, list(self.others)])

    # -- with members that are no products -------------------------------------------------------

    def query_scores(
        self, queries: Any, out: np.ndarray | None = None, *, repeatable: bool = False
    ) -> np.ndarray:
        """out[i, j] = the score of candidate j for question i; an error unless all are finite."""
        if not isinstance(queries, MixedQueries):
            return super().query_scores(queries, out, repeatable=repeatable)
        out = super().query_scores(queries.rows, out, repeatable=repeatable)
        parts = zip(self.others.values(), queries.asked, queries.weights.T, strict=True)
        for member, asked, times in parts:
            if isinstance(member, PathScorer):
                member.add_scores(asked, times, out)
            else:
                found = member.query_scores(asked, repeatable=repeatable)
                found *= times[:, None].astype(found.dtype)
                out += found
        return out

    def dense_facts(self, heads: np.ndarray, relation: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows of heads and of tails whose products are the scores without what rules add."""
        queries = self.fact_queries(heads, np.full_like(heads, relation))
        times = queries.weights[0] if len(heads) else np.zeros(len(self.others))
        members: Any = self.others.values()
        same = sum(
            time * member.frequency(relation) for time, member in zip(times, members, strict=True)
        )
        rows = np.hstack([queries.rows, np.ones((len(heads), 1), dtype=self.dtype)])
        return rows, np.column_stack([self.candidates, same]).astype(self.dtype)

    def named_facts(self, heads: np.ndarray, relation: int) -> tuple[np.ndarray, np.ndarray]:
        """The pairs (place of the head, tail) that rules name, and what they add."""
        queries = self.fact_queries(heads, np.full_like(heads, relation))
        members: Any = self.others.values()
        parts = [
            member.named(asked, times)
            for member, asked, times in zip(members, queries.asked, queries.weights.T, strict=True)
        ]
        if len(parts) == 1:
            return parts[0]
        pairs, places = np.unique(
            np.concatenate([pairs for pairs, _ in parts]), axis=0, return_inverse=True
        )
        return pairs, np.bincount(places.ravel(), np.concatenate([said for _, said in parts]))

    def tolerances(self, queries: Any) -> np.ndarray:
        """With members that are no products, scores are compared as they are."""
        if not isinstance(queries, MixedQueries):
            return super().tolerances(queries)
        return np.zeros(len(queries), dtype=self.dtype)

    def exact_rows(self, queries: Any) -> tuple[np.ndarray, np.ndarray]:
        """The rows that are compared where scores are near; with such members, nothing is."""
        rows = queries.rows if isinstance(queries, MixedQueries) else queries
        return super().exact_rows(rows)

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

    def with_members(
        self, members: Sequence[Scorer], weights: Weights | None = None
    ) -> "MixtureScorer":
        """The same weights, or others, for other members."""
        return MixtureScorer(members, weights or self.weights, self.offsets)


def check_members(members: Sequence[Scorer]) -> None:
    """Complain about scorers that cannot stand side by side."""
    if not members:
        raise ConfigError("an ensemble needs at least one member")
    sizes = {member.n_entities for member in members}
    if len(sizes) > 1:
        raise ConfigError(
            f"the members have different numbers of entities: {', '.join(map(str, sorted(sizes)))}"
        )
