"""What the weights of an ensemble are fitted on: questions with their answer and some rivals."""

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from bilink._jit import kernel
from bilink.data.graph import COLUMNS
from bilink.data.index import KnownAnswers
from bilink.models.scorer import Scorer, Side
from bilink.ranking.ranks import check_finite, single_threaded_blas
from bilink.training.kernels import TRIES, draw

_BYTES = 64 * 2**20  # of scores at once, in each thread


@dataclass(frozen=True, eq=False)
class Questions:
    """Questions of one side about held-out triples.

    ``gaps[i, j]`` is by how much rival j of question i beats the answer, in each member's score.
    A random rival stands for many, a hard one for itself; ``stand_for`` is the logarithm of that.
    """

    side: Side
    relations: np.ndarray  # of each question
    gaps: np.ndarray  # float32, (questions, rivals, members)
    stand_for: np.ndarray  # float32, one number per rival


def ask_members(
    members: Sequence[Scorer],
    triples: np.ndarray,
    known: Mapping[str, KnownAnswers],
    side: Side,
    *,
    random_rivals: int,
    hard_rivals: int,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Questions:
    """Hide one side of each triple; let each member name its best rivals, and draw some at random.

    Known answers are no rivals.
    """
    given, answer = COLUMNS[side]
    n = members[0].n_entities
    rivals = random_rivals + hard_rivals * len(members)
    gaps = np.empty((len(triples), rivals, len(members)), dtype=np.float32)
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
                check_finite(member, queries)
                member.score_block(queries, block)
            _fill_gaps(
                scores,
                triples[rows, answer],
                known[side].answers,
                start[rows],
                stop[rows],
                random_rivals,
                hard_rivals,
                np.random.SeedSequence([seed, int(rows[0])]).generate_state(1, np.uint64)[0],
                rows,
                gaps,
            )
            if progress:
                progress(len(rows))

    threads = os.cpu_count() or 1
    with single_threaded_blas(), ThreadPoolExecutor(threads) as pool:
        for job in [pool.submit(work) for _ in range(threads)]:
            job.result()
    stand_for = np.zeros(rivals, dtype=np.float32)
    stand_for[:random_rivals] = np.log(max(1.0, n / max(1, random_rivals)))
    return Questions(side, triples[:, 1], gaps, stand_for)


@kernel
def _fill_gaps(scores, answers, known, start, stop, random_rivals, hard_rivals, seed, rows, gaps):
    """gaps[rows[i], j, m] = score of rival j − score of the answer, by member m.

    A rival that is not to be found, because all entities are answers, is the answer itself.
    """
    members, count, n = scores.shape
    random = np.array([seed], dtype=np.uint64)
    barred = np.zeros(n, dtype=np.bool_)
    best = np.empty(max(1, hard_rivals), dtype=np.int64)
    for i in range(count):
        answer = answers[i]
        barred[answer] = True
        for k in range(start[i], stop[i]):
            barred[known[k]] = True
        row = rows[i]
        for j in range(random_rivals):
            rival, tries = draw(random, n), 0
            while barred[rival] and tries < TRIES:
                rival, tries = draw(random, n), tries + 1
            if barred[rival]:
                rival = answer
            for m in range(members):
                gaps[row, j, m] = scores[m, i, rival] - scores[m, i, answer]
        for member in range(members):
            found = _find_best(scores[member, i], barred, best[:hard_rivals])
            for j in range(hard_rivals):
                rival = best[j] if j < found else answer
                place = random_rivals + member * hard_rivals + j
                for m in range(members):
                    gaps[row, place, m] = scores[m, i, rival] - scores[m, i, answer]
                if j < found:
                    barred[rival] = True  # the next member names others
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
