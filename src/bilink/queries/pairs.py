"""The question (?, r, ?): the best pairs of a relation, exactly, with few of them scored in full.

Queries and candidates are rounded to bytes, whose first ones say most (``bounds``), and sorted by
their norms.  A tile of pairs that cannot reach the best so far is never multiplied; any other is
multiplied as bytes (``byte_products``), over so many coordinates as pay, and the pairs that may
still be among the best are scored in double precision.  So the result is that of scoring all pairs;
equal scores stand by ascending head, then tail.
"""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from bilink._threads import single_threaded_blas
from bilink.errors import QueryStopped
from bilink.evaluation.ranks import block_size
from bilink.models.scorer import Scorer
from bilink.queries.pair_scans import COLUMNS, ROWS, AllPairs, Goal, Pairs, Tiles

MEMORY_BUDGET = 10**9  # bytes


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
        goal = Goal(k, _ids(leave_out), loops, floor, scorer.n_entities)
        if not (len(heads) and len(tails)):
            return goal.pairs([goal.heap()])
        if not scorer.is_product or self._bytes() > memory:
            size, threads = block_size(scorer, memory, self._threads)
            everything = AllPairs(scorer, relation, heads, tails, goal)
            return _run(everything, everything.blocks(size), goal, threads, progress, stop)
        queries = scorer.fact_queries(heads, np.full_like(heads, relation))
        scorer.check_finite(queries)
        tiles = Tiles(scorer, queries, heads, tails, goal)
        return _run(tiles, tiles.blocks(_ids(seeds)), goal, self._threads, progress, stop)

    def _ids(self, chosen: np.ndarray | None) -> np.ndarray:
        return np.arange(self._scorer.n_entities) if chosen is None else np.unique(_ids(chosen))

    def _bytes(self) -> float:
        """What the queries, the bytes of both sides and the tiles take."""
        number, width = self._scorer.dtype.itemsize, self._scorer.width
        tile = ROWS * (16 * COLUMNS + 8 * width)  # sums, and places of pairs
        return self._scorer.n_entities * (number + 4) * width + self._threads * tile


def _ids(given: np.ndarray | None) -> np.ndarray:
    return np.asarray([] if given is None else given, dtype=np.int64)


Work = Callable[[np.ndarray, tuple[np.ndarray, np.ndarray]], None]


def _run(
    work: Work,
    blocks: list[np.ndarray],
    goal: Goal,
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
