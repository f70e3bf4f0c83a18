"""The question (?, r, ?): the best pairs of a relation, exactly, with few of them scored in full.

Queries and candidates are brought into coordinates whose first ones say most (``bounds``), and
sorted by how large their scores can be.  A tile of pairs that cannot reach the best so far is never
multiplied; any other is multiplied over its first coordinates only, and the pairs that may still be
among the best are followed to the end, in double precision.  So the result is that of scoring all
pairs; equal scores stand by ascending head, then tail.
"""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bilink._jit import kernel, reduction, verb
from bilink.errors import QueryStopped
from bilink.models.scorer import Scorer
from bilink.queries.bounds import STEP, Bounds, Coordinates, Frame
from bilink.ranking.ranks import block_size, check_finite, exact_score, single_threaded_blas

MEMORY_BUDGET = 10**9  # bytes
_ROWS, _COLUMNS = 256, 1024  # of a tile; its scores stay in the cache
_SEEDS = 128  # queries that are looked at in full, to begin with a high bar
_LADDER = (
    8,
    16,
    24,
    32,
    40,
    48,
    64,
    80,
    96,
    128,
    192,
    256,
    384,
    512,
)  # coordinates of a first look
_LOOK, _FOLLOW = 24, 1500  # what a look at a pair, and following it, cost; a coordinate costs 1
_SEGMENT = 64  # pairs that are looked at together


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
        scorer = self._scorer
        heads, tails = self._ids(heads), self._ids(tails)
        goal = _Goal(k, _ids(leave_out), loops, floor, scorer.n_entities)
        if not (len(heads) and len(tails)):
            return goal.pairs([goal.heap()])
        queries = scorer.fact_queries(heads, np.full_like(heads, relation))
        check_finite(scorer, queries)
        bounded = scorer.is_product and self._bytes() <= memory
        with single_threaded_blas():  # threads that wait for each other suffer on a busy machine
            bounds = self._frame.bounds(queries, tails) if bounded else None
        if bounds is None:
            size, threads = block_size(scorer, memory, self._threads)
            everything = _AllPairs(scorer, queries, heads, tails, goal)
            return _run(everything, everything.blocks(size), goal, threads, progress, stop)
        tiles = _Tiles(scorer, queries, heads, tails, bounds, goal)
        return _run(tiles, tiles.blocks(_ids(seeds)), goal, self._threads, progress, stop)

    def _ids(self, chosen: np.ndarray | None) -> np.ndarray:
        return np.arange(self._scorer.n_entities) if chosen is None else np.unique(_ids(chosen))

    @cached_property
    def _frame(self) -> Frame:
        return Frame(self._scorer)

    def _bytes(self) -> float:
        """What the queries, both sides in the new coordinates, and the tiles take."""
        arrays = 5.5 * self._scorer.n_entities * self._scorer.width * 4
        return arrays + self._threads * _ROWS * _COLUMNS * 4


def _ids(given: np.ndarray | None) -> np.ndarray:
    return np.asarray([] if given is None else given, dtype=np.int64)


def _cut(rows: np.ndarray, size: int) -> list[np.ndarray]:
    return [rows[i : i + size] for i in range(0, len(rows), size)]


