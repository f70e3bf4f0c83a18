"""Certificates in float64: every score is farther from the threshold than rounding can move it.

The error of a sum of n products is bounded by γ Σ|terms|, γ = nu / (1 − nu), in any order, fused or
not (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1).
"""

from dataclasses import dataclass

import numpy as np

from bilink._jit import kernel
from bilink.errors import DataError
from bilink.models.model import Model
from bilink.theory.factors import Factors
from bilink.theory.rounding.boolean import Lists, distinct_facts

_UNIT = 2.0**-53  # half the distance from 1 to the next double
_TINY = 2.0**-1000  # for products below the normal numbers


@kernel
def worst_margin(left, right, left_sizes, right_sizes, start, items, threshold, gamma, tiny):
    """The least |score − threshold| / error over all pairs; negative where a side is wrong.

    The error is γ times the product of the sizes.  Right-hand tables are transposed.
    """
    n, m = left.shape[0], right.shape[1]
    worst = np.inf
    scores, sizes = np.empty(m), np.empty(m)
    for i in range(n):
        for j in range(m):
            scores[j] = -threshold
            sizes[j] = abs(threshold)
        for k in range(left.shape[1]):
            x = left[i, k]
            for j in range(m):
                scores[j] += x * right[k, j]
        for k in range(left_sizes.shape[1]):
            x = left_sizes[i, k]
            for j in range(m):
                sizes[j] += x * right_sizes[k, j]
        for p in range(start[i], start[i + 1]):
            scores[items[p]] = -scores[items[p]]
        for j in range(m):
            ratio = -scores[j] / (gamma * sizes[j] + tiny)
            if not ratio >= worst:  # unlike min, this lets no NaN pass
                worst = ratio
        if worst != worst:
            return worst
    return worst


@dataclass(frozen=True, eq=False)
class _Scores:
    """Scores left[rows[i]] · right[columns[j]] of entities i and j, and bounds on their terms."""

    rows: np.ndarray  # of each entity
    columns: np.ndarray
    left: np.ndarray
    right: np.ndarray
    left_sizes: np.ndarray
    right_sizes: np.ndarray

    def margin_over_error(
        self, heads: np.ndarray, tails: np.ndarray, threshold: float, gamma: float
    ) -> float:
        """See the function of this name; entities with the same vectors are looked at once."""
        heads, tails = distinct_facts(heads, tails, len(self.rows))
        if not len(self.rows):
            return float("inf")
        width = len(self.right)
        cells, counts = np.unique(
            self.rows[heads].astype(np.int64) * width + self.columns[tails], return_counts=True
        )
        owner, items = np.divmod(cells, width)
        copies = np.bincount(self.rows)[owner] * np.bincount(self.columns)[items]
        if (counts != copies).any():  # a fact and a non-fact share their vectors
            return 0.0
        facts = Lists.of(owner, items, len(self.left))
        worst = worst_margin(
            np.ascontiguousarray(self.left),
            np.ascontiguousarray(self.right.T),
            np.ascontiguousarray(self.left_sizes),
            np.ascontiguousarray(self.right_sizes.T),
            facts.start,
            facts.items,
            float(threshold),
            gamma,
            _TINY,
        )
        return float(worst) if worst > 0 else 0.0


def _gamma(terms: int) -> float:
    """The bound nu / (1 − nu) on the relative error of a sum of n products, in any order.

    It is taken twice, since the score in a certificate is as uncertain as that of who ranks with
    the factors, and a little more for the rounding of the bound itself.
    """
    part = (terms + 4) * _UNIT
    return 2 * part / (1 - part) * (1 + 8 * part)


def margin_over_error(factors: Factors, heads: np.ndarray, tails: np.ndarray) -> float:
    """How many times the least margin of all N² scores exceeds what rounding can do to it.

    Above 1, every fact scores above the threshold and every non-fact below it, in float64 and in
    any order of summation.  0: some score is on the wrong side.
    """
    left, right = _checked(factors)
    rows, left = _distinct_rows(left)
    columns, right = _distinct_rows(right)
    scores = _Scores(rows, columns, left, right, abs(left), abs(right))
    return scores.margin_over_error(heads, tails, factors.threshold, _gamma(left.shape[1]))


