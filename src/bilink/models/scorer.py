"""Scorers: anything that gives every entity a score as the answer to a question.

A question is (side, given entity, relation): "which tail goes with this head?" or "which head goes
with this tail?".  It becomes a query, and the query meets all candidates at once:

    score of candidate c = ⟨q, c⟩                              one form: most models, mixtures
    score of candidate c = readout(⟨q₁, c₁⟩, …, ⟨qₖ, cₖ⟩)      several forms (``readout``)

A scorer whose queries are no rows of numbers (paths, say, whose scores are sparse) overrides
``query_scores``.  Ranking, top-k, ensembles, pair search, explanations and serving know scorers,
never models.
"""

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from bilink.errors import DataError, TrainingError
from bilink.models.form import INNER_PRODUCT, Form
from bilink.models.registry import Family

Side = Literal["head", "tail"]
SIDES: tuple[Side, ...] = ("head", "tail")  # the side that is asked for
BLOCK_MEMORY = 64 * 2**20  # bytes of scores that ``blocks`` holds at once
_ROWS = 8192  # triples that are scored at once
_CANDIDATES = 1024  # that are compared at once in double precision


class Scorer:
    """Scores all entities as answers to questions.

    ``candidates`` has one row per entity.  A kind of scorer defines ``queries``; with rows of
    numbers that is all there is to it.
    """

    def __init__(self, candidates: np.ndarray, form: Form = INNER_PRODUCT, nbytes: int = 0):
        self.candidates, self.form = candidates, form
        self.nbytes = nbytes  # what the scorer keeps beside the arrays of its models
        self.n_entities, self.width = candidates.shape
        self.dtype = candidates.dtype
        self._largest_norm = form.largest_norm(candidates)

    @property
    def is_product(self) -> bool:
        """Whether scores are inner products of queries and candidates."""
        return self.form.is_product

    @property
    def query_width(self) -> int:
        """How many numbers a query has."""
        return self.width

    @property
    def splits(self) -> bool:
        """Whether candidates may be scored in parts, apart from the answer that they are held to.

        Their scores have to be made of rows, and what rounding does to them has to be settled:
        by ``exact``, or because sums are always in one order.
        """
        return self.form.splits and (self.is_product or not self.form.is_product)

    @property
    def row_bytes(self) -> int:
        """Memory that the scores of one query take."""
        return self.bytes_of(self.n_entities)

    def bytes_of(self, candidates: int) -> int:
        """Memory that the scores of one query and so many candidates take."""
        return (candidates + 4 * max(self.width, self.query_width)) * self.dtype.itemsize

    # -- what a kind of scorer defines -----------------------------------------------------------

    def queries(self, side: Side, given: np.ndarray, relations: np.ndarray) -> np.ndarray:
        """One row per question "which ``side``?", given the other entity and the relation."""
        raise NotImplementedError

    def fact_queries(self, heads: np.ndarray, relations: np.ndarray) -> np.ndarray:
        """One row per (head, relation); compared with a tail's candidate, it gives ``score``."""
        return self.queries("tail", heads, relations)

    # -- what everybody uses ---------------------------------------------------------------------

    def scores(
        self,
        side: Side,
        given: np.ndarray,
        relations: np.ndarray,
        *,
        repeatable: bool = False,
    ) -> np.ndarray:
        """The scores of all entities as answers to each question, checked to be finite.

        The last digits of a product depend on how many rows it has and on the place of a row among
        them.  Scores that are ``repeatable`` do not depend on what else is asked: they are computed
        in double precision before they are rounded, which takes about twice as long.
        """
        return self.query_scores(self.queries(side, given, relations), repeatable=repeatable)

    def blocks(
        self, side: Side, given: np.ndarray, relations: np.ndarray, memory: int = BLOCK_MEMORY
    ) -> Iterator[tuple[slice, np.ndarray]]:
        """Parts of the questions, and their ``scores``, within so many bytes.

        The same memory is used for each block: what is to be kept has to be copied.
        """
        size = max(1, min(len(given), memory // self.row_bytes))
        buffer = np.empty((size, self.n_entities), dtype=self.dtype)
        for start in range(0, len(given), size):
            part = slice(start, min(start + size, len(given)))
            queries = self.queries(side, given[part], relations[part])
            yield part, self.query_scores(queries, buffer[: part.stop - start])

    def query_scores(
        self, queries: np.ndarray, out: np.ndarray | None = None, *, repeatable: bool = False
    ) -> np.ndarray:
        """out[i, j] = the score of candidate j for queries[i]; an error unless all are finite."""
        self.check_finite(queries)
        if out is None:
            out = np.empty((len(queries), self.n_entities), dtype=self.dtype)
        if not repeatable:
            self.compare(queries, self.candidates, out)
            return out
        queries = queries.astype(np.float64)
        for start in range(0, self.n_entities, _CANDIDATES):
            candidates = self.candidates[start : start + _CANDIDATES].astype(np.float64)
            values = np.empty((len(queries), len(candidates)))
            self.compare(queries, candidates, values)
            out[:, start : start + _CANDIDATES] = values
        return out

    def compare(self, queries: np.ndarray, candidates: np.ndarray, out: np.ndarray) -> None:
        """out[i, j] = the score of the row candidates[j] for queries[i], which were checked."""
        self.form.scores(queries, candidates, out)

    def check_finite(self, queries: np.ndarray) -> None:
        """Refuse scores that are, or may become, infinite or NaN."""
        if not self._largest_score(queries) < np.finfo(self.dtype).max:
            raise _not_finite()

    def score(self, triples: np.ndarray) -> np.ndarray:
        """The score of each (head, relation, tail) of ids; higher is more likely.

        A score that is not finite is an error.
        """
        triples = np.asarray(triples).reshape(-1, 3)
        check_ids(triples[:, 2], self.n_entities, "entity")
        scores = np.empty(len(triples), dtype=self.dtype)
        size = max(1, min(_ROWS, BLOCK_MEMORY // (self.query_width * self.dtype.itemsize)))
        for start in range(0, len(triples), size):
            heads, relations, tails = triples[start : start + size].T
            queries = self.fact_queries(heads, relations)
            found = self.form.pair_scores(queries, self.candidates[tails])
            scores[start : start + size] = found
        if not np.isfinite(scores).all():
            raise _not_finite()
        return scores

    # -- rounding --------------------------------------------------------------------------------

    def tolerances(self, queries: np.ndarray) -> np.ndarray:
        """For each query, how far rounding may move two equal scores apart; 0 means not at all.

        Scores nearer than this are compared by ``exact`` of the rows of ``exact_rows``.
        """
        return self.form.tolerances(queries, self._largest_norm, self.width)

    @property
    def exact(self) -> Any:
        """The kernel function that scores a query and a candidate in double precision."""
        return self.form.exact

    @property
    def exact_name(self) -> str:
        """A name for what is compiled with ``exact``."""
        return self.form.exact_name

    def exact_rows(self, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows of queries and candidates that ``exact`` compares."""
        return queries, self.candidates

    def _largest_score(self, queries: np.ndarray) -> float:
        return self.form.largest_score(queries, self._largest_norm, self.width)


def _not_finite() -> TrainingError:
    return TrainingError(
        "the model gives scores that are not finite, so its ranks would mean nothing; "
        "train it again with a smaller learning rate or more regularization"
    )


class ModelScorer(Scorer):
    """The scorer of one model."""

    def __init__(self, family: Family, entities: np.ndarray, relations: np.ndarray):
        form = family.form.centred(entities)
        candidates = form.candidates(entities)
        super().__init__(candidates, form)
        self.nbytes = 0 if candidates is entities else candidates.nbytes
        self._entities, self._relations = entities, relations
        self._query_width = family.query_width(entities.shape[1])
        self._fill_queries = family.bind(fill_queries)

    @property
    def query_width(self) -> int:
        """How many numbers a query has."""
        return max(self.width, self._query_width)

    def queries(self, side: Side, given: np.ndarray, relations: np.ndarray) -> np.ndarray:
        """One row per question "which ``side``?", given the other entity and the relation."""
        check_ids(given, len(self._entities), "entity")
        check_ids(relations, len(self._relations), "relation")
        rows = np.empty((len(given), self._query_width), dtype=self.dtype)
        self._fill_queries(self._entities, self._relations, given, relations, side == "head", rows)
        return self.form.queries(rows)


# Placeholders that ``bind`` replaces by a model's kernel functions.
tail_query: Any = None
head_query: Any = None


def fill_queries(entities, relations, given, relation_ids, ask_head, out):
    """out[i] = the query for the head (else the tail) that goes with given[i], relation_ids[i]."""
    for i in range(given.shape[0]):
        if ask_head:
            head_query(entities[given[i]], relations[relation_ids[i]], out[i])
        else:
            tail_query(entities[given[i]], relations[relation_ids[i]], out[i])


def check_ids(ids: np.ndarray, count: int, kind: str) -> None:
    """Complain about ids that a kernel would read beyond its arrays."""
    if len(ids) and not (ids.min() >= 0 and ids.max() < count):
        wrong = ids[(ids < 0) | (ids >= count)][0]
        raise DataError(f"{kind} id {wrong} is out of range: the model has {count:,}")
