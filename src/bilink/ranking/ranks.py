"""Where an answer stands: the one definition of rank, ties and filtering.

The score of an answer and those of its rivals come out of the same row of the same product.  That
alone does not make equal scores equal: BLAS rounds a sum differently in different columns.  So
rivals that are nearer to the answer than the rounding of the product can tell are scored once more,
all in the same order of operations, and compared by that.

Known answers other than the one asked for do not count as rivals.  Rivals with the very same score
are ``level``; what they are worth is decided by the tie rule alone, in ``Ranks.values``.
"""

import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from bilink._jit import kernel, reduction, verb
from bilink.data.graph import COLUMNS
from bilink.data.index import KnownAnswers
from bilink.errors import ConfigError, TrainingError
from bilink.models.scorer import SIDES, Scorer, Side

# Share of the level rivals that are counted as better, and other words for each rule.
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
    """How many rivals stand above, and level with, the answer of each query of one side."""

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
    size, threads = block_size(scorer, spare, threads or os.cpu_count() or 1)
    return {
        side: _rank_side(scorer, triples, known[side], side, size, threads, progress)
        for side in SIDES
    }


def block_size(scorer: Scorer, memory: int, threads: int) -> tuple[int, int]:
    """How many queries may be scored at once, and on how many threads, within ``memory`` bytes."""
    if not 1 <= threads <= 1024:
        raise ConfigError(f"threads must be at least 1 and at most 1,024, not {threads:,}")
    rows = int(_SHARE * memory) // _row_bytes(scorer)
    if rows < 1:
        missing = math.ceil((_least(scorer) - memory) / 1e5) / 10
        raise ConfigError(
            f"the memory budget is too small by {missing:,.1f} MB to compare one query with "
            f"{scorer.n_entities:,} entities"
        )
    threads = min(threads, rows)
    return min(_BLOCK, rows // threads), threads


def _row_bytes(scorer: Scorer) -> int:
    return (scorer.n_entities + 4 * scorer.width) * scorer.dtype.itemsize


def _least(scorer: Scorer) -> int:
    """Bytes in which one query can be scored."""
    return math.ceil(_row_bytes(scorer) / _SHARE) + 1


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
    # By relation, so that the parameters of one stay in the cache while its queries are made, and
    # so that triples with the same query stand together: it is scored once.
    order = np.lexsort((triples[:, given], triples[:, 1]))
    ordered = triples[order][:, [given, 1]]
    firsts = np.flatnonzero((np.diff(ordered, axis=0, prepend=-1) != 0).any(axis=1))
    size = min(size, -(-len(firsts) // threads))
    edges = np.append(firsts[::size], len(order))
    blocks = iter([order[i:j] for i, j in pairwise(edges)])
    start, stop = known.spans(triples[:, given], triples[:, 1])
    counts = np.zeros((3, len(triples)), dtype=np.int64)
    stopped = threading.Event()

    def work() -> None:
        scores = np.empty((size, scorer.n_entities), dtype=scorer.dtype)
        for rows in blocks:  # a list's iterator hands each block to one thread
            if stopped.is_set():
                return
            asked = triples[rows][:, [given, 1]]
            new = (np.diff(asked, axis=0, prepend=-1) != 0).any(axis=1)
            queries = scorer.queries(side, *asked[new].T)
            check_finite(scorer, queries)
            block = scores[: len(queries)]
            scorer.score_block(queries, block)
            _count_rivals(
                block,
                queries,
                scorer.candidates,
                scorer.tolerances(queries),
                np.cumsum(new) - 1,
                triples[rows, answer],
                known.answers,
                start[rows],
                stop[rows],
                rows,
                counts,
            )
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


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


_limit_lock = threading.Lock()
_limit_users: list[object] = []


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Each of our threads multiplies its own blocks; BLAS threads inside would multiply with ours.

    The limit holds for the process: the first who asks sets it, the last who leaves lifts it.
    """
    with _limit_lock:
        if not _limit_users:
            _limit_users.append(_blas().limit(limits=1, user_api="blas"))
        _limit_users.append(None)
    try:
        yield
    finally:
        with _limit_lock:
            _limit_users.pop()
            if len(_limit_users) == 1:
                limiter: Any = _limit_users.pop()
                limiter.restore_original_limits()


def check_finite(scorer: Scorer, queries: np.ndarray) -> None:
    """Refuse to rank with scores that are, or may have become, infinite or NaN."""
    if not scorer.largest_score(queries) < np.finfo(scorer.dtype).max:
        raise TrainingError(
            "the model gives scores that are not finite, so its ranks would mean nothing; "
            "train it again with a smaller learning rate or more regularization"
        )


@reduction
def exact_score(query, candidate):
    """⟨q, c⟩ in double precision: the same numbers give the same sum, wherever they stand."""
    total = np.float64(query[0]) * np.float64(candidate[0])
    for k in range(1, query.shape[0]):
        total += np.float64(query[k]) * np.float64(candidate[k])
    return total


@verb
def _standing(score, own, tolerance, query, candidate, exact_own):
    """1 where a rival stands above the answer, 0 where level, −1 where below."""
    if score > own + tolerance:
        return 1
    if score < own - tolerance:
        return -1
    if tolerance == 0:
        return 0
    exact = exact_score(query, candidate)
    return int(exact > exact_own) - int(exact < exact_own)


@reduction
def _count_segment(scores, low, high):
    """How many scores are above ``high``, and at least ``low``; counted in the scores' own type."""
    one, zero = scores.dtype.type(1), scores.dtype.type(0)
    more, near = zero, zero
    for j in range(scores.shape[0]):
        more += one if scores[j] > high else zero
        near += one if scores[j] >= low else zero
    return more, near


@kernel
def _count_rivals(
    scores, queries, candidates, tolerances, lines, answers, known, start, stop, rows, counts
):
    """counts[:, rows[i]] = rivals above, rivals level, options, for answer i of query lines[i]."""
    n = scores.shape[1]
    for i in range(answers.shape[0]):
        row, query, tolerance = scores[lines[i]], queries[lines[i]], tolerances[lines[i]]
        answer = answers[i]
        own = row[answer]
        high, low = own + tolerance, own - tolerance
        exact_own = exact_score(query, candidates[answer])
        above, level, options = 0, -1, n  # the answer is level with itself
        for segment in range(0, n, _SEGMENT):
            end = min(n, segment + _SEGMENT)
            more, near = _count_segment(row[segment:end], low, high)
            above += int(more)
            if near > more:
                for j in range(segment, end):
                    if low <= row[j] <= high:
                        side = _standing(row[j], own, tolerance, query, candidates[j], exact_own)
                        above += side == 1
                        level += side == 0
        for k in range(start[i], stop[i]):
            other = known[k]
            if other != answer:
                options -= 1
                side = _standing(row[other], own, tolerance, query, candidates[other], exact_own)
                above -= side == 1
                level -= side == 0
        counts[0, rows[i]] = above
        counts[1, rows[i]] = level
        counts[2, rows[i]] = options
