"""Two ways to go through the pairs of some heads: score them all, or leave out what has no chance.

Both are called with a block of heads and the heap that keeps the best pairs of their thread.
"""

from dataclasses import dataclass

import numpy as np

from bilink.models.scorer import Scorer
from bilink.queries.bounds import STEP, Bounds, Coordinates
from bilink.queries.pair_kernels import SEGMENT, follow, take_scores
from bilink.ranking.ranks import check_finite

ROWS, COLUMNS = 1024, 512  # of a tile; its scores stay in the cache
_SEEDS = 128  # queries that are looked at in full, to begin with a high bar
_LADDER = (8, 16, 24, 32, 40, 48, 64, 80, 96, 128, 192, 256, 384, 512)  # of a first look

# What is done for a pair, in coordinates that could be multiplied in that time: its share of a
# product and of a look at the scores, going through a segment in which one pair may be good, and
# following a pair.
_LOOK, _SCAN, _FOLLOW = 14, 45, 1500
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
        check_finite(scorer, queries)
        scores = np.empty((len(rows), scorer.n_entities), dtype=scorer.dtype)
        scorer.score_block(queries, scores)
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
    """Follows only the pairs whose first coordinates leave a chance."""

    def __init__(
        self,
        scorer: Scorer,
        queries: np.ndarray,
        bounds: Bounds,
        heads: np.ndarray,
        tails: np.ndarray,
        goal: Goal,
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
        self._starts = np.arange(0, len(order), COLUMNS)
        self._corners = first.extremes(self._starts)
        self._width = self._c.shape[1]

    def blocks(self, seeds: np.ndarray) -> list[np.ndarray]:
        """All rows of queries: some seeds, or the most promising, then the others in order."""
        order = np.argsort(-self._promise, kind="stable")
        first = np.flatnonzero(np.isin(self._heads, seeds))
        first = first[:: max(1, -(-len(first) // _SEEDS))] if len(first) else order[:_SEEDS]
        return [first, *_cut(order[~np.isin(order, first)], ROWS)]

    def __call__(self, places: np.ndarray, heap: tuple[np.ndarray, np.ndarray]) -> None:
        """Go through the tiles of some rows of queries."""
        goal, slack = self._goal, self._slack[places]
        alive = self._starts[self._reach(places) >= goal.bar[0] - slack.max()]
        if not len(alive):
            return
        rows, rests = self._q.rows[places], self._q.rests[places]
        room = np.empty(len(rows) * COLUMNS, dtype=np.float32)
        for start, width in zip(alive, self._widths(rows, rests, slack, alive), strict=True):
            tile = slice(start, start + COLUMNS)
            scores = room[: len(rows) * len(self._c[tile])].reshape(len(rows), -1)
            np.matmul(rows[:, :width], self._c[tile, :width].T, out=scores)
            follow(
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

    def _widths(
        self, rows: np.ndarray, rests: np.ndarray, slack: np.ndarray, starts: np.ndarray
    ) -> np.ndarray:
        """How many coordinates to multiply at first in each tile: what is cheapest on a sample."""
        widths = np.full(len(starts), self._width)
        bar = self._goal.bar[0]
        if bar == -np.inf:
            return widths
        few = slice(None, None, max(1, len(rows) // _SAMPLED_ROWS))
        some = starts[:, None] + np.linspace(0, COLUMNS - 1, _SAMPLED_COLUMNS, dtype=int)
        some = np.minimum(some, len(self._c) - 1).ravel()
        q, c, q_rests, c_rests = rows[few], self._c[some], rests[few], self._c_rests[some]
        limit = (bar - slack[few]).astype(np.float32)[:, None]
        cheapest = np.full(len(starts), self._width + _LOOK, dtype=np.float64)
        seen, scores = 0, np.zeros((len(q), len(c)), dtype=np.float32)
        for width in _LADDER:
            if width + _LOOK >= cheapest.max():
                break
            scores += q[:, seen:width] @ c[:, seen:width].T
            seen, level = width, width // STEP
            reach = scores + q_rests[:, level, None] * c_rests[:, level]
            alive = (reach >= limit).reshape(len(q), len(starts), -1).mean(axis=(0, 2))
            cost = width + _LOOK + _SCAN * np.minimum(1, SEGMENT * alive) + _FOLLOW * alive
            better = cost < cheapest
            widths[better], cheapest[better] = width, cost[better]
        return widths


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