class _Goal:
    """What is looked for, and the bar that all threads have reached together."""

    def __init__(self, k: int, leave_out: np.ndarray, loops: bool, floor: float, n: int):
        self.leave_out, self.loops, self.n = leave_out, loops, n
        self.k = min(k, n * n)
        self.bar = np.array([floor], dtype=np.float64)

    def heap(self) -> tuple[np.ndarray, np.ndarray]:
        """Room for the best pairs of one thread: scores, and head · n + tail."""
        return np.full(self.k, -np.inf), np.full(self.k, np.iinfo(np.int64).max)

    def pairs(self, heaps: list[tuple[np.ndarray, np.ndarray]]) -> Pairs:
        """The best of all threads."""
        scores, keys = (np.concatenate(parts) for parts in zip(*heaps, strict=True))
        best = np.lexsort((keys, -scores))[: self.k]
        best = best[scores[best] > -np.inf]
        return Pairs(keys[best] // self.n, keys[best] % self.n, scores[best])


Work = Callable[[np.ndarray, tuple[np.ndarray, np.ndarray]], None]


def _run(
    work: Work,
    blocks: list[np.ndarray],
    goal: _Goal,
    threads: int,
    progress: Callable[[int], None] | None,
    stop: Callable[[], bool] | None,
) -> Pairs:
    """Hand the blocks of heads to threads, the first one before all others."""
    waiting = iter(blocks)
    stopped = threading.Event()
    heaps = [goal.heap() for _ in range(threads)]

    def loop(heap: tuple[np.ndarray, np.ndarray], most: int | None = None) -> None:
        for done, rows in enumerate(waiting, start=1):
            if stopped.is_set() or (stop is not None and stop()):
                stopped.set()
                return
            work(rows, heap)
            if progress:
                progress(len(rows))
            if done == most:
                return

    with single_threaded_blas(), ThreadPoolExecutor(threads) as pool:
        try:
            loop(heaps[0], most=1)  # which raises the bar
            for job in [pool.submit(loop, heap) for heap in heaps]:
                job.result()
        except BaseException:
            stopped.set()  # after an error or Ctrl-C the threads end with their block
            raise
    if stopped.is_set():
        raise QueryStopped("the search was stopped before it had seen all pairs")
    return goal.pairs(heaps)


class _AllPairs:
    """Scores every pair: for scores that are no products, and where memory is short."""

    def __init__(
        self,
        scorer: Scorer,
        queries: np.ndarray,
        heads: np.ndarray,
        tails: np.ndarray,
        goal: _Goal,
    ):
        self._scorer, self._queries, self._goal = scorer, queries, goal
        self._heads, self._tails = heads, tails

    def blocks(self, size: int) -> list[np.ndarray]:
        """All rows of queries."""
        return _cut(np.arange(len(self._heads)), size)

    def __call__(self, rows: np.ndarray, heap: tuple[np.ndarray, np.ndarray]) -> None:
        scorer, goal = self._scorer, self._goal
        queries = self._queries[rows]
        scores = np.empty((len(rows), scorer.n_entities), dtype=scorer.dtype)
        scorer.score_block(queries, scores)
        _take_scores(
            scores,
            queries,
            scorer.candidates,
            scorer.tolerances(queries).astype(np.float64),
            scorer.is_product,
            self._heads[rows],
            self._tails,
            goal.leave_out,
            goal.loops,
            goal.bar,
            *heap,
        )


class _Tiles:
    """Follows only the pairs whose first coordinates leave a chance."""

    def __init__(
        self,
        scorer: Scorer,
        queries: np.ndarray,
        heads: np.ndarray,
        tails: np.ndarray,
        bounds: Bounds,
        goal: _Goal,
    ):
        self._candidates, self._queries, self._goal = scorer.candidates, queries, goal
        self._heads = heads
        self._q, self._slack = bounds.queries, bounds.slack
        self._q_first = _First.of(bounds.queries)
        first = _First.of(bounds.candidates)
        self._promise = self._q_first.promise(first)
        order = np.argsort(-first.promise(self._q_first), kind="stable")
        self._tails = tails[order]
        self._c = bounds.candidates.rows[order]
        self._c_rests = bounds.candidates.rests[order]
        first = first.of_rows(order)
        self._starts = np.arange(0, len(order), _COLUMNS)
        self._corners = first.extremes(self._starts)
        self._width = self._c.shape[1]

    def blocks(self, seeds: np.ndarray) -> list[np.ndarray]:
        """All rows of queries: some seeds, or the most promising, then the others in order."""
        order = np.argsort(-self._promise, kind="stable")
        first = np.flatnonzero(np.isin(self._heads, seeds))
        first = first[:: max(1, -(-len(first) // _SEEDS))] if len(first) else order[:_SEEDS]
        return [first, *_cut(order[~np.isin(order, first)], _ROWS)]

    def __call__(self, places: np.ndarray, heap: tuple[np.ndarray, np.ndarray]) -> None:
        goal, slack = self._goal, self._slack[places]
        alive = self._starts[self._reach(places) >= goal.bar[0] - slack.max()]
        if not len(alive):
            return
        rows, rests = self._q.rows[places], self._q.rests[places]
        width = self._first_look(rows, rests, slack, int(alive[-1]) + _COLUMNS)
        room = np.empty(len(rows) * _COLUMNS, dtype=np.float32)
        for start in alive:
            tile = slice(start, start + _COLUMNS)
            scores = room[: len(rows) * len(self._c[tile])].reshape(len(rows), -1)
            np.matmul(rows[:, :width], self._c[tile, :width].T, out=scores)
            _follow(
                scores,
                width // STEP,
                rows,
                self._c[tile],
                rests,
                self._c_rests[tile],
                slack,
                self._queries,
                self._candidates,
                places,
                self._heads,
                self._tails[tile],
                goal.leave_out,
                goal.loops,
                goal.bar,
                *heap,
            )

    def _reach(self, places: np.ndarray) -> np.ndarray:
        """For each tile of candidates, a bound on all scores with these rows of queries."""
        low, high, rest = self._q_first.of_rows(places).extremes(np.zeros(1, dtype=int))
        c_low, c_high, c_rest = self._corners
        corners = [x * y for x in (low, high) for y in (c_low, c_high)]
        return np.max(corners, axis=0) + rest * c_rest

    def _first_look(self, rows: np.ndarray, rests: np.ndarray, slack: np.ndarray, n: int) -> int:
        """How many coordinates to multiply at first: what is cheapest on a sample."""
        bar = self._goal.bar[0]
        if bar == -np.inf:
            return self._width
        some = slice(None, min(n, len(self._c)), max(1, n // 256))
        few = slice(None, None, max(1, len(rows) // 32))
        q, c = rows[few], self._c[some]
        best, cheapest = self._width, float(self._width + _LOOK)
        for width in _LADDER:
            if width + _LOOK >= cheapest:
                break
            level = width // STEP
            reach = q[:, :width] @ c[:, :width].T
            reach += np.outer(rests[few, level], self._c_rests[some, level])
            alive = np.mean(reach >= bar - slack[few, None])
            if (cost := width + _LOOK + _FOLLOW * alive) < cheapest:
                best, cheapest = width, float(cost)
        return best


@dataclass(frozen=True, eq=False)
class _First:
    """The first coordinate of rows, and the norm of all others, rounded up; in float64."""

    value: np.ndarray
    rest: np.ndarray

    @classmethod
    def of(cls, side: Coordinates) -> "_First":
        value, whole = side.rows[:, 0].astype(np.float64), side.rests[:, 0].astype(np.float64)
        return cls(value, np.sqrt(np.maximum(whole**2 - value**2, 0)))

    def of_rows(self, rows: np.ndarray) -> "_First":
        """The same of some rows."""
        return _First(self.value[rows], self.rest[rows])

    def promise(self, other: "_First") -> np.ndarray:
        """For each row, a bound on its product with all of the other side."""
        ends = (other.value.min(), other.value.max())
        return np.maximum(*(self.value * end for end in ends)) + self.rest * other.rest.max()

    def extremes(self, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The least and the greatest value and the greatest rest, from each start to the next."""
        return (
            np.minimum.reduceat(self.value, starts),
            np.maximum.reduceat(self.value, starts),
            np.maximum.reduceat(self.rest, starts),
        )


@reduction
def _count_alive(scores, rests, rest, limit):
    """How many pairs of a segment may reach the limit; counted in the scores' own type."""
    one, zero = scores.dtype.type(1), scores.dtype.type(0)
    alive = zero
    for j in range(scores.shape[0]):
        alive += one if scores[j] + rest * rests[j] >= limit else zero
    return alive


@reduction
def _partial(query, candidate, start, stop):
    """Σ qₖ cₖ over start ≤ k < stop."""
    total = query[start] * candidate[start]
    for k in range(start + 1, stop):
        total += query[k] * candidate[k]
    return total


@verb
def _may_reach(score, level, q, c, q_rests, c_rests, i, j, limit):
    """Whether a pair still may reach the limit as more and more of its coordinates are seen."""
    last = q_rests.shape[1] - 1
    while level < last:
        after = min(level + 2, last)
        score += _partial(q[i], c[j], level * STEP, after * STEP)
        if score + q_rests[i, after] * c_rests[j, after] < limit:
            return False
        level = after
    return True


@verb
def _contains(keys, key):
    """Whether sorted ``keys`` hold ``key``."""
    place = np.searchsorted(keys, key)
    return place < keys.shape[0] and keys[place] == key


@verb
def _keep(score, key, bar, heap_scores, heap_keys):
    """Put a pair in the place of the worst of a heap (which has its worst on top), if better."""
    if score < heap_scores[0] or (score == heap_scores[0] and key > heap_keys[0]):
        return
    k = heap_scores.shape[0]
    at = 0
    while 2 * at + 1 < k:
        child = 2 * at + 1
        right = child + 1
        if right < k and (
            heap_scores[right] < heap_scores[child]
            or (heap_scores[right] == heap_scores[child] and heap_keys[right] > heap_keys[child])
        ):
            child = right
        if heap_scores[child] > score or (heap_scores[child] == score and heap_keys[child] < key):
            break
        heap_scores[at], heap_keys[at] = heap_scores[child], heap_keys[child]
        at = child
    heap_scores[at], heap_keys[at] = score, key
    bar[0] = max(bar[0], heap_scores[0])


@kernel
def _follow(
    scores,
    level,
    q,
    c,
    q_rests,
    c_rests,
    slack,
    queries,
    candidates,
    places,
    heads,
    tails,
    leave_out,
    loops,
    bar,
    heap_scores,
    heap_keys,
):
    """Look at a tile of partial scores; keep the pairs that are among the best so far."""
    n = candidates.shape[0]
    rests = c_rests[:, level].copy()
    for i in range(scores.shape[0]):
        rest = q_rests[i, level]
        for start in range(0, scores.shape[1], _SEGMENT):
            stop = min(scores.shape[1], start + _SEGMENT)
            least = bar[0] - slack[i]
            limit = scores.dtype.type(least - abs(least) * 1e-6)
            if _count_alive(scores[i, start:stop], rests[start:stop], rest, limit) == 0:
                continue
            for j in range(start, stop):
                if not scores[i, j] + rest * rests[j] >= limit:
                    continue
                if not _may_reach(scores[i, j], level, q, c, q_rests, c_rests, i, j, limit):
                    continue
                head, tail = heads[places[i]], tails[j]
                key = head * n + tail
                if (head == tail and not loops) or _contains(leave_out, key):
                    continue
                score = exact_score(queries[places[i]], candidates[tail])
                if score >= bar[0]:
                    _keep(score, key, bar, heap_scores, heap_keys)


@kernel
def _take_scores(
    scores,
    queries,
    candidates,
    tolerances,
    is_product,
    heads,
    tails,
    leave_out,
    loops,
    bar,
    heap_scores,
    heap_keys,
):
    """Look at all scores of some heads; keep the pairs that are among the best so far."""
    n = candidates.shape[0]
    for i in range(scores.shape[0]):
        for tail in tails:
            score = np.float64(scores[i, tail])
            if not score >= bar[0] - tolerances[i]:
                continue
            key = heads[i] * n + tail
            if (heads[i] == tail and not loops) or _contains(leave_out, key):
                continue
            if is_product:
                score = exact_score(queries[i], candidates[tail])
            if score >= bar[0]:
                _keep(score, key, bar, heap_scores, heap_keys)
