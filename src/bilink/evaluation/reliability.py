"""How good probabilities are: of what is called 70 % likely, 70 % should be true."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bilink._plot import new_figure, save_figure
from bilink._random import Stream, generator
from bilink.errors import ConfigError, DataError
from bilink.evaluation.metrics import groups

BINS = 15
LEAST = 20  # triples in a bin of one relation
DRAWS = 5  # of truths from the probabilities themselves, to see what chance alone makes
_TINY = 1e-15
COLOURS = ("#adb5bd", "#c1121f", "#2a6f97")  # the plain sigmoid, one line for all, ours
TITLES = {"sigmoid": "plain sigmoid", "global": "one line for all", "platt": "a line per relation"}
ASKED = {"facts": "is this fact true?", "answers": "is this answer right?"}


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


def ece_within(
    probabilities: np.ndarray, truths: np.ndarray, relations: np.ndarray, bins: int = BINS
) -> float:
    """The expected calibration error within relations: the mean over triples of their relation's.

    A relation has at most ``bins`` bins, and fewer where they would hold less than 20 triples.
    Few triples make some error by chance; see ``chance_ece``.
    """
    total = 0.0
    for rows in groups(relations):
        fewer = min(bins, max(1, len(rows) // LEAST))
        total += len(rows) * reliability(probabilities[rows], truths[rows], fewer).ece
    return total / len(relations)


def chance_ece(
    probabilities: np.ndarray, relations: np.ndarray, bins: int = BINS, seed: int = 0
) -> tuple[float, float]:
    """The two errors that perfect probabilities would show, for there are only so many triples.

    The first over all triples, the second within relations.
    """
    random = generator(seed, Stream.RELIABILITY)
    found = []
    for _ in range(DRAWS):
        truths = random.random(len(probabilities)) < probabilities
        whole = reliability(probabilities, truths, bins).ece
        found.append((whole, ece_within(probabilities, truths, relations, bins)))
    whole, within = np.mean(found, axis=0)
    return float(whole), float(within)


def draw_reliability(comparisons: list[dict[str, Any]], path: Path) -> None:
    """One panel for each result of ``compare_calibrations``, one curve for each method."""
    count = len(comparisons)
    figure = new_figure("the picture of a calibration", figsize=(4.2 * count, 4.4))
    panels = figure.subplots(1, count, squeeze=False)[0]
    for axes, found in zip(panels, comparisons, strict=True):
        _draw_panel(axes, found)
    save_figure(figure, path)


def _draw_panel(axes: Any, found: Mapping[str, Any]) -> None:
    axes.plot([0, 1], [0, 1], color="#dee2e6", linewidth=1, zorder=0)
    for colour, (name, result) in zip(COLOURS, found["results"].items(), strict=False):
        error = f"{TITLES.get(name, name)}: {result['ece_within_relations']:.3f}"
        x, y = ([part[key] for part in result["bins"]] for key in ("predicted", "observed"))
        axes.plot(x, y, "o-", color=colour, label=error, markersize=4, linewidth=1.6)
    axes.set_title(found.get("title", ASKED[found["asked"]]), loc="left", fontsize=10)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel="probability")
    axes.set_ylabel(f"share of true triples ({found['split']})")
    axes.spines[["top", "right"]].set_visible(False)
    fonts = {"fontsize": 8, "title_fontsize": 8}
    axes.legend(title="error within relations", frameon=False, loc="upper left", **fonts)
