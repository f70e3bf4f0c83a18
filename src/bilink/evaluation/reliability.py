"""How good probabilities are: of what is called 70 % likely, 70 % should be true."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bilink._plot import new_figure, save_figure
from bilink.errors import ConfigError, DataError

BINS = 15
_TINY = 1e-15


@dataclass(frozen=True, eq=False)
class Reliability:
    """Probabilities against truths, in bins of about equally many triples."""

    counts: np.ndarray  # of each bin, from the lowest probabilities to the highest
    predicted: np.ndarray  # the mean probability of each bin
    observed: np.ndarray  # the share of true triples in each bin
    probabilities: np.ndarray
    truths: np.ndarray

    @cached_property
    def ece(self) -> float:
        """Expected calibration error: the mean over triples of their bin's |predicted − observed|.

        It tells of the whole alone: a relation that is called too likely and one that is called
        too unlikely may even each other out.
        """
        return float(np.average(np.abs(self.predicted - self.observed), weights=self.counts))

    @cached_property
    def brier(self) -> float:
        """The mean square of probability − truth."""
        return float(np.mean((self.probabilities - self.truths) ** 2))

    @cached_property
    def log_loss(self) -> float:
        """The mean of −log of the probability that was given to what is the case."""
        given = np.where(self.truths, self.probabilities, 1 - self.probabilities)
        return float(-np.log(np.maximum(given, _TINY)).mean())

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        columns = zip(self.counts, self.predicted, self.observed, strict=True)
        return {
            "ece": self.ece,
            "brier": self.brier,
            "log_loss": self.log_loss,
            "bins": [
                {"triples": int(n), "predicted": float(p), "observed": float(o)}
                for n, p, o in columns
            ],
        }


def reliability(probabilities: np.ndarray, truths: np.ndarray, bins: int = BINS) -> Reliability:
    """Compare ``probabilities`` with ``truths`` in ``bins`` of about equally many triples.

    Equal probabilities are never put into different bins.
    """
    p, y = np.asarray(probabilities, dtype=np.float64), np.asarray(truths, dtype=bool)
    if bins < 1:
        raise ConfigError(f"bins must be at least 1, not {bins}")
    if p.shape != y.shape or not len(p):
        raise DataError(f"{p.size} probabilities do not fit {y.size} truths")
    if not ((p >= 0) & (p <= 1)).all():
        raise DataError("a probability is not between 0 and 1")
    # The bin of a probability: by how many are smaller and half of those that are equal.
    _, place, equal = np.unique(p, return_inverse=True, return_counts=True)
    middle = np.cumsum(equal) - equal / 2
    place = np.minimum((middle * bins / len(p)).astype(np.int64), bins - 1)[place]
    _, place, counts = np.unique(place, return_inverse=True, return_counts=True)
    predicted, observed = (np.bincount(place, values) / counts for values in (p, y))
    return Reliability(counts, predicted, observed, p, y)


def draw_reliability(found: Mapping[str, Any], path: Path) -> None:
    """What was promised against what is true; a dot for each bin of ``Asked.to_dict``."""
    figure = new_figure("the picture of probabilities", figsize=(4.6, 4.6))
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="#dee2e6", linewidth=1, zorder=0)
    x, y, n = (
        np.array([part[key] for part in found["bins"]])
        for key in ("predicted", "observed", "count")
    )
    error = 1.96 * np.sqrt(np.maximum(y * (1 - y), 0.25 / n) / n)
    axes.errorbar(x, y, np.minimum(error, 0.5), fmt="o-", color="#2a6f97", capsize=2, linewidth=1.4)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel="promised probability")
    axes.set_ylabel("share that is true (test)")
    axes.set_title(f"the best answers to {found['questions']:,} questions", loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    save_figure(figure, path)