def model_margin(
    model: Model, stored: Model, relation: int, heads: np.ndarray, tails: np.ndarray
) -> float:
    """The same for a relation of a model that was made from factors with the threshold ½.

    ``stored`` is the model as a file gives it back; what differs between the two counts as error.
    """
    form, used = _form(model, relation)
    inner, outer = np.flatnonzero(form.any(axis=1)), np.flatnonzero(form.any(axis=0))
    core = form[np.ix_(inner, outer)]
    rows, left = _distinct_rows(model.entities[:, used[inner]])
    columns, right = _distinct_rows(model.entities[:, used[outer]])
    gamma = _gamma(core.shape[1] + int(np.count_nonzero(core, axis=0).max(initial=0)))
    left_sizes, right_sizes = [abs(left) @ abs(core)], [abs(right)]
    if stored is not model:
        extra = _differences(model, stored, relation, gamma)
        left_sizes.append(_largest(extra[0], rows))
        right_sizes.append(_largest(extra[1], columns))
    scores = _Scores(
        rows, columns, left @ core, right, np.hstack(left_sizes), np.hstack(right_sizes)
    )
    return scores.margin_over_error(heads, tails, 0.5, gamma)


def _form(model: Model, relation: int) -> tuple[np.ndarray, np.ndarray]:
    """The relation's bilinear form on some of the entities' numbers, and which ones."""
    row = model.relations[relation]
    used = np.arange(model.entities.shape[1])
    if model.family.name == "complex":  # the form of all coordinates may be too large
        weighty = np.flatnonzero(row[: model.dim].astype(bool) | row[model.dim :].astype(bool))
        used = np.concatenate([weighty, model.dim + weighty])
        row = row[used]
    return model.family.matrix(row), used


def _differences(
    model: Model, stored: Model, relation: int, gamma: float
) -> tuple[np.ndarray, np.ndarray]:
    """Per entity, numbers whose products bound what sets the scores of two models apart, over γ.

    e'ᵀM'e' − eᵀMe = (e' − e)ᵀM'e' + eᵀ(M' − M)e' + eᵀM(e' − e), and the rounding of all terms of
    the first.
    """
    old, new = (x.family.matrix(x.relations[relation]) for x in (model, stored))
    before, after = (np.linalg.norm(x.entities, axis=1) for x in (model, stored))
    moved = np.linalg.norm(stored.entities - model.entities, axis=1)
    rounding = 2 * _gamma(len(new) + 2) * _norm_bound(new)
    parts = [moved * _norm_bound(new), before * _norm_bound(new - old), before * _norm_bound(old)]
    left = np.stack([*parts, rounding * after], axis=1) * (1 + 1e-9) / gamma
    return left, np.stack([after, after, moved, after], axis=1)


def _norm_bound(matrix: np.ndarray) -> float:
    """√(‖M‖₁ ‖M‖_∞), which is at least the spectral norm."""
    sizes = abs(matrix)
    return float(np.sqrt(sizes.sum(axis=0).max(initial=0) * sizes.sum(axis=1).max(initial=0)))


def _largest(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """The largest row of values in each group, number by number."""
    result = np.zeros((int(groups.max(initial=-1)) + 1, values.shape[1]))
    np.maximum.at(result, groups, values)
    return result


def _checked(factors: Factors) -> tuple[np.ndarray, np.ndarray]:
    left, right = factors.left, factors.right
    if left.ndim != 2 or left.shape != right.shape:
        raise DataError(f"factors must be two tables of one shape, not {left.shape}, {right.shape}")
    if not (
        np.isfinite(left).all() and np.isfinite(right).all() and np.isfinite(factors.threshold)
    ):
        raise DataError(
            "the factors hold NaN or infinite numbers; no relation can be read off them"
        )
    return left.astype(np.float64), right.astype(np.float64)


def _distinct_rows(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The number of each row among the distinct ones, and these."""
    table = np.ascontiguousarray(table + 0.0)  # −0 is 0
    if not table.shape[1]:
        return np.zeros(len(table), dtype=np.int64), table[:1]
    keys = table.view(np.dtype((np.void, table.itemsize * table.shape[1]))).ravel()
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return inverse.ravel(), table[first]
