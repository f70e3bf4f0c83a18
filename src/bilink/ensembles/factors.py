"""Weights of an ensemble that rank answers well, made of those that make them likely.

The likelihood that ``fit_weights`` maximises gains as much from an answer that comes up from place
3,000 to 1,000 as from one that comes up from 3 to 1.  Where a member is sure of some answers and
knows nothing of others, as rules are, that gives too much weight to members that rank all answers
somewhat well.  So each member's weights are multiplied by a factor, the same in all relations, that
raises the mean reciprocal rank of the answers.  Whether factors help, and whether relations should
have weights of their own, is judged on answers that were not looked at.  The likelihood has the
last word on how large all weights are together, which changes no rank: a softmax over the scores
should be as sure of its answers as it is right.
"""

import numpy as np

from bilink._random import Stream, generator
from bilink.evaluation.regression import Comparisons, fit_weights

_FACTORS = (0.0, 0.1, 0.25, 0.5, 0.7, 1.4, 2.0, 4.0, 10.0)  # tried for one member after another
_ROUNDS = 4
_GAIN = 1e-4  # of the mean reciprocal rank that makes a change worth while
_EXAMPLES = 5000  # by which factors are judged
_FEWEST = 20  # examples; with fewer, nothing can be judged


def fit_ranking_weights(
    comparisons: Comparisons,
    n_relations: int,
    *,
    shrinkage: float = 0.0,
    non_negative: bool = True,
    seed: int = 0,
) -> np.ndarray:
    """One row of weights per relation; the options are those of ``fit_weights``."""
    fit = fit_weights(
        comparisons, n_relations, shrinkage=shrinkage, non_negative=non_negative, seed=seed
    )
    found = _choices(comparisons, fit.weights, fit.common)
    if len(comparisons.gaps) < _FEWEST:
        return fit.weights
    half = generator(seed, Stream.FACTOR_FOLDS).integers(0, 2, len(comparisons.gaps))
    gains = np.zeros(len(found))
    for i in range(2):
        seen, judged = _part(comparisons, half != i), _part(comparisons, half == i)
        other = fit_weights(
            seen, n_relations, shrinkage=fit.shrinkage, non_negative=non_negative, seed=seed
        )
        choices = _choices(seen, other.weights, other.common)
        gains += [reciprocal_ranks(judged, weights).sum() for weights in choices]
    best = int(gains.argmax())
    return found[best] * (_scale(comparisons, found[best]) if best else 1)


def _scale(comparisons: Comparisons, weights: np.ndarray) -> float:
    """What to multiply all weights with, so that the answers are most likely."""
    gaps = _parts(comparisons, weights).sum(axis=2, keepdims=True)
    one = Comparisons(np.zeros_like(comparisons.relations), gaps, comparisons.log_counts)
    return float(fit_weights(one, 1, shrinkage=1.0).common[0]) or 1.0


def reciprocal_ranks(comparisons: Comparisons, weights: np.ndarray) -> np.ndarray:
    """Estimates of 1/rank: wrong answers drawn at random stand for those that were not drawn."""
    return _reciprocal_ranks(_parts(comparisons, weights), np.ones(weights.shape[1]), comparisons)


def _choices(comparisons: Comparisons, weights: np.ndarray, common: np.ndarray) -> list[np.ndarray]:
    """Weights as they were fitted, the same with factors, and common ones with factors."""
    same = np.tile(common, (len(weights), 1))
    seen = _part(comparisons, slice(None, None, 1 + len(comparisons.gaps) // _EXAMPLES))
    return [weights, *(each * _best_factors(seen, each) for each in (weights, same))]


def _best_factors(comparisons: Comparisons, weights: np.ndarray) -> np.ndarray:
    """One factor per member, changed in turn as long as answers rank better."""
    parts, factors = _parts(comparisons, weights), np.ones(weights.shape[1])
    best = _reciprocal_ranks(parts, factors, comparisons).mean()
    for _ in range(_ROUNDS):
        before = best
        for member in range(len(factors)):
            for factor in _FACTORS:
                tried = factors.copy()
                tried[member] *= factor
                gain = _reciprocal_ranks(parts, tried, comparisons).mean()
                if gain > best + _GAIN:
                    best, factors = gain, tried
        if best == before:
            break
    return factors


def _parts(comparisons: Comparisons, weights: np.ndarray) -> np.ndarray:
    """What each member adds to each gap."""
    return comparisons.gaps * weights[comparisons.relations, None, :].astype(np.float32)


def _reciprocal_ranks(
    parts: np.ndarray, factors: np.ndarray, comparisons: Comparisons
) -> np.ndarray:
    gaps = parts @ factors.astype(np.float32)
    above = (gaps > 0) + 0.5 * (gaps == 0)
    return 1 / (1 + above @ np.exp(comparisons.log_counts.astype(np.float64)))


def _part(comparisons: Comparisons, where: np.ndarray | slice) -> Comparisons:
    return Comparisons(
        comparisons.relations[where], comparisons.gaps[where], comparisons.log_counts
    )
