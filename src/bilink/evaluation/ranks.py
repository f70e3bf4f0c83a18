"""Where an answer stands: the one definition of rank, ties and filtering.

The score of an answer and those of the other candidates come out of the same row of the same
product.  That alone does not make equal scores equal: BLAS rounds a sum differently in different
columns.  So candidates that are nearer to the answer than the rounding of the product can tell are
scored once more, all in the same order of operations, and compared by that.  For the same reason
candidates may be counted in tiles, some after the other: the numbers add up, and scores stay in the
cache until they are counted, however many entities there are.

Known answers other than the one asked for do not count.  Candidates with the very same score are
``level``; what they are worth is decided by the tie rule alone, in ``Ranks.values``.
"""

import math
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from bilink._jit import bind, reduction
from bilink._threads import cores, single_threaded_blas
from bilink.data.graph import COLUMNS
from bilink.data.index import KnownAnswers
from bilink.errors import ConfigError
from bilink.models.scorer import SIDES, Scorer, Side

# Share of the level candidates that are counted as better, and other words for each rule.
TIES = {"realistic": 0.5, "optimistic": 0.0, "pessimistic": 1.0}
_SYNONYMS = {"mean": "realistic", "best": "optimistic", "worst": "pessimistic"}

MEMORY_BUDGET = 512 * 2**20  # bytes
_SHARE = 0.6  # of the memory, for score blocks; the rest is for BLAS and what is not counted
_BLOCK = 256  # queries; more makes the products no faster
_TILE = 4096  # candidates of a tile
_OWN = 64  # answers whose own scores are computed at once
_SEGMENT = 128  # scores that are counted together, and looked at singly where some are near


def tie_rule(name: str) -> str:
    """The name of a tie rule, for any of its usual names."""
    rule = _SYNONYMS.get(name.lower(), name.lower())
    if rule not in TIES:
        raise ConfigError(f"unknown tie rule {name!r}; there are {', '.join(TIES)}")
    return rule


@dataclass(frozen=True, eq=False)
class Ranks:
    """How many candidates stand above, and level with, the answer of each query of one side."""

    side: Side
    above: np.ndarray  # int64
    level: np.ndarray  # int64, without the answer itself
    options: np.ndarray  # int64, candidates that were left after filtering, the answer included

    def values(self, ties: str = "realistic") -> np.ndarray:
        """The rank of each answer, from 1; half ranks occur with ties counted half."""
        return 1 + self.above + TIES[tie_rule(ties)] * self.level


