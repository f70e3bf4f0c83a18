"""Numbers made of ranks."""

import numpy as np

HITS = (1, 3, 10)
METRICS = ("mrr", "mr", *(f"hits@{k}" for k in HITS), "amri")


def rank_metrics(ranks: np.ndarray, options: np.ndarray) -> dict[str, float]:
    """MRR, mean rank, Hits@k and AMRI of ranks among ``options`` candidates each.

    AMRI (Berrendorf et al., 2020) is 1 for perfect ranks and 0 for those of a random scorer.
    Without any rank all are NaN.
    """
    if len(ranks) == 0:
        return dict.fromkeys(METRICS, float("nan"))
    mean = float(np.mean(ranks))
    by_chance = float(np.mean((options + 1) / 2))
    return {
        "mrr": float(np.mean(1 / ranks)),
        "mr": mean,
        **{f"hits@{k}": float(np.mean(ranks <= k)) for k in HITS},
        "amri": 1 - (mean - 1) / (by_chance - 1) if by_chance > 1 else 1.0,
    }


def gains(ranks: np.ndarray, metric: str) -> np.ndarray:
    """What each query adds to ``metric``, which is their mean."""
    if metric == "mrr":
        return 1 / ranks
    if metric == "mr":
        return ranks.astype(np.float64)
    return (ranks <= int(metric.removeprefix("hits@"))).astype(np.float64)
