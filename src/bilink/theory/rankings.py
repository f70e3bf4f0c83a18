"""Rankings: what is left of the scores of a relation when only their order counts.

A scoring tensor holds one N × N slice per relation: ``scores[k, i, j]`` is the score of the triple
(i, k, j).  Two scoring tensors can agree at three levels, from strong to weak:

    same_scores    equal scores, perhaps up to a constant for each relation
    same_ranking   equal order, ties included
    refines        every strict inequality is kept; ties may be broken

The levels of a certificate are the same: "scores", "scores up to a constant", "ranking" and
"refinement".

A tolerance is a share of the spread (largest minus smallest score) of a slice; or of the largest
absolute score, where the spread is within rounding.  The default of zero is right for whole
numbers; scores that were computed in floating point need a tolerance.
"""

from typing import Literal

import numpy as np

from bilink.errors import ConfigError, DataError
from bilink.models.model import Model

Level = Literal["scores", "scores up to a constant", "ranking", "refinement"]
SHIFTED: Level = "scores up to a constant"

_MOST_SCORES = 2**28  # 2 GB


def score_tensor(model: Model) -> np.ndarray:
    """All scores of a model, (K, N, N); for models whose N² K numbers fit into memory."""
    n, k = len(model.entities), len(model.relations)
    if n * n * k > _MOST_SCORES:
        raise ConfigError(
            f"{k:,} relations among {n:,} entities have {n * n * k:,} scores, too many to hold; "
            "take a smaller graph"
        )
    scores = np.empty((k, n, n), dtype=model.entities.dtype)
    for relation, block in enumerate(scores):
        queries = model.scorer.queries("tail", np.arange(n), np.full(n, relation))
        model.scorer.query_scores(queries, block)
    return scores


def dense_rank(scores: np.ndarray, tolerance: float = 0.0) -> np.ndarray:
    """The paper's π: the dense rank of each score within its slice; 1 is the largest score.

    Neighbours in the order that are no further apart than the tolerance share a rank.
    """
    scores = _finite_slices(scores)
    ranks = np.empty(scores.shape, dtype=np.int64)
    for index in np.ndindex(scores.shape[:-2]):
        order = np.argsort(scores[index], axis=None)[::-1]
        falling = scores[index].ravel()[order]
        steps = falling[:-1] - falling[1:] > tolerance * yardstick(falling)
        ranks[index].reshape(-1)[order] = np.append(1, 1 + np.cumsum(steps))
    return ranks


def check_ranking(ranking: np.ndarray) -> np.ndarray:
    """``ranking`` as whole numbers of shape (K, N, N); an error if it is none.

    Every slice must hold exactly the ranks 1, 2, …, m for some m.
    """
    values = _finite_slices(ranking)
    values = values[None] if values.ndim == 2 else values
    if values.ndim != 3:
        raise DataError(f"a ranking tensor has shape (K, N, N), not {values.shape}")
    if len(values) == 0:
        raise DataError("a ranking tensor needs at least one relation (K ≥ 1)")
    if values.shape[1] < 2:
        raise DataError("a ranking needs at least two entities (N ≥ 2)")
    for k, part in enumerate(values):
        found = np.unique(part)
        if not np.array_equal(found, np.arange(1, len(found) + 1)):
            raise DataError(
                f"slice {k} is no ranking: its entries must be the whole numbers from 1 to their "
                f"largest with none left out, but they are {', '.join(f'{x:g}' for x in found[:8])}"
                f"{' …' if len(found) > 8 else ''}; dense_rank makes a ranking of any scores"
            )
    return values.astype(np.int64)


def same_scores(
    a: np.ndarray, b: np.ndarray, *, up_to_constant: bool = False, tolerance: float = 0.0
) -> bool:
    """Whether two scoring tensors are equal, perhaps after a shift of each slice."""
    a, b = _pair(a, b)
    level: Level = SHIFTED if up_to_constant else "scores"
    slices = np.ndindex(a.shape[:-2])
    return all(deviation(a[index], b[index], level) <= tolerance for index in slices)


def same_ranking(a: np.ndarray, b: np.ndarray, tolerance: float = 0.0) -> bool:
    """Whether two scoring tensors order the pairs of each relation alike, ties included."""
    a, b = _pair(a, b)
    return np.array_equal(dense_rank(a, tolerance), dense_rank(b, tolerance))


def refines(fine: np.ndarray, coarse: np.ndarray, tolerance: float = 0.0) -> bool:
    """Whether ``fine`` keeps every strict inequality between scores of one slice of ``coarse``.

    Scores of ``coarse`` that the tolerance makes equal may be ordered in any way.
    """
    fine, coarse = _pair(fine, coarse)
    ranks = dense_rank(coarse, tolerance)
    for index in np.ndindex(ranks.shape[:-2]):
        order = np.argsort(ranks[index], axis=None)
        starts = np.flatnonzero(np.diff(ranks[index].ravel()[order], prepend=0))
        values = fine[index].ravel()[order]
        lowest, highest = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
        if not np.all(lowest[:-1] > highest[1:]):
            return False
    return True


def deviation(was: np.ndarray, now: np.ndarray, level: Level) -> float:
    """How far the new scores of a slice are from what ``level`` allows, given the old ones.

    It is the largest difference, after a shift where the level allows one, as a share of the
    spread.  For a ranking or a refinement it is the largest decrease of ``now`` where ``was``
    increases.
    """
    was, now = was.ravel(), now.ravel()
    gaps = now.astype(np.float64) - was
    if level == "scores":
        return float(abs(gaps).max()) / yardstick(was)
    if level == SHIFTED:
        return float(np.ptp(gaps)) / 2 / yardstick(was)
    ties = -now if level == "ranking" else now  # a ranking keeps the ties
    rising = now[np.lexsort((ties, was))]
    decrease = np.maximum.accumulate(rising) - rising
    return float(decrease.max()) / yardstick(now)


def yardstick(scores: np.ndarray) -> float:
    """The spread of scores; their largest absolute value if that is within rounding, 1 if zero."""
    low, high = float(scores.min()), float(scores.max())
    size = max(abs(low), abs(high))
    return high - low if high - low > 1e-12 * size else size or 1.0


def _pair(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a, b = _finite_slices(a), _finite_slices(b)
    if a.shape != b.shape:
        raise DataError(f"scoring tensors of shapes {a.shape} and {b.shape} cannot be compared")
    return a, b


def _finite_slices(scores: np.ndarray) -> np.ndarray:
    scores = np.asarray(scores)
    if scores.dtype.kind not in "fi":
        scores = scores.astype(np.float64)
    if scores.ndim < 2 or scores.shape[-1] != scores.shape[-2] or scores.shape[-1] == 0:
        raise DataError(
            f"the theory speaks of N × N matrices, heads by tails; one of shape {scores.shape} "
            "is not square"
        )
    if not np.all(np.isfinite(scores)):
        raise DataError("scores that are NaN or infinite have no ranking")
    return scores
