"""Two ways to go through the pairs of some heads: score them all, or leave out what has no chance.

Both are called with a block of heads and the heap that keeps the best pairs of their thread.
"""

from dataclasses import dataclass

import numpy as np

from bilink.models.scorer import Scorer
from bilink.queries.bounds import Axes, Sizes, least_sums, norms, rounded
from bilink.queries.byte_products import STEP, WIDEST, Columns, Rows, reaching
from bilink.queries.pair_kernels import follow, take_scores

ROWS, COLUMNS = 2048, 1024  # of a tile
_SEEDS = 128  # queries that are looked at in full, to begin with a high bar
_LADDER = (*range(16, 160, 16), *range(160, 320, 32), *range(320, WIDEST, 64))  # of a first look

# What is done for a pair, in coordinates that the instruction could multiply in that time: looking
# at its product, and following it.
_LOOK, _FOLLOW = 12, 5000
_SAMPLED_ROWS, _SAMPLED_COLUMNS = 32, 8  # of a tile


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of ids and their scores, best first."""

    heads: np.ndarray  # int64
    tails: np.ndarray  # int64
    scores: np.ndarray  # float64

    def __len__(self) -> int:
        return len(self.heads)


class Goal:
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


def _cut(rows: np.ndarray, size: int) -> list[np.ndarray]:
    return [rows[i : i + size] for i in range(0, len(rows), size)]


class AllPairs:
    """Scores every pair: for scores that are no products, and where memory is short."""

    def __init__(
        self, scorer: Scorer, relation: int, heads: np.ndarray, tails: np.ndarray, goal: Goal
    ):
        self._scorer, self._relation, self._goal = scorer, relation, goal
        self._heads, self._tails = heads, tails

    def blocks(self, size: int) -> list[np.ndarray]:
        """All rows of queries."""
        return _cut(np.arange(len(self._heads)), size)

    def __call__(self, rows: np.ndarray, heap: tuple[np.ndarray, np.ndarray]) -> None:
        """Score some heads with all candidates."""
        scorer, goal, heads = self._scorer, self._goal, self._heads[rows]
        queries = scorer.fact_queries(heads, np.full_like(heads, self._relation))
        scores = scorer.query_scores(queries)
        take_scores(
            scores,
            queries,
            scorer.candidates,
            scorer.tolerances(queries).astype(np.float64),
            scorer.is_product,
            heads,
            self._tails,
            goal.leave_out,
            goal.loops,
            goal.bar,
            *heap,
        )


class Tiles:
    """Follows only the pairs whose bytes leave a chance."""

    def __init__(
        self,
        scorer: Scorer,
        queries: np.ndarray,
        heads: np.ndarray,
        tails: np.ndarray,
        goal: Goal,
    ):
        self._candidates, self._queries, self._goal = scorer.candidates, queries, goal
        self._heads = heads
        self._axes = axes = Axes.of(queries, scorer.candidates)
        self._tails = _by_norm(scorer.candidates, tails, axes.candidates)
        columns, self._sizes = rounded(
            scorer.candidates, self._tails, axes.order, axes.candidates, together=COLUMNS
        )
        self._columns = [Columns.of(some) for some in _cut(columns, COLUMNS)]
        self._last = min(columns.shape[1], WIDEST) // STEP

    def blocks(self, seeds: np.ndarray) -> list[np.ndarray]:
        """All rows of queries: some seeds, or the largest, then the others by their norms."""
        order = _by_norm(self._queries, np.arange(len(self._heads)), self._axes.queries)
        first = np.flatnonzero(np.isin(self._heads, seeds))
        first = first[:: max(1, -(-len(first) // _SEEDS))] if len(first) else order[:_SEEDS]
        return [first, *_cut(order[~np.isin(order, first)], ROWS)]

    def __call__(self, places: np.ndarray, heap: tuple[np.ndarray, np.ndarray]) -> None:
        """Go through the tiles of some rows of queries."""
        goal, axes, width = self._goal, self._axes, self._last * STEP
        bytes_, sizes = rounded(self._queries, places, axes.order, axes.queries)
        rows = Rows.of(bytes_)
        tiles = np.flatnonzero((least_sums(goal.bar[0], sizes, self._sizes, 0) <= 0).any(axis=0))
        for tile, level in zip(tiles, self._levels(rows, sizes, tiles), strict=True):
            columns, its_sizes = self._columns[tile], self._sizes[tile : tile + 1]
            limits = least_sums(goal.bar[0], sizes, its_sizes, level)[:, 0]
            pairs = reaching(rows, columns, level, limits)
            if len(pairs):
                follow(
                    pairs,
                    rows.bytes[:, :width],
                    columns.bytes[:, :width],
                    least_sums(goal.bar[0], sizes, its_sizes, self._last)[:, 0],
                    self._queries,
                    self._candidates,
                    places,
                    self._heads,
                    self._tails[tile * COLUMNS :],
                    goal.leave_out,
                    goal.loops,
                    goal.bar,
                    *heap,
                )

    def _levels(self, rows: Rows, sizes: Sizes, tiles: np.ndarray) -> np.ndarray:
        """How far to multiply at first in each tile: what is cheapest on a sample of its pairs."""
        levels = np.full(len(tiles), self._last)
        if not len(tiles) or self._goal.bar[0] == -np.inf:
            return levels
        few = slice(None, None, max(1, len(rows.bytes) // _SAMPLED_ROWS))
        samples = [self._columns[tile].bytes for tile in tiles]
        samples = [columns[:: max(1, len(columns) // _SAMPLED_COLUMNS)] for columns in samples]
        of_tile = np.repeat(np.arange(len(tiles)), [len(columns) for columns in samples])
        q, c = (x.astype(np.float32) for x in (rows.bytes[few], np.concatenate(samples)))
        cheapest = np.full(len(tiles), self._last * STEP + _LOOK, dtype=np.float64)
        seen, sums = 0, np.zeros((len(q), len(c)), dtype=np.float32)
        for width in _LADDER:
            if width + _LOOK >= cheapest.max():
                break
            sums += q[:, seen:width] @ c[:, seen:width].T
            seen, level = width, width // STEP
            limits = least_sums(self._goal.bar[0], sizes[few], self._sizes[tiles], level)
            reach = sums >= limits[:, of_tile]
            alive = np.bincount(of_tile, reach.mean(axis=0)) / np.bincount(of_tile)
            cost = width + _LOOK + _FOLLOW * alive
            better = cost < cheapest
            levels[better], cheapest[better] = level, cost[better]
        return levels


def _by_norm(rows: np.ndarray, places: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The places by the norms of their rows, the greatest first."""
    sizes = np.empty(len(places))
    norms(rows, places, weights, sizes)
    return places[np.argsort(-sizes, kind="stable")]
