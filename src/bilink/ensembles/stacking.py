"""Relation-level weights: a logistic regression that chooses the answer among its rivals.

For each relation and side, the weights w maximise the likelihood of the answers under a softmax
over the members' weighted scores, less λ/2 ‖w − w₀‖², where w₀ are the weights fitted to all
relations together.  So relations with few held-out triples keep close to what is good in general.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bilink._jit import kernel
from bilink.ensembles.questions import Questions

SHRINKAGES = (1.0, 3.0, 10.0, 30.0, 100.0)  # tried where none is given
_STEPS = 50
_NEAR = 1e-2  # a step so small, of weights in standard deviations, is the last one
_FOLDS = 2
NonNegative = bool | Sequence[bool]


@dataclass(frozen=True)
class Fit:
    """Weights for each relation, those of all relations together, and the λ between the two."""

    weights: np.ndarray  # one row per relation
    common: np.ndarray
    shrinkage: float


def fit_weights(
    questions: Questions,
    n_relations: int,
    *,
    shrinkage: float = 0.0,
    non_negative: NonNegative = True,
    seed: int = 0,
) -> Fit:
    """Fit the weights of one side; a ``shrinkage`` of 0 is chosen by cross-validation.

    Members are first brought to one scale, so that the penalty means the same for each.
    ``non_negative`` holds for all weights, or says for each member whether it does.
    """
    gaps = questions.gaps
    scales = np.maximum(gaps.std(axis=(0, 1), dtype=np.float64), 1e-12)
    scaled = gaps / scales.astype(np.float32)
    data = _Data(scaled, questions.stand_for, questions.relations.astype(np.int64), n_relations)
    common = _fit_common(data, non_negative)
    if shrinkage == 0:
        shrinkage = _best_shrinkage(data, non_negative, seed)
    prior = np.tile(common, (n_relations, 1))
    weights = _fit(data, shrinkage, prior, prior, non_negative)
    return Fit(weights / scales, common / scales, shrinkage)


@dataclass(frozen=True, eq=False)
class _Data:
    gaps: np.ndarray
    stand_for: np.ndarray
    groups: np.ndarray
    n_groups: int

    def part(self, where: np.ndarray) -> "_Data":
        return _Data(self.gaps[where], self.stand_for, self.groups[where], self.n_groups)

    def regrouped(self, groups: np.ndarray, n_groups: int) -> "_Data":
        return _Data(self.gaps, self.stand_for, groups, n_groups)


def _fit_common(data: "_Data", non_negative: NonNegative) -> np.ndarray:
    """The weights of all relations together."""
    members = data.gaps.shape[2]
    together = data.regrouped(np.zeros(len(data.gaps), dtype=np.int64), 1)
    return _fit(together, 1e-3, np.zeros((1, members)), np.ones((1, members)), non_negative)[0]


def _best_shrinkage(data: "_Data", non_negative: NonNegative, seed: int) -> float:
    """The λ whose weights give the held-out part of the questions the best likelihood."""
    fold = np.random.default_rng(seed).integers(0, _FOLDS, len(data.gaps))
    losses = dict.fromkeys(SHRINKAGES, 0.0)
    for i in range(_FOLDS):
        seen, held_out = data.part(fold != i), data.part(fold == i)
        weights = prior = np.tile(_fit_common(seen, non_negative), (data.n_groups, 1))
        for shrinkage in reversed(SHRINKAGES):  # from the prior outwards, each from the last
            weights = _fit(seen, shrinkage, prior, weights, non_negative)
            losses[shrinkage] += _slopes(held_out, weights)[0].sum()
    return min(losses, key=lambda shrinkage: losses[shrinkage])


def _fit(
    data: _Data, shrinkage: float, prior: np.ndarray, start: np.ndarray, non_negative: NonNegative
) -> np.ndarray:
    """Newton's method for all groups at once, each with its own step length."""
    eye = np.eye(prior.shape[1])

    def loss_of(losses: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return losses + shrinkage / 2 * ((weights - prior) ** 2).sum(axis=1)

    weights, length = start.copy(), np.ones(len(start))
    losses, slopes, curves = _slopes(data, weights)
    value = loss_of(losses, weights)
    for _ in range(_STEPS):
        slope = slopes + shrinkage * (weights - prior)
        stuck = (weights <= 0) & (slope > 0) & np.asarray(non_negative)
        curve = curves + shrinkage * eye
        curve[stuck[:, :, None] | stuck[:, None, :]] = 0
        curve += stuck[:, :, None] * eye
        step = np.linalg.solve(curve, np.where(stuck, 0, slope)[:, :, None])[:, :, 0]
        near = np.abs(step).max(initial=0) < _NEAR or length.max(initial=0) < 1e-3
        tried = weights - length[:, None] * step
        tried = np.where(non_negative, np.maximum(tried, 0), tried)
        found = _slopes(data, tried)
        new = loss_of(found[0], tried)
        better = new <= value
        length = np.where(better, np.minimum(1, 2 * length), length / 4)
        weights = np.where(better[:, None], tried, weights)
        slopes = np.where(better[:, None], found[1], slopes)
        curves = np.where(better[:, None, None], found[2], curves)
        value = np.where(better, new, value)
        if near:  # and this step has squared the distance
            break
    return weights


def _slopes(data: _Data, weights: np.ndarray) -> Sequence[np.ndarray]:
    """Loss, gradient and Hessian of each group's likelihood."""
    m = weights.shape[1]
    losses = np.zeros(data.n_groups)
    slopes, curves = np.zeros((data.n_groups, m)), np.zeros((data.n_groups, m, m))
    _add_slopes(data.gaps, data.stand_for, data.groups, weights, losses, slopes, curves)
    return losses, slopes, curves


@kernel
def _add_slopes(gaps, stand_for, groups, weights, losses, slopes, curves):
    """For each question, log(1 + Σ exp(w · gap)) and its first two derivatives in w."""
    count, rivals, members = gaps.shape
    logits = np.empty(rivals)
    mean = np.empty(members)
    for i in range(count):
        g = groups[i]
        top = 0.0  # the answer's own logit
        for j in range(rivals):
            logits[j] = stand_for[j]
            for m in range(members):
                logits[j] += weights[g, m] * gaps[i, j, m]
            top = max(top, logits[j])
        total = np.exp(-top)
        for j in range(rivals):
            logits[j] = np.exp(logits[j] - top)
            total += logits[j]
        losses[g] += top + np.log(total)
        mean[:] = 0
        for j in range(rivals):
            share = logits[j] / total
            for a in range(members):
                weighted = share * gaps[i, j, a]
                mean[a] += weighted
                for b in range(a + 1):
                    curves[g, a, b] += weighted * gaps[i, j, b]
        for a in range(members):
            slopes[g, a] += mean[a]
            for b in range(a + 1):
                curves[g, a, b] -= mean[a] * mean[b]
    for g in range(losses.shape[0]):
        for a in range(members):
            for b in range(a):
                curves[g, b, a] = curves[g, a, b]
