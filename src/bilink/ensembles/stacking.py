"""What the weights of an ensemble are fitted on: questions, their answers and some negatives."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from bilink._hash import draw
from bilink._jit import kernel
from bilink._random import Stream, seeds
from bilink._threads import cores, single_threaded_blas
from bilink.data.graph import COLUMNS
from bilink.data.index import KnownAnswers
from bilink.evaluation.regression import Comparisons
from bilink.models.scorer import Scorer, Side

TRIES = 100  # draws before a negative is given up: all entities may be answers
_BYTES = 64 * 2**20  # of scores at once, in each thread


def ask_members(
    members: Sequence[Scorer],
    triples: np.ndarray,
    known: Mapping[str, KnownAnswers],
    side: Side,
    *,
    random_negatives: int,
    hard_negatives: int,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Comparisons:
    """Hide one side of each triple; let each member name its hardest negatives, and draw some.

    Known answers are no negatives.
    """
    given, answer = COLUMNS[side]
    n = members[0].n_entities
    negatives = random_negatives + hard_negatives * len(members)
    gaps = np.empty((len(triples), negatives, len(members)), dtype=np.float32)
    start, stop = known[side].spans(triples[:, given], triples[:, 1])
    order = np.argsort(triples[:, 1], kind="stable")  # a relation's parameters stay in the cache
    dtype = np.result_type(*(member.dtype for member in members))
    size = max(1, _BYTES // (dtype.itemsize * n * len(members)))
    blocks = iter([order[i : i + size] for i in range(0, len(order), size)])

    def work() -> None:
        for rows in blocks:
            scores = np.empty((len(members), len(rows), n), dtype=dtype)
            for member, block in zip(members, scores, strict=True):
                queries = member.queries(side, triples[rows, given], triples[rows, 1])
                member.query_scores(queries, block)
            _fill_gaps(
                scores,
                triples[rows, answer],
                known[side].answers,
                start[rows],
                stop[rows],
                random_negatives,
                hard_negatives,
                seeds(seed, Stream.ENSEMBLE_DRAWS, int(rows[0])).generate_state(1, np.uint64)[0],
                rows,
                gaps,
            )
            if progress:
                progress(len(rows))

    threads = cores()
    with single_threaded_blas(), ThreadPoolExecutor(threads) as pool:
        for job in [pool.submit(work) for _ in range(threads)]:
            job.result()
    log_counts = np.zeros(negatives, dtype=np.float32)
    log_counts[:random_negatives] = np.log(max(1.0, n / max(1, random_negatives)))
    return Comparisons(triples[:, 1], gaps, log_counts)


@kernel
def _fill_gaps(
    scores, answers, known, start, stop, random_negatives, hard_negatives, seed, rows, gaps
):
    """gaps[rows[i], j, m] = score of negative j − score of the answer, by member m.

    A negative that is not to be found, because all entities are answers, is the answer itself.
    """
    members, count, n = scores.shape
    random = np.array([seed], dtype=np.uint64)
    barred = np.zeros(n, dtype=np.bool_)
    best = np.empty(max(1, hard_negatives), dtype=np.int64)
    for i in range(count):
        answer = answers[i]
        barred[answer] = True
        for k in range(start[i], stop[i]):
            barred[known[k]] = True
        row = rows[i]
        for j in range(random_negatives):
            other, tries = draw(random, n), 0
            while barred[other] and tries < TRIES:
                other, tries = draw(random, n), tries + 1
            if barred[other]:
                other = answer
            for m in range(members):
                gaps[row, j, m] = scores[m, i, other] - scores[m, i, answer]
        for member in range(members):
            found = _find_best(scores[member, i], barred, best[:hard_negatives])
            for j in range(hard_negatives):
                other = best[j] if j < found else answer
                place = random_negatives + member * hard_negatives + j
                for m in range(members):
                    gaps[row, place, m] = scores[m, i, other] - scores[m, i, answer]
                if j < found:
                    barred[other] = True  # the next member names others
        # All that this question has barred is free again.
        barred[:] = False


@kernel
def _find_best(row, barred, best):
    """Fill ``best`` with the places of the largest entries that are free, and count them."""
    found = 0
    for j in range(row.shape[0]):
        if found == best.shape[0] and (found == 0 or not row[j] > row[best[found - 1]]):
            continue
        if barred[j]:
            continue
        place = found if found < best.shape[0] else found - 1
        found = place + 1
        while place > 0 and row[best[place - 1]] < row[j]:
            best[place] = best[place - 1]
            place -= 1
        best[place] = j
    return found
