"""The question (?, r, ?): the best pairs of a relation, exactly, with few of them scored in full.

A coordinate of the queries may be multiplied by a weight if that of the candidates is divided by
it.  So both sides get the same size in each coordinate, and the largest coordinates come first.
Let x and y be a query and a candidate in this form.  Cauchy–Schwarz bounds their product by that of
their first p coordinates and the norms of what is left:

⟨x, y⟩ ≤ ⟨first p of x, first p of y⟩ + ‖rest of x‖·‖rest of y‖

The right side is itself a product, of rows that end with the norm of their rest.  It is computed in
float32, for tiles of pairs; the pairs whose bound, rounding included, reaches the best so far are
scored in double precision.  Tiles whose norms are too small for that are never multiplied.  So the
result is that of scoring all pairs; equal scores stand by ascending head, then tail.

Rules add to such a product, for the few pairs that they name, and never take away.  So the best
pairs are among the best of the product alone and those that rules name.
"""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bilink._threads import single_threaded_blas
from bilink.errors import QueryStopped
from bilink.evaluation.ranks import block_size
from bilink.models.scorer import Scorer
from bilink.queries.pair_kernels import STEP, Heap, Selection, change_axes, keep_best

MEMORY_BUDGET = 10**9  # bytes
ROWS, COLUMNS = 1024, 1024  # of a tile
SEEDS = 128  # heads that are looked at first, for a high threshold

_NAMED = 256  # heads whose rules are asked at once
_GATHERED = 16_384  # pairs that are scored at once
_SAMPLE = 2048  # rows that give the sizes of coordinates
_SAMPLED_ROWS, _SAMPLED_COLUMNS = 64, 128  # whose pairs give the level of products
_EXACT = 8000  # coordinates that BLAS multiplies while one pair is scored in double precision

