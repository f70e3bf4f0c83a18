"""Where an answer stands: the one definition of rank, ties and filtering.

The score of an answer and those of its rivals come out of the same row of the same product.  Known
answers other than the one asked for do not count as rivals.  Rivals with the very same score are
``level``; what they are worth is decided by the tie rule alone, in ``Ranks.values``.
"""

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from bilink._jit import kernel
from bilink.data.index import KnownAnswers
from bilink.errors import ConfigError, TrainingError
from bilink.models.scorer import SIDES, Scorer, Side

# Share of the level rivals that are counted as better, and other words for each rule.
TIES = {"realistic": 0.5, "optimistic": 0.0, "pessimistic": 1.0}
_SYNONYMS = {"mean": "realistic", "best": "optimistic", "worst": "pessimistic"}

MEMORY_BUDGET = 512 * 2**20  # bytes
_BLOCK = 256  # queries; more makes the products no faster
_SEGMENT = 1 << 20  # counts are held in float32 so that they vectorise; exact up to 2²⁴


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
    memory: int = MEMORY_BUDGET,
    threads: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> dict[Side, Ranks]:
    """Rank the head and the tail of each triple among all entities.

    ``memory`` bounds the bytes that ranking takes beside the model and the graph: the known
    answers, what the scorer keeps, and blocks of scores.  ``progress`` is called with the number of
    queries just done.
    """
    taken = scorer.nbytes + sum(index.nbytes for index in known.values()) + 100 * len(triples)
    size, threads = block_size(scorer, memory - taken, threads or os.cpu_count() or 1)
    return {
        side: _rank_side(scorer, triples, known[side], side, size, threads, progress)
        for side in SIDES
    }


def block_size(scorer: Scorer, memory: int, threads: int) -> tuple[int, int]:
    """How many queries may be scored at once, and on how many threads, within ``memory`` bytes."""
    row = (scorer.n_entities + 4 * scorer.width) * scorer.dtype.itemsize
    rows = int(0.9 * memory) // row  # the rest is for what has not been counted
    if rows < 1:
        missing = (row - memory) / 1e6 + 0.1
        raise ConfigError(
            f"the memory budget is too small by {missing:,.1f} MB to compare one query with "
            f"{scorer.n_entities:,} entities"
        )
    threads = min(threads, rows)
    return min(_BLOCK, rows // threads), threads


def _rank_side(
    scorer: Scorer,
    triples: np.ndarray,
    known: KnownAnswers,
    side: Side,
    size: int,
    threads: int,
    progress: Callable[[int], None] | None,
) -> Ranks:
    given, answer = (2, 0) if side == "head" else (0, 2)
    # By relation, so that the parameters of one stay in the cache while its queries are made.
    order = np.lexsort((triples[:, given], triples[:, 1]))
    start, stop = known.spans(triples[:, given], triples[:, 1])
    counts = np.zeros((3, len(triples)), dtype=np.int64)
    blocks = [order[i : i + size] for i in range(0, len(order), size)]

    def work(mine: list[np.ndarray]) -> None:
        scores = np.empty((size, scorer.n_entities), dtype=scorer.dtype)
        for rows in mine:
            queries = scorer.queries(side, triples[rows, given], triples[rows, 1])
            check_finite(scorer, queries)
            block = scores[: len(rows)]
            scorer.score_block(queries, block)
            _count_rivals(
                block, triples[rows, answer], known.answers, start[rows], stop[rows], rows, counts
            )
            if progress:
                progress(len(rows))

    # Each thread multiplies its own blocks; BLAS threads inside would multiply with ours.
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, [blocks[i::threads] for i in range(threads)]))
    return Ranks(side, *counts)


def check_finite(scorer: Scorer, queries: np.ndarray) -> None:
    """Refuse to rank with scores that are, or may have become, infinite or NaN."""
    if not scorer.largest_score(queries) < np.finfo(scorer.dtype).max:
        raise TrainingError(
            "the model gives scores that are not finite, so its ranks would mean nothing; "
            "train it again with a smaller learning rate or more regularization"
        )


@kernel
def _count_rivals(scores, answers, known, start, stop, rows, counts):
    """counts[:, rows[i]] = rivals above, rivals level, options, for each row i of scores."""
    one, zero = np.float32(1), np.float32(0)
    n = scores.shape[1]
    for i in range(scores.shape[0]):
        row = scores[i]
        answer = answers[i]
        own = row[answer]
        above, level = 0, -1  # the answer is level with itself
        for segment in range(0, n, _SEGMENT):
            more, same = zero, zero
            for j in range(segment, min(n, segment + _SEGMENT)):
                more += one if row[j] > own else zero
                same += one if row[j] == own else zero
            above += int(more)
            level += int(same)
        options = n
        for k in range(start[i], stop[i]):
            other = known[k]
            if other != answer:
                options -= 1
                if row[other] > own:
                    above -= 1
                elif row[other] == own:
                    level -= 1
        counts[0, rows[i]] = above
        counts[1, rows[i]] = level
        counts[2, rows[i]] = options
