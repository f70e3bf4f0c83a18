"""The table of entities in softmax training: queries are compared with its rows, and move them.

    S = Q Cᵀ        scores of the candidates C, turned into gradients G in place
    G C             gradients of the queries
    Gᵀ Q            gradients of the candidates

Q and C are lifted where the form is a distance (``models.form``); nobody outside this file knows.
"""

from collections.abc import Iterator

import numpy as np

from bilink._threads import ThreadPool
from bilink.models.form import Form
from bilink.training import softmax_kernels as kernels
from bilink.training.batches import Batch
from bilink.training.config import ROUNDING_PAYS, SoftmaxConfig
from bilink.training.optimizers import Optimizer
from bilink.training.softmax_kernels import Kept

SCORES = 256 * 2**20  # bytes of scores that are held at once
_PIECE = 256  # rows that are worked on at a time where they pass through several arrays


class Workspace:
    """Arrays that each batch uses again: new memory would cost as much as a pass over it."""

    def __init__(self) -> None:
        self._arrays: dict[str, np.ndarray] = {}

    def array(self, name: str, *shape: int) -> np.ndarray:
        """An array with any contents."""
        size = int(np.prod(shape))
        if name not in self._arrays or self._arrays[name].size < size:
            self._arrays[name] = np.empty(size, dtype=np.float32)
        return self._arrays[name][:size].reshape(shape)

    def zeros(self, name: str, *shape: int) -> np.ndarray:
        """An array that was zero at first, and is zero if its users leave it so."""
        if name not in self._arrays:
            self._arrays[name] = np.zeros(shape, dtype=np.float32)
        return self._arrays[name]