_EPS = float(np.finfo(np.float32).eps)
_TINY = 1e-30  # above what numbers too small for float32 add up to
_LEAST = 1e-150  # unit of a side, so that the product of two is not zero


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of ids and their scores, best first."""

    heads: np.ndarray  # int64
    tails: np.ndarray  # int64
    scores: np.ndarray  # float64

    def __len__(self) -> int:
        return len(self.heads)


class PairSearch:
    """Finds the best pairs of any relation of a scorer."""

    def __init__(self, scorer: Scorer, threads: int | None = None):
        self._scorer = scorer
        self._threads = threads or os.cpu_count() or 1

    def best(
        self,
        relation: int,
        k: int,
        *,
        heads: np.ndarray | None = None,
        tails: np.ndarray | None = None,
        leave_out: np.ndarray | None = None,
        loops: bool = True,
        seeds: np.ndarray | None = None,
        floor: float = -np.inf,
        memory: int = MEMORY_BUDGET,
        progress: Callable[[int], None] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> Pairs:
        """The ``k`` pairs (head, tail) with the highest scores, of at least ``floor``.

        ``heads`` and ``tails`` are the entities to look at, without them all.  ``leave_out`` are
        pairs that do not count, as sorted numbers head · n_entities + tail; without ``loops``,
        neither do pairs of an entity and itself.  ``seeds`` are heads that probably have high
        scores.  Where ``memory``, in bytes, is short, all pairs are scored.  ``progress`` is called
        with the number of heads just done; when ``stop`` returns true, the search ends with
        ``QueryStopped``.
        """
        scorer, threads = self._scorer, self._threads
        heads, tails = self._ids(heads), self._ids(tails)
        selection = Selection(_ids(leave_out), loops, np.array([floor], dtype=np.float64))
        k = min(k, len(heads) * len(tails))
        if k == 0:
            return Pairs(_ids(None), _ids(None), np.empty(0))
        if self._has_rules(memory):
            return self._with_rules(relation, k, heads, tails, selection, seeds, progress, stop)
        scan: AllPairs | Tiles
        if scorer.is_product and self._bytes() <= memory:
            queries = _queries(scorer, heads, relation)
            scorer.check_finite(queries)
            scan = Tiles(queries, scorer.candidates, heads, tails, selection)
            blocks = scan.blocks(_ids(seeds))
        else:
            size, threads = block_size(scorer, memory, threads)
            scan, blocks = AllPairs(scorer, relation, tails, selection), _cut(heads, size)
        last = np.iinfo(np.int64).max
        heaps = [Heap(np.full(k, -np.inf), np.full(k, last)) for _ in range(threads)]
        _run(scan, blocks, heaps, progress, stop)
        return _merge(heaps, k, scorer.n_entities)

    def _has_rules(self, memory: int) -> bool:
        """Whether scores are a product and what rules add to it."""
        scorer = self._scorer
        weights = getattr(scorer, "weights", {})
        has_rules = hasattr(scorer, "named_facts") and getattr(scorer, "has_rules", True)
        never_less = all((weights[side] >= 0).all() for side in weights)
        return has_rules and scorer.form.is_product and never_less and self._bytes() <= memory

    def _with_rules(
        self,
        relation: int,
        k: int,
        heads: np.ndarray,
        tails: np.ndarray,
        selection: Selection,
        seeds: np.ndarray | None,
        progress: Callable[[int], None] | None,
        stop: Callable[[], bool] | None,
    ) -> Pairs:
        scorer: Any = self._scorer
        queries, candidates = scorer.dense_facts(heads, relation)
        if not np.isfinite(queries).all() or not np.isfinite(candidates).all():
            scorer.check_finite(queries[:, : scorer.width])
        n, last = scorer.n_entities, np.iinfo(np.int64).max
        scan = Tiles(queries, candidates, heads, tails, selection)
        heaps = [Heap(np.full(k, -np.inf), np.full(k, last)) for _ in range(self._threads)]
        _run(scan, scan.blocks(_ids(seeds)), heaps, None, stop)
        plain = _merge(heaps, k, n)
        rules = Named(scorer, relation, heads, tails, (queries, candidates), selection, plain, k)
        _run(rules, _cut(np.arange(len(heads)), _NAMED), [None] * self._threads, progress, stop)
        return rules.best()

    def _ids(self, chosen: np.ndarray | None) -> np.ndarray:
        return np.arange(self._scorer.n_entities) if chosen is None else np.unique(_ids(chosen))

    def _bytes(self) -> float:
        """What the queries, the candidates in new coordinates and the tiles take."""
        n, number, width = self._scorer.n_entities, self._scorer.dtype.itemsize, self._scorer.width
        tile = 4 * ROWS * COLUMNS + (ROWS * (8 + number) + 4 * COLUMNS) * width
        return n * width * (number + 4 + 4 / STEP) + self._threads * tile


def _ids(given: np.ndarray | None) -> np.ndarray:
    return np.asarray([] if given is None else given, dtype=np.int64)


def _cut(ids: np.ndarray, size: int) -> list[np.ndarray]:
    return [ids[i : i + size] for i in range(0, len(ids), size)]


def _merge(heaps: list[Heap], k: int, n: int) -> Pairs:
    """The best of all threads."""
    scores, keys = (np.concatenate(parts) for parts in zip(*heaps, strict=True))
    best = np.lexsort((keys, -scores))[:k]
    best = best[scores[best] > -np.inf]
    return Pairs(keys[best] // n, keys[best] % n, scores[best])


def _run(
    scan: Callable[[np.ndarray, Any], None],
    blocks: list[np.ndarray],
    heaps: Sequence[Any],
    progress: Callable[[int], None] | None,
    stop: Callable[[], bool] | None,
) -> None:
    """Hand the blocks of heads to one thread per heap, the first block before all others."""
    waiting = iter(blocks)
    stopped = threading.Event()

    def loop(heap: Heap, most: int | None = None) -> None:
        for done, block in enumerate(waiting, start=1):
            if stopped.is_set() or (stop is not None and stop()):
                stopped.set()
                return
            scan(block, heap)
            if progress:
                progress(len(block))
            if done == most:
                return

    with single_threaded_blas(), ThreadPoolExecutor(len(heaps)) as pool:
        try:
            loop(heaps[0], most=1)  # which raises the threshold
            for job in [pool.submit(loop, heap) for heap in heaps]:
                job.result()
        except BaseException:
            stopped.set()  # after an error or Ctrl-C the threads end with their block
            raise
    if stopped.is_set():
        raise QueryStopped("the search was stopped before it had seen all pairs")


def _queries(scorer: Scorer, heads: np.ndarray, relation: int) -> np.ndarray:
    return scorer.fact_queries(heads, np.full_like(heads, relation))


class AllPairs:
    """Scores every pair: for scores that are no products, and where memory is short."""

    def __init__(self, scorer: Scorer, relation: int, tails: np.ndarray, selection: Selection):
        self._scorer, self._relation, self._selection = scorer, relation, selection
        self._everyone = np.arange(scorer.n_entities)
        self._others = np.setdiff1d(self._everyone, tails)

    def __call__(self, heads: np.ndarray, heap: Heap) -> None:
        """Score some heads with all candidates."""
        scorer = self._scorer
        queries = _queries(scorer, heads, self._relation)
        # Products are scored again one by one; other scores must not depend on the block.
        scores = scorer.query_scores(queries, repeatable=not scorer.form.is_product)
        scores[:, self._others] = np.nan  # which reaches no threshold
        keep_best(
            scores,
            1.0,
            scorer.tolerances(queries).astype(np.float64),
            *scorer.exact_rows(queries),
            heads,
            self._everyone,
            scorer.is_product,
            self._selection,
            heap,
        )


class Named:
    """Scores the pairs that rules name, and keeps the best of them and of the others."""

    def __init__(
        self,
        scorer: Any,
        relation: int,
        heads: np.ndarray,
        tails: np.ndarray,
        rows: tuple[np.ndarray, np.ndarray],
        selection: Selection,
        plain: Pairs,
        k: int,
    ):
        self._scorer, self._relation, self._heads, self._rows = scorer, relation, heads, rows
        self._selection, self._k, self._lock = selection, k, threading.Lock()
        self._allowed = np.zeros(scorer.n_entities, dtype=bool)
        self._allowed[tails] = True
        # Named or not, the best of the product alone have at least these scores.
        self._keys = plain.heads * scorer.n_entities + plain.tails
        self._scores = plain.scores

    def __call__(self, places: np.ndarray, _: Any) -> None:
        """Score what rules name for some heads."""
        n, (queries, candidates) = self._scorer.n_entities, self._rows
        pairs, added = self._scorer.named_facts(self._heads[places], self._relation)
        rows, tails = places[pairs[:, 0]], pairs[:, 1]
        keys = self._heads[rows] * n + tails
        keep = self._allowed[tails] & ~_within(keys, self._selection.leave_out)
        if not self._selection.loops:
            keep &= self._heads[rows] != tails
        rows, tails, keys, scores = rows[keep], tails[keep], keys[keep], added[keep]
        for part in (slice(i, i + _GATHERED) for i in range(0, len(rows), _GATHERED)):
            left, right = queries[rows[part]], candidates[tails[part]]
            scores[part] += np.einsum("ij,ij->i", left, right, dtype=np.float64)
        best = scores >= self._selection.threshold[0]
        with self._lock:
            self._add(keys[best], scores[best])

    def _add(self, keys: np.ndarray, scores: np.ndarray) -> None:
        """Mix in pairs; the score with rules takes the place of that without."""
        keys, scores = np.concatenate([keys, self._keys]), np.concatenate([scores, self._scores])
        order = np.lexsort((-scores, keys))
        first = np.diff(keys[order], prepend=-1) != 0
        keys, scores = keys[order[first]], scores[order[first]]
        order = np.lexsort((keys, -scores))[: self._k]
        self._keys, self._scores = keys[order], scores[order]
        if len(order) == self._k:
            threshold = self._selection.threshold
            threshold[0] = max(threshold[0], self._scores[-1])

    def best(self) -> Pairs:
        """The best of all."""
        n = self._scorer.n_entities
        return Pairs(self._keys // n, self._keys % n, self._scores)


def _within(keys: np.ndarray, those: np.ndarray) -> np.ndarray:
    """Whether each key is one of ``those``, which are sorted."""
    if not len(those):
        return np.zeros(len(keys), dtype=bool)
    return those[np.minimum(np.searchsorted(those, keys), len(those) - 1)] == keys


class Tiles:
    """Scores the pairs whose bounds reach the threshold."""

    def __init__(
        self,
        queries: np.ndarray,
        candidates: np.ndarray,
        heads: np.ndarray,
        tails: np.ndarray,
        selection: Selection,
    ):
        self._queries, self._candidates, self._heads = queries, candidates, heads
        self._selection = selection
        self._axes, axes, self._unit = balance(queries, candidates)
        self._tails = _by_norm(candidates, tails, axes)
        self._columns = Rows.of(candidates, self._tails, axes)

    def blocks(self, seeds: np.ndarray) -> list[np.ndarray]:
        """All rows of queries: some seeds, or the largest, then the others by their norms."""
        order = _by_norm(self._queries, np.arange(len(self._heads)), self._axes)
        first = np.flatnonzero(np.isin(self._heads, seeds))
        first = first[:: max(1, -(-len(first) // SEEDS))] if len(first) else order[:SEEDS]
        return [np.ascontiguousarray(first), *_cut(order[~np.isin(order, first)], ROWS)]

    def __call__(self, places: np.ndarray, heap: Heap) -> None:
        """Go through the tiles of some rows of queries, until their norms are too small."""
        rows, threshold = Rows.of(self._queries, places, self._axes), self._selection.threshold
        queries, heads = self._queries[places], self._heads[places]
        tolerances = rows.tolerances(self._columns)
        level = self._cheapest_level(rows, tolerances)
        left = rows.first(level)
        for start in range(0, len(self._tails), COLUMNS):
            columns = self._columns[start : start + COLUMNS]
            highest = (rows.norms * columns.norms.max() + tolerances).max()
            if highest * self._unit < threshold[0]:
                return
            keep_best(
                left @ columns.first(level).T,
                self._unit,
                tolerances,
                queries,
                self._candidates,
                heads,
                self._tails[start : start + COLUMNS],
                True,
                self._selection,
                heap,
            )

    def _cheapest_level(self, rows: "Rows", tolerances: np.ndarray) -> int:
        """The level of products that costs least, judged by a sample of pairs."""
        threshold, levels = self._selection.threshold[0], range(1, rows.rests.shape[1])
        if threshold == -np.inf:
            return levels[-1]  # the threshold rises while the first tile is looked at
        few = slice(None, None, max(1, len(tolerances) // _SAMPLED_ROWS))
        x, limits = rows[few], threshold / self._unit - tolerances[few, None]
        y = self._columns[:: max(1, len(self._tails) // _SAMPLED_COLUMNS)]
        reaching = [np.mean(x.first(level) @ y.first(level).T >= limits) for level in levels]
        return levels[np.argmin(STEP * np.array(levels) + _EXACT * np.array(reaching))]


class Axes(NamedTuple):
    """The coordinates of one side: the k-th is number order[k] of a row, times weights[k]."""

    order: np.ndarray
    weights: np.ndarray


def balance(queries: np.ndarray, candidates: np.ndarray) -> tuple[Axes, Axes, float]:
    """The axes of both sides, with coordinates of at most 1, and the unit of their products."""
    sizes, others = _root_mean_squares(queries), _root_mean_squares(candidates)
    order = np.argsort(-sizes * others, kind="stable")
    weights = np.sqrt(others / sizes)[order]
    unit = max(_LEAST, np.max(_largest(queries)[order] * weights))
    other = max(_LEAST, np.max(_largest(candidates)[order] / weights))
    return Axes(order, weights / unit), Axes(order, 1 / weights / other), unit * other


def _root_mean_squares(rows: np.ndarray) -> np.ndarray:
    """The size of each coordinate, never nothing."""
    some = rows[:: max(1, len(rows) // _SAMPLE)].astype(np.float64)
    largest = np.abs(some).max(initial=1e-140)
    return largest * np.sqrt(np.maximum(np.mean((some / largest) ** 2, axis=0), 1e-12))


def _largest(rows: np.ndarray) -> np.ndarray:
    """The largest size of each coordinate."""
    return np.maximum(rows.max(axis=0), -rows.min(axis=0)).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of one side in its axes, and the norms of what is left of them at each level."""

    values: np.ndarray  # float32
    rests: np.ndarray  # float32, rounded up: ‖row without its first level · STEP coordinates‖

    @classmethod
    def of(cls, rows: np.ndarray, places: np.ndarray, axes: Axes) -> "Rows":
        """The rows at some places."""
        width = len(axes.order)
        values = np.empty((len(places), width), dtype=np.float32)
        rests = np.zeros((len(places), -(-width // STEP) + 1), dtype=np.float32)
        change_axes(rows, places, *axes, values, rests)
        rests *= 1 + 4 * _EPS
        return cls(values, rests)

    def __getitem__(self, places: slice) -> "Rows":
        return Rows(self.values[places], self.rests[places])

    @property
    def norms(self) -> np.ndarray:
        """The norms of the rows, rounded up."""
        return self.rests[:, 0].astype(np.float64)

    def first(self, level: int) -> np.ndarray:
        """Rows whose products are bounds: the first coordinates, and the norm of the rest."""
        return np.hstack([self.values[:, : level * STEP], self.rests[:, level : level + 1]])

    def tolerances(self, others: "Rows") -> np.ndarray:
        """For each row, how far rounding may move its bounds with others below the true ones.

        A sum of n products in any order is within n·ε/2·Σ|xₖ yₖ| of the true one, to first order,
        and that sum is at most ‖x‖·‖y‖, also with the norms of rests as last coordinates.  Rounding
        x and y to float32 takes away as much as two more products.  More than twice all this leaves
        room for higher orders and for the rounding of the exact score.
        """
        width = self.values.shape[1]
        return (width + 16) * _EPS * others.norms.max() * self.norms + _TINY


def _by_norm(rows: np.ndarray, places: np.ndarray, axes: Axes) -> np.ndarray:
    """The places by the norms of their rows, the greatest first."""
    norms = [Rows.of(rows, part, axes).norms for part in _cut(places, COLUMNS)]
    return places[np.argsort(-np.concatenate(norms), kind="stable")]
