"""Logistic regression for each relation, shrunk towards that of all relations together.

An example is a comparison of a right answer with wrong ones by several features, such as the scores
of several models.  The weights w of a relation maximise the likelihood of the right answers under a
softmax over the weighted features, less λ/2 ‖w − w₀‖², where w₀ are the weights fitted to all
relations together.  So relations with few examples keep close to what is good in general.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bilink._jit import kernel
from bilink._random import Stream, generator

SHRINKAGES = (1.0, 3.0, 10.0, 30.0, 100.0)  # tried where none is given
_STEPS = 50
_NEAR = 1e-2  # a step so small, of weights in standard deviations, is the last one
_FOLDS = 2
NonNegative = bool | Sequence[bool]


@dataclass(frozen=True, eq=False)
class Comparisons:
    """Right answers beside wrong ones.

    ``gaps[i, j]`` is by how much wrong answer j of example i exceeds the right one, in each
    feature.  A wrong answer drawn at random stands for many; ``log_counts`` is the logarithm of how
    many.
    """

    relations: np.ndarray  # of each example
    gaps: np.ndarray  # float32, (examples, wrong answers, features)
    log_counts: np.ndarray  # float32, one number per wrong answer


@dataclass(frozen=True)
class Fit:
    """Weights for each relation, those of all relations together, and the λ between the two."""

    weights: np.ndarray  # one row per relation
    common: np.ndarray
    shrinkage: float


def fit_weights(
    comparisons: Comparisons,
    n_relations: int,
    *,
    shrinkage: float = 0.0,
    non_negative: NonNegative = True,
    seed: int = 0,
) -> Fit:
    """Fit the weights; a ``shrinkage`` of 0 is chosen by cross-validation.

    Features are first brought to one scale, so that the penalty means the same for each.
    ``non_negative`` holds for all weights, or says for each feature whether it does.
    """
    gaps = comparisons.gaps
    scales = np.maximum(gaps.std(axis=(0, 1), dtype=np.float64), 1e-12)
    scaled = gaps / scales.astype(np.float32)
    groups = comparisons.relations.astype(np.int64)
    data = _Data(scaled, comparisons.log_counts, groups, n_relations)
    common = _fit_common(data, non_negative)
    if shrinkage == 0:
        shrinkage = _best_shrinkage(data, non_negative, seed)
    prior = np.tile(common, (n_relations, 1))
    weights = _fit(data, shrinkage, prior, prior, non_negative)
    return Fit(weights / scales, common / scales, shrinkage)


@dataclass(frozen=True, eq=False)
class _Data:
    gaps: np.ndarray
    log_counts: np.ndarray
    groups: np.ndarray
    n_groups: int

    def part(self, where: np.ndarray) -> "_Data":
        return _Data(self.gaps[where], self.log_counts, self.groups[where], self.n_groups)

    def regrouped(self, groups: np.ndarray, n_groups: int) -> "_Data":
        return _Data(self.gaps, self.log_counts, groups, n_groups)


def _fit_common(data: "_Data", non_negative: NonNegative) -> np.ndarray:
    """The weights of all relations together."""
    members = data.gaps.shape[2]
    together = data.regrouped(np.zeros(len(data.gaps), dtype=np.int64), 1)
    return _fit(together, 1e-3, np.zeros((1, members)), np.ones((1, members)), non_negative)[0]


def _best_shrinkage(data: "_Data", non_negative: NonNegative, seed: int) -> float:
    """The λ whose weights give the held-out part of the examples the best likelihood."""
    fold = generator(seed, Stream.SHRINKAGE_FOLDS).integers(0, _FOLDS, len(data.gaps))
    losses = dict.fromkeys(SHRINKAGES, 0.0)
    for i in range(_FOLDS):
        seen, held_out = data.part(fold != i), data.part(fold == i)
        weights = prior = np.tile(_fit_common(seen, non_negative), (data.n_groups, 1))
        for shrinkage in reversed(SHRINKAGES):  # from the prior outwards, each from the last
            weights = _fit(seen, shrinkage, prior, weights, non_negative)
            losses[shrinkage] += _gradients(held_out, weights)[0].sum()
    return min(losses, key=lambda shrinkage: losses[shrinkage])


def _fit(
    data: _Data, shrinkage: float, prior: np.ndarray, start: np.ndarray, non_negative: NonNegative
) -> np.ndarray:
    """Newton's method for all groups at once, each with its own step length."""
    eye = np.eye(prior.shape[1])

    def loss_of(losses: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return losses + shrinkage / 2 * ((weights - prior) ** 2).sum(axis=1)

    weights, length = start.copy(), np.ones(len(start))
    losses, gradients, hessians = _gradients(data, weights)
    value = loss_of(losses, weights)
    for _ in range(_STEPS):
        gradient = gradients + shrinkage * (weights - prior)
        stuck = (weights <= 0) & (gradient > 0) & np.asarray(non_negative)
        hessian = hessians + shrinkage * eye
        hessian[stuck[:, :, None] | stuck[:, None, :]] = 0
        hessian += stuck[:, :, None] * eye
        step = np.linalg.solve(hessian, np.where(stuck, 0, gradient)[:, :, None])[:, :, 0]
        near = np.abs(step).max(initial=0) < _NEAR or length.max(initial=0) < 1e-3
        tried = weights - length[:, None] * step
        tried = np.where(non_negative, np.maximum(tried, 0), tried)
        found = _gradients(data, tried)
        new = loss_of(found[0], tried)
        better = new <= value
        length = np.where(better, np.minimum(1, 2 * length), length / 4)
        weights = np.where(better[:, None], tried, weights)
        gradients = np.where(better[:, None], found[1], gradients)
        hessians = np.where(better[:, None, None], found[2], hessians)
        value = np.where(better, new, value)
        if near:  # and this step has squared the distance
            break
    return weights


def _gradients(data: _Data, weights: np.ndarray) -> Sequence[np.ndarray]:
    """Loss, gradient and Hessian of each group's likelihood."""
    m = weights.shape[1]
    losses = np.zeros(data.n_groups)
    gradients, hessians = np.zeros((data.n_groups, m)), np.zeros((data.n_groups, m, m))
    _add_gradients(data.gaps, data.log_counts, data.groups, weights, losses, gradients, hessians)
    return losses, gradients, hessians


@kernel
def _add_gradients(gaps, log_counts, groups, weights, losses, gradients, hessians):
    """For each example, log(1 + Σ exp(w · gap)) and its first two derivatives in w."""
    count, wrong, members = gaps.shape
    logits = np.empty(wrong)
    mean = np.empty(members)
    for i in range(count):
        g = groups[i]
        top = 0.0  # the answer's own logit
        for j in range(wrong):
            logits[j] = log_counts[j]
            for m in range(members):
                logits[j] += weights[g, m] * gaps[i, j, m]
            top = max(top, logits[j])
        total = np.exp(-top)
        for j in range(wrong):
            logits[j] = np.exp(logits[j] - top)
            total += logits[j]
        losses[g] += top + np.log(total)
        mean[:] = 0
        for j in range(wrong):
            share = logits[j] / total
            for a in range(members):
                weighted = share * gaps[i, j, a]
                mean[a] += weighted
                for b in range(a + 1):
                    hessians[g, a, b] += weighted * gaps[i, j, b]
        for a in range(members):
            gradients[g, a] += mean[a]
            for b in range(a + 1):
                hessians[g, a, b] -= mean[a] * mean[b]
    for g in range(losses.shape[0]):
        for a in range(members):
            for b in range(a):
                hessians[g, b, a] = hessians[g, a, b]
