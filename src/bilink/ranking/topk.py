"""The best candidates of a query."""

import numpy as np

from bilink.models.scorer import Scorer, Side
from bilink.ranking.ranks import check_finite


def top_candidates(
    scorer: Scorer,
    side: Side,
    given: int,
    relation: int,
    k: int,
    exclude: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Ids and scores of the ``k`` best candidates but for ``exclude``.

    Equal scores stand by ascending id.  They are those of one product, in which equal rows may
    differ in the last digit; ``ranks`` settles that, and a list of answers need not.
    """
    queries = scorer.queries(side, np.array([given]), np.array([relation]))
    check_finite(scorer, queries)
    scores = np.empty((1, scorer.n_entities), dtype=scorer.dtype)
    scorer.score_block(queries, scores)
    row = scores[0]
    row[exclude] = -np.inf
    k = max(0, min(k, int(np.count_nonzero(np.isfinite(row)))))
    if k == 0:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=scorer.dtype)
    # All that reach the k-th score, so that ties are cut by id and not by chance.
    threshold = np.partition(row, len(row) - k)[len(row) - k]
    best = np.flatnonzero(row >= threshold)
    best = best[np.lexsort((best, -row[best]))][:k]
    return best, row[best]
