"""Numbers made of ranks, and of triples called true or false."""

import numpy as np

HITS = (1, 3, 10)
METRICS = ("mrr", "mr", *(f"hits@{k}" for k in HITS), "amri")
BINARY_METRICS = ("accuracy", "precision", "recall", "f1", "auc", "average_precision")


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


def binary_metrics(labels: np.ndarray, margins: np.ndarray) -> dict[str, float]:
    """The metrics of calling true what has a margin above 0.

    As scikit-learn defines them (the tests compare), without what a call of it costs: a graph may
    have a thousand relations.  Where nothing is called true, precision and F1 are 0.  NaN is what
    is not defined: all without triples, recall without true ones, AUC and average precision
    without both kinds.
    """
    found = dict.fromkeys(BINARY_METRICS, float("nan"))
    n, positives = len(labels), int(np.count_nonzero(labels))
    if n == 0:
        return found
    called = margins > 0
    hits, wrong = int(np.count_nonzero(called & labels)), int(np.count_nonzero(called != labels))
    found["accuracy"] = 1 - wrong / n
    found["precision"] = hits / max(int(np.count_nonzero(called)), 1)
    found["f1"] = 2 * hits / (2 * hits + wrong) if hits else 0.0
    if positives:
        found["recall"] = hits / positives
    if 0 < positives < n:
        # True and false triples at each different margin, from the highest down.
        place = np.unique(-margins, return_inverse=True)[1]
        true, false = np.bincount(place, labels), np.bincount(place, ~labels)
        true_so_far, false_so_far = true.cumsum(), false.cumsum()
        above = true_so_far - true / 2  # equal margins count half
        found["auc"] = float(false @ above) / (positives * (n - positives))
        precision = true_so_far / (true_so_far + false_so_far)
        found["average_precision"] = float(true @ precision) / positives
    return found


def groups(relations: np.ndarray) -> list[np.ndarray]:
    """The rows of each relation that occurs."""
    order = np.argsort(relations, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(relations[order])) + 1) if len(order) else []