def rank_triples(
    scorer: Scorer,
    triples: np.ndarray,
    known: Mapping[str, KnownAnswers],
    *,
    memory: int | None = None,
    threads: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> dict[Side, Ranks]:
    """Rank the head and the tail of each triple among all entities.

    ``memory`` bounds the bytes that ranking takes beside the model and the graph: the known
    answers, what the scorer keeps, and blocks of scores; without it they take 512 MiB, or more
    where that cannot be enough.  ``progress`` is called with the number of queries just done.
    """
    taken = scorer.nbytes + sum(index.nbytes for index in known.values()) + 120 * len(triples)
    threads = threads or cores()
    enough = threads * _BLOCK if scorer.splits else 1
    spare = memory - taken if memory is not None else MEMORY_BUDGET - taken
    if memory is None:
        spare = max(spare, _least(scorer.bytes_of(_tile(scorer)), enough))
    size, threads = _size(scorer, _tile(scorer), spare, threads)
    ranking = _Ranking(scorer, triples, size, threads, progress)
    return {side: ranking.side(side, known[side]) for side in SIDES}


def block_size(scorer: Scorer, memory: int, threads: int) -> tuple[int, int]:
    """How many queries may be scored at once, and on how many threads, within ``memory`` bytes."""
    return _size(scorer, scorer.n_entities, memory, threads)


def _tile(scorer: Scorer) -> int:
    """How many candidates are scored at once."""
    return min(_TILE, scorer.n_entities) if scorer.splits else scorer.n_entities


def _size(scorer: Scorer, candidates: int, memory: int, threads: int) -> tuple[int, int]:
    """``block_size`` where so many candidates are scored at once."""
    if not 1 <= threads <= 1024:
        raise ConfigError(f"threads must be at least 1 and at most 1,024, not {threads:,}")
    row_bytes = scorer.bytes_of(candidates)
    rows = int(_SHARE * memory) // row_bytes
    if rows < 1:
        missing = math.ceil((_least(row_bytes) - memory) / 1e5) / 10
        raise ConfigError(
            f"the memory budget is too small by {missing:,.1f} MB to compare one query with "
            f"{candidates:,} entities"
        )
    threads = min(threads, rows)
    return min(_BLOCK, rows // threads), threads


def _least(row_bytes: int, rows: int = 1) -> int:
    """Bytes in which so many queries can be scored."""
    return math.ceil(rows * row_bytes / _SHARE) + 1


@dataclass(frozen=True)
class _Ranking:
    """Triples to rank, and how: so many queries at once, on so many threads."""

    scorer: Scorer
    triples: np.ndarray
    size: int
    threads: int
    progress: Callable[[int], None] | None

    def side(self, side: Side, known: KnownAnswers) -> Ranks:
        """Rank one side; blocks of queries are dealt to threads."""
        scorer, triples = self.scorer, self.triples
        given, answer = COLUMNS[side]
        blocks = iter(question_blocks(triples[:, [given, 1]], self.size, self.threads))
        spans = known.spans(triples[:, given], triples[:, 1])
        count_candidates = _counter(scorer.exact, scorer.exact_name)
        counts = np.zeros((3, len(triples)), dtype=np.int64)
        stopped = threading.Event()

        def work() -> None:
            buffer = np.empty(self.size * _tile(scorer), dtype=scorer.dtype)
            for rows, asked, place in blocks:  # a list's iterator hands each block to one thread
                queries = scorer.queries(side, *asked.T)
                ids = triples[rows, answer]
                answers = _Answers(place, ids, spans[0][rows], spans[1][rows], rows)
                for tile in self._tiles(queries, answers, buffer):
                    if stopped.is_set():
                        return
                    count_candidates(tile, answers, known.answers, counts)
                if self.progress:
                    self.progress(len(rows))

        with single_threaded_blas(), ThreadPoolExecutor(self.threads) as pool:
            jobs = [pool.submit(work) for _ in range(self.threads)]
            try:
                for job in jobs:
                    job.result()
            finally:
                stopped.set()  # after an error or Ctrl-C the other threads end with their tile
        return Ranks(side, *counts)

    def _tiles(self, queries: Any, answers: "_Answers", buffer: np.ndarray) -> Iterator["_Tile"]:
        """The scores of all candidates, some after the other, in the memory of ``buffer``."""
        scorer, columns = self.scorer, _tile(self.scorer)
        near = scorer.tolerances(queries), *scorer.exact_rows(queries)
        if columns == scorer.n_entities:
            out = buffer[: len(queries) * columns].reshape(len(queries), columns)
            scores = scorer.query_scores(queries, out)
            yield _Tile(scores, 0, scores[answers.queries, answers.ids], *near)
            return
        scorer.check_finite(queries)
        own = _own_scores(scorer, queries, answers)
        for first in range(0, scorer.n_entities, columns):
            candidates = scorer.candidates[first : first + columns]
            scores = buffer[: len(queries) * len(candidates)].reshape(len(queries), -1)
            scorer.compare(queries, candidates, scores)
            yield _Tile(scores, first, own, *near)


def _own_scores(scorer: Scorer, queries: np.ndarray, answers: "_Answers") -> np.ndarray:
    """The scores of the answers, whose queries are in ascending order."""
    own = np.empty(len(answers.ids), dtype=scorer.dtype)
    for start in range(0, len(own), _OWN):
        lines, ids = answers.queries[start : start + _OWN], answers.ids[start : start + _OWN]
        some = queries[lines[0] : lines[-1] + 1]
        scores = np.empty((len(some), len(ids)), dtype=scorer.dtype)
        scorer.compare(some, scorer.candidates[ids], scores)
        own[start : start + _OWN] = scores[lines - lines[0], np.arange(len(ids))]
    return own


class Block(NamedTuple):
    """Questions that are scored together."""

    rows: np.ndarray  # which ones
    asked: np.ndarray  # (given entity, relation): the different ones among them
    place: np.ndarray  # of each row, where it stands in ``asked``


def question_blocks(questions: np.ndarray, size: int, threads: int = 1) -> list[Block]:
    """Cut questions (given entity, relation) into blocks of at most ``size`` different ones.

    They stand by relation, so that the parameters of one stay in the cache, and equal ones stand
    together: they are scored once.  With several threads, each has a block.
    """
    order = np.lexsort((questions[:, 0], questions[:, 1]))
    new = (np.diff(questions[order], axis=0, prepend=-1) != 0).any(axis=1)
    firsts = np.flatnonzero(new)
    size = max(1, min(size, -(-len(firsts) // threads)))
    place = np.cumsum(new) - 1
    return [
        Block(order[i:j], questions[order[i:j]][new[i:j]], place[i:j] - place[i])
        for i, j in pairwise(np.append(firsts[::size], len(order)))
    ]


class _Tile(NamedTuple):
    """The scores of a block of queries and some candidates, and what settles near ties."""

    scores: np.ndarray
    first: int  # which candidate the first column is
    own: np.ndarray  # the score of each answer
    tolerances: np.ndarray  # of each query
    queries: np.ndarray  # rows that ``exact_score`` compares
    candidates: np.ndarray  # all of them


class _Answers(NamedTuple):
    """The answers that are ranked in a block."""

    queries: np.ndarray  # which row of the scores
    ids: np.ndarray
    start: np.ndarray  # where the known answers start and stop
    stop: np.ndarray
    rows: np.ndarray  # where the counts go


@reduction
def _count_segment(scores, low, high):
    """How many scores are above ``high``, and at least ``low``; counted in the scores' own type."""
    one, zero = scores.dtype.type(1), scores.dtype.type(0)
    more, near = zero, zero
    for j in range(scores.shape[0]):
        more += one if scores[j] > high else zero
        near += one if scores[j] >= low else zero
    return more, near


exact_score: Any = None  # the placeholder that ``bind`` replaces by the scorer's


@cache
def _counter(exact: Any, name: str) -> Any:
    """The kernel below, compiled for what scores in double precision."""
    return bind(_count_candidates, {"exact_score": exact}, name)


def _count_candidates(tile, answers, known, counts):
    """counts[:, rows[i]] += candidates of a tile above, level with, and left beside answer i."""
    scores, first, own, tolerances, queries, candidates = tile
    lines, ids, starts, stops, rows = answers
    n = scores.shape[1]
    for i in range(ids.shape[0]):
        line, answer = lines[i], ids[i]
        row, query, tolerance = scores[line], queries[line], tolerances[line]
        high, low = own[i] + tolerance, own[i] - tolerance
        exact_own = exact_score(query, candidates[answer]) if tolerance > 0 else 0.0
        above, level, options = 0, 0, n
        if first <= answer < first + n:
            level = -1  # the answer is level with itself
        for segment in range(0, n, _SEGMENT):
            end = min(n, segment + _SEGMENT)
            more, near = _count_segment(row[segment:end], low, high)
            above += int(more)
            if near > more:
                for j in range(segment, end):
                    if low <= row[j] <= high:
                        gap = 0.0
                        if tolerance > 0:
                            gap = exact_score(query, candidates[first + j]) - exact_own
                        above += int(gap > 0)
                        level += int(gap == 0)
        k = starts[i]
        if first > 0:
            k += np.searchsorted(known[k : stops[i]], first)
        while k < stops[i] and known[k] < first + n:
            other = known[k]
            k += 1
            if other != answer:
                options -= 1
                score = row[other - first]
                gap = np.float64(score > high) - np.float64(score < low)
                if low <= score <= high and tolerance > 0:
                    gap = exact_score(query, candidates[other]) - exact_own
                above -= int(gap > 0)
                level -= int(gap == 0)
        counts[0, rows[i]] += above
        counts[1, rows[i]] += level
        counts[2, rows[i]] += options


def top_candidates(
    scorer: Scorer, side: Side, given: int, relation: int, k: int, exclude: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Ids and scores of the ``k`` best candidates but for ``exclude``.

    Equal scores stand by ascending id.  They are those of one product, in which equal rows may
    differ in the last digit; ranks settle that, and a list of answers need not.
    """
    row = scorer.scores(side, np.array([given]), np.array([relation]))[0]
    return best_of_row(row, k, exclude)


def best_of_row(row: np.ndarray, k: int, exclude: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``top_candidates`` of one row of scores, which is changed."""
    row[exclude] = -np.inf
    k = max(0, min(k, int(np.count_nonzero(np.isfinite(row)))))
    if k == 0:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=row.dtype)
    # All that reach the k-th score, so that ties are cut by id and not by chance.
    threshold = np.partition(row, len(row) - k)[len(row) - k]
    best = np.flatnonzero(row >= threshold)
    best = best[np.lexsort((best, -row[best]))][:k]
    return best, row[best]
