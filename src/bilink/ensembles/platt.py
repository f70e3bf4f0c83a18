"""Platt scaling with one line for all relations, and the mean of such probabilities.

The mean is a baseline: the one ensemble here that is no bilinear form.
"""

from collections.abc import Sequence

import numpy as np
from scipy.special import expit

from bilink.ensembles.mixture import MixtureScorer
from bilink.models.scorer import SIDES, Scorer


def fit_platt(scores: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """The slope and offset that make ``scores`` log-odds of ``labels`` (Platt, 1999)."""
    from sklearn.linear_model import LogisticRegression

    scale = max(scores.std(), 1e-12)
    model = LogisticRegression(C=1e6).fit(scores[:, None] / scale, labels)
    return float(model.coef_[0, 0]) / scale, float(model.intercept_[0])


class PlattScorer(MixtureScorer):
    """The mean over members of 1 / (1 + exp(−(slope · score + offset))).

    In double precision throughout: in single, confident answers would all be 1.
    """

    is_product = False

    def __init__(self, members: Sequence[Scorer], slopes: np.ndarray, offsets: np.ndarray):
        same = np.broadcast_to(slopes, (np.iinfo(np.int32).max, len(members)))  # of any relation
        super().__init__(members, dict.fromkeys(SIDES, same))
        self.candidates = self.candidates.astype(np.float64)
        self.dtype = self.candidates.dtype
        self.slopes, self.offsets = slopes, offsets

    def score_block(self, queries: np.ndarray, out: np.ndarray) -> None:
        """out[i, j] = the mean of the members' probabilities that candidate j is the answer."""
        out[:] = 0
        end, part = 0, np.empty_like(out)
        for member, offset in zip(self.members, self.offsets, strict=True):
            start, end = end, end + member.width
            np.matmul(queries[:, start:end], self.candidates[:, start:end].T, out=part)
            out += expit(part + offset) / len(self.members)

    def score(self, triples: np.ndarray) -> np.ndarray:
        """The mean of the members' probabilities."""
        scores = [member.score(triples) for member in self.members]
        parts = zip(scores, self.slopes, self.offsets, strict=True)
        return np.mean([expit(slope * s + offset) for s, slope, offset in parts], axis=0)

    def tolerances(self, queries: np.ndarray) -> np.ndarray:
        """Nothing: probabilities are compared as they are."""
        return np.zeros(len(queries), dtype=self.dtype)
