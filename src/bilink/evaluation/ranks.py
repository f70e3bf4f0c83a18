"""Where an answer stands: the one definition of rank, ties and filtering.

The score of an answer and those of the other candidates come out of the same row of the same
product.  That alone does not make equal scores equal: BLAS rounds a sum differently in different
columns.  So candidates that are nearer to the answer than the rounding of the product can tell are
scored once more, all in the same order of operations, and compared by that.

Known answers other than the one asked for do not count.  Candidates with the very same score are
``level``; what they are worth is decided by the tie rule alone, in ``Ranks.values``.
"""

import math
import threading
from collections.abc import Callable, Mapping
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
    spare = max(MEMORY_BUDGET - taken, _least(scorer)) if memory is None else memory - taken
    size, threads = block_size(scorer, spare, threads or cores())
    return {
        side: _rank_side(scorer, triples, known[side], side, size, threads, progress)
        for side in SIDES
    }


def block_size(scorer: Scorer, memory: int, threads: int) -> tuple[int, int]:
    """How many queries may be scored at once, and on how many threads, within ``memory`` bytes."""
    if not 1 <= threads <= 1024:
        raise ConfigError(f"threads must be at least 1 and at most 1,024, not {threads:,}")
    rows = int(_SHARE * memory) // scorer.row_bytes
    if rows < 1:
        missing = math.ceil((_least(scorer) - memory) / 1e5) / 10
        raise ConfigError(
            f"the memory budget is too small by {missing:,.1f} MB to compare one query with "
            f"{scorer.n_entities:,} entities"
        )
    threads = min(threads, rows)
    return min(_BLOCK, rows // threads), threads


def _least(scorer: Scorer) -> int:
    """Bytes in which one query can be scored."""
    return math.ceil(scorer.row_bytes / _SHARE) + 1


def _rank_side(
    scorer: Scorer,
    triples: np.ndarray,
    known: KnownAnswers,
    side: Side,
    size: int,
    threads: int,
    progress: Callable[[int], None] | None,
) -> Ranks:
    given, answer = COLUMNS[side]
    blocks = iter(question_blocks(triples[:, [given, 1]], size, threads))
    spans = known.spans(triples[:, given], triples[:, 1])
    count_candidates = _counter(scorer.exact, scorer.exact_name)
    counts = np.zeros((3, len(triples)), dtype=np.int64)
    stopped = threading.Event()

    def work() -> None:
        scores = np.empty((size, scorer.n_entities), dtype=scorer.dtype)
        for rows, asked, place in blocks:  # a list's iterator hands each block to one thread
            if stopped.is_set():
                return
            queries = scorer.queries(side, *asked.T)
            block = scorer.query_scores(queries, scores[: len(asked)])
            scored = _Scored(block, scorer.tolerances(queries), *scorer.exact_rows(queries))
            ids = triples[rows, answer]
            answers = _Answers(place, ids, spans[0][rows], spans[1][rows], rows)
            count_candidates(scored, answers, known.answers, counts)
            if progress:
                progress(len(rows))

    with single_threaded_blas(), ThreadPoolExecutor(threads) as pool:
        jobs = [pool.submit(work) for _ in range(threads)]
        try:
            for job in jobs:
                job.result()
        finally:
            stopped.set()  # after an error or Ctrl-C the other threads end with their block
    return Ranks(side, *counts)


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


class _Scored(NamedTuple):
    """The scores of a block of queries, and what settles near ties."""

    scores: np.ndarray
    tolerances: np.ndarray  # of each query
    queries: np.ndarray  # rows that ``exact_score`` compares
    candidates: np.ndarray


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


def _count_candidates(scored, answers, known, counts):
    """counts[:, rows[i]] = candidates above, level with, and left beside answer i."""
    n = scored.scores.shape[1]
    for i in range(answers.ids.shape[0]):
        line, answer = answers.queries[i], answers.ids[i]
        row, query, tolerance = scored.scores[line], scored.queries[line], scored.tolerances[line]
        high, low = row[answer] + tolerance, row[answer] - tolerance
        exact_own = exact_score(query, scored.candidates[answer]) if tolerance > 0 else 0.0
        above, level, options = 0, -1, n  # the answer is level with itself
        for segment in range(0, n, _SEGMENT):
            end = min(n, segment + _SEGMENT)
            more, near = _count_segment(row[segment:end], low, high)
            above += int(more)
            if near > more:
                for j in range(segment, end):
                    if low <= row[j] <= high:
                        gap = 0.0
                        if tolerance > 0:
                            gap = exact_score(query, scored.candidates[j]) - exact_own
                        above += int(gap > 0)
                        level += int(gap == 0)
        for k in range(answers.start[i], answers.stop[i]):
            other = known[k]
            if other != answer:
                options -= 1
                gap = np.float64(row[other] > high) - np.float64(row[other] < low)
                if low <= row[other] <= high and tolerance > 0:
                    gap = exact_score(query, scored.candidates[other]) - exact_own
                above -= int(gap > 0)
                level -= int(gap == 0)
        counts[0, answers.rows[i]] = above
        counts[1, answers.rows[i]] = level
        counts[2, answers.rows[i]] = options


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