class EntityTable:
    """The entities: a batch reads rows, is compared with candidates, adds gradients, moves."""

    def __init__(
        self,
        params: np.ndarray,
        form: Form,
        config: SoftmaxConfig,
        pool: ThreadPool,
        count: int | None = None,
    ):
        self.params, self._form, self._pool = params, form, pool
        # Of the candidates that a sample stands for: more than there are rows in a part of a graph.
        self._count = len(params) if count is None else count
        self._smoothing, self._rounding = config.label_smoothing, config.rounding
        self._root = config.distance == "plain"
        self._workspace = Workspace()
        self._gradients = np.empty((0, 0), dtype=np.float32)  # of the rows, in this batch
        self._touched: np.ndarray | None = None  # which rows have a gradient; None for all
        self.optimizer = Optimizer(params, config.optimizer, pool)

    def compare(
        self, queries: np.ndarray, batch: Batch, negatives: np.ndarray | None
    ) -> np.ndarray:
        """The gradients of the queries; those of the candidates are gathered for ``step``.

        Candidates are all entities, or the answers and ``negatives``, in ascending order.  Losses
        are noted in ``batch``.
        """
        lifted = self._form.queries(queries)
        if negatives is not None:
            gradients = self._compare_sampled(lifted, batch, negatives)
        elif self._rounding:
            gradients = self._compare_rounded(lifted, batch)
        else:
            gradients = self._compare_all(lifted, batch)
        return self._form.query_backward(queries, gradients)

    def add(self, gradients: np.ndarray, ids: np.ndarray) -> None:
        """Add gradients of some rows; a row may come more than once."""
        kernels.add_rows(gradients, ids, self._gradients)
        if self._touched is not None:
            self._touched[ids] = True

    def step(self, rate: np.float32, number: int) -> None:
        """Move by the gradients of the batch; where those of few rows are kept, leave zeros."""
        rows = None if self._touched is None else np.flatnonzero(self._touched)
        self.optimizer.step(self._gradients, rate, number, rows)
        if rows is not None:
            self._gradients[rows] = 0

    def _begin_few(self) -> None:
        """Start a batch in which few rows get gradients."""
        self._gradients = self._workspace.zeros("row gradients", *self.params.shape)
        self._touched = np.zeros(len(self.params), dtype=bool)

    # -- three ways to compare -------------------------------------------------------------------

    def _compare_all(self, queries: np.ndarray, batch: Batch) -> np.ndarray:
        """With all entities, exactly."""
        candidates = self._candidates()
        query_gradients = np.empty_like(queries)
        candidate_gradients = self._workspace.array("gradients", *candidates.shape)
        for rows, scores in self._blocks(queries, candidates):
            targets = batch.targets(rows)
            self._pool.spread(
                kernels.softmax_gradients, len(scores), scores, targets, self._smoothing, self._root
            )
            np.matmul(scores, candidates, out=query_gradients[rows])
            if rows.start == 0:
                np.matmul(scores.T, queries[rows], out=candidate_gradients)
            else:
                candidate_gradients += scores.T @ queries[rows]
        self._gradients = self._form.candidate_backward(self.params, candidate_gradients)
        self._touched = None
        return query_gradients

    def _compare_rounded(self, queries: np.ndarray, batch: Batch) -> np.ndarray:
        """With all entities; most gradients are rounded to 0, so one product is left of three."""
        candidates = self._candidates()
        kept = _room(len(queries), len(candidates), self._rounding)
        answer_gradients = np.empty(len(batch.queries.answers), dtype=np.float32)
        for rows, scores in self._blocks(queries, candidates):
            targets, seed = batch.targets(rows), ~batch.seed + np.uint64(rows.start)
            how = self._rounding, seed, self._root
            into = Kept(*(array[rows] for array in kept)), answer_gradients
            self._pool.spread(kernels.rounded_gradients, len(scores), scores, targets, *how, *into)
        query_gradients = self._query_backward(candidates, kept)
        self._begin_few()
        self._add_kept(queries, kept)
        own_rows = self.params[batch.queries.answers]
        own = self._form.candidates(own_rows)
        self._add_answers(queries, batch, own_rows, own, answer_gradients, query_gradients)
        return query_gradients

    def _compare_sampled(
        self, queries: np.ndarray, batch: Batch, negatives: np.ndarray
    ) -> np.ndarray:
        """With the answers and a sample of negatives that the batch shares."""
        asked, form = batch.queries, self._form
        all_rows = len(negatives) == len(self.params)
        rows = self.params if all_rows else self.params[negatives]
        own_rows = self.params[asked.answers]
        candidates, own = form.candidates(rows), form.candidates(own_rows)
        rounding = self._rounding if self._rounding * len(candidates) >= ROUNDING_PAYS else 0.0
        kept = _room(len(queries), len(candidates), rounding)
        answer_gradients = np.empty(len(own), dtype=np.float32)
        query_gradients, gradients = np.empty_like(queries), np.zeros_like(candidates)
        places = places_in(negatives, asked.answers)
        for block, scores in self._blocks(queries, candidates):
            targets = batch.targets(block)._replace(answers=answer_gradients)
            arrays = scores, queries[block], own, targets, places
            seed = ~batch.seed + np.uint64(block.start)
            how = self._count, rounding, seed, self._root, Kept(*(x[block] for x in kept))
            self._pool.spread(kernels.sampled_gradients, len(scores), *arrays, *how)
            if not rounding:
                np.matmul(scores, candidates, out=query_gradients[block])
                gradients += scores.T @ queries[block]
        if rounding:
            query_gradients = self._query_backward(candidates, kept)
            backward = kernels.kept_candidate_backward
            self._pool.spread(backward, len(candidates), queries, kept, gradients)
        self._begin_few()
        self.add(form.candidate_backward(rows, gradients), negatives)
        self._add_answers(queries, batch, own_rows, own, answer_gradients, query_gradients)
        return query_gradients

    def _add_answers(
        self,
        queries: np.ndarray,
        batch: Batch,
        own_rows: np.ndarray,
        own: np.ndarray,
        answer_gradients: np.ndarray,
        query_gradients: np.ndarray,
    ) -> None:
        """Carry the gradients of the answers' scores back to the queries and to the answers."""
        own_gradients, starts = np.empty_like(own), batch.queries.starts
        arrays = answer_gradients, query_gradients, own_gradients
        self._pool.spread(kernels.answer_backward, len(queries), queries, own, starts, *arrays)
        self.add(self._form.candidate_backward(own_rows, own_gradients), batch.queries.answers)

    def _query_backward(self, candidates: np.ndarray, kept: Kept) -> np.ndarray:
        """The gradients of the queries, from those that were not rounded to 0."""
        gradients = np.empty((len(kept.counts), candidates.shape[1]), dtype=np.float32)
        self._pool.spread(kernels.kept_query_backward, len(gradients), candidates, kept, gradients)
        return gradients

    def _add_kept(self, queries: np.ndarray, kept: Kept) -> None:
        """Carry the gradients that were not rounded to 0 back to their candidates."""
        n, width = self.params.shape
        into = self._gradients
        if self._form.extra:
            into = self._workspace.zeros("lifted gradients", n, width + self._form.extra)
        self._pool.spread(kernels.kept_candidate_backward, n, queries, kept, into)
        touched = np.zeros(n, dtype=bool)
        touched[kept.columns[np.arange(kept.columns.shape[1]) < kept.counts[:, None]]] = True
        self._touched = touched
        if self._form.extra:
            rows = np.flatnonzero(touched)
            self._pool.spread(self._unlift, len(rows), rows, into)

    def _unlift(self, first: int, last: int, rows: np.ndarray, lifted: np.ndarray) -> None:
        """Move lifted gradients to the entities', in pieces that stay in the cache."""
        for start in range(first, last, _PIECE):
            some = rows[start : min(start + _PIECE, last)]
            gradients = self._form.candidate_backward(self.params[some], lifted[some])
            self._gradients[some] += gradients
            lifted[some] = 0

    # -- memory ----------------------------------------------------------------------------------

    def _candidates(self) -> np.ndarray:
        if not self._form.extra:
            return self.params
        n, width = self.params.shape
        out = self._workspace.array("lifted", n, width + self._form.extra)
        return self._form.candidates(self.params, out)

    def _blocks(
        self, queries: np.ndarray, candidates: np.ndarray
    ) -> Iterator[tuple[slice, np.ndarray]]:
        """Queries whose scores fit into memory, and these scores, always in the same memory."""
        block = max(1, SCORES // (4 * len(candidates)))
        for start in range(0, len(queries), block):
            rows = slice(start, min(start + block, len(queries)))
            scores = self._workspace.array("scores", rows.stop - start, len(candidates))
            np.matmul(queries[rows], candidates.T, out=scores)
            yield rows, scores


def _room(rows: int, columns: int, rounding: float) -> Kept:
    """Room for as many gradients as may be kept; none without rounding."""
    shape = rows, int(min(columns, 2 + 1 / rounding)) if rounding else 0
    return Kept(np.empty(shape, np.int32), np.empty(shape, np.float32), np.empty(rows, np.int64))


def places_in(ordered: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Where each id stands in ``ordered``; −1 where it does not."""
    places = np.minimum(np.searchsorted(ordered, ids), len(ordered) - 1)
    return np.where(ordered[places] == ids, places, -1)
