"""Proofs of upper bounds on the rounding rank: factors in float64, and orders of columns.

Factors prove a bound if every score is farther from the threshold than rounding can move it.  The
error of a sum of n products is at most γ Σ|terms|, γ = nu / (1 − nu), in any order, fused or not
(Higham, Accuracy and Stability of Numerical Algorithms, section 3.1).

An order of columns in which the ones of every row form few intervals proves a bound exactly: it is
checked with whole numbers.
"""

from dataclasses import dataclass

import numpy as np

from bilink._threads import single_threaded_blas
from bilink.errors import DataError
from bilink.models.model import Model
from bilink.theory.rounding.boolean import BooleanMatrix, Lists, distinct_facts

_UNIT = 2.0**-53  # half the distance from 1 to the next double
_TINY = 2.0**-1000  # for products below the normal numbers
_ENTRIES = 2**17  # scores that are held at once: they stay in the cache
_Pair = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Factors:
    """A rounding decomposition of one relation: ⟨left[i], right[j]⟩ > threshold ⇔ (i, j) holds.

    ``left`` and ``right`` have shape (N, r), float64.
    """

    left: np.ndarray
    right: np.ndarray
    threshold: float

    @property
    def rank(self) -> int:
        """The number r of columns."""
        return self.left.shape[1]

    @property
    def inverse(self) -> "Factors":
        """The factors of the inverse relation: the same arrays, exchanged."""
        return Factors(self.right, self.left, self.threshold)


# -- in float64 ------------------------------------------------------------------------------------


def _gamma(terms: int) -> float:
    """Twice the bound nu / (1 − nu) on the relative error of a sum of n products, in any order.

    Twice, since both the score in the certificate and the score that ranks with the factors have
    this error; and a little more for the rounding of the bound itself.
    """
    part = (terms + 4) * _UNIT
    return 2 * part / (1 - part) * (1 + 8 * part)


def margin_over_error(factors: Factors, heads: np.ndarray, tails: np.ndarray) -> float:
    """The least quotient of margin and possible rounding error over all N² scores.

    Above 1, every fact scores above the threshold and every non-fact below it, in float64 and in
    any order of summation.  It is 0 if some score is on the wrong side.
    """
    left, right = factors.left, factors.right
    if left.ndim != 2 or left.shape != right.shape:
        raise DataError(f"factors must be two tables of one shape, not {left.shape}, {right.shape}")
    if not all(np.isfinite(x).all() for x in (left, right, factors.threshold)):
        raise DataError("the factors hold NaN or infinite numbers; they tell of no relation")
    rows, left = _distinct_rows(left.astype(np.float64))
    columns, right = _distinct_rows(right.astype(np.float64))
    facts = _distinct_cells(rows, columns, *distinct_facts(heads, tails, len(rows)))
    gamma = _gamma(factors.rank)
    sizes = abs(left), abs(right)
    return _least_quotient((left, right), sizes, facts, factors.threshold, gamma)


def _least_quotient(
    vectors: _Pair, sizes: _Pair, facts: Lists | None, threshold: float, gamma: float
) -> float:
    """The least |score − threshold| / error over all pairs of rows; 0 if one is on the wrong side.

    Scores are products of left and right ``vectors``, their errors γ times those of the ``sizes``.
    ``facts`` are the ones of each row of the left; without them, no scores can be right.
    """
    if facts is None:
        return 0.0
    # The threshold, and what keeps errors above zero, are one more term of each product.
    n, m = np.ones((len(vectors[0]), 1)), np.ones((len(vectors[1]), 1))
    left, right = np.hstack([vectors[0], -threshold * n]), np.hstack([vectors[1], m])
    least = gamma * abs(threshold) + _TINY
    errors = np.hstack([gamma * sizes[0], least * n]), np.hstack([sizes[1], m])
    worst, owner = np.float64(np.inf), facts.owner
    step = max(1, _ENTRIES // max(1, len(right)))
    with single_threaded_blas():  # the products are too small to share
        for first in range(0, len(left), step):
            part = slice(first, first + step)
            scores = left[part] @ right.T
            ones = slice(*facts.start[[first, min(first + step, len(left))]])
            scores[owner[ones] - first, facts.items[ones]] *= -1  # now all should be negative
            scores /= errors[0][part] @ errors[1].T
            worst = np.minimum(worst, -scores.max())  # NaN if one is
    return float(worst) if worst > 0 else 0.0


def model_margin(
    model: Model, stored: Model, relation: int, heads: np.ndarray, tails: np.ndarray
) -> float:
    """The same for a relation of a model that was made from factors with the threshold ½.

    ``stored`` is the model as read back from a file; the difference of the two counts as error.
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
    facts = _distinct_cells(rows, columns, *distinct_facts(heads, tails, len(rows)))
    sizes = np.hstack(left_sizes), np.hstack(right_sizes)
    return _least_quotient((left @ core, right), sizes, facts, 0.5, gamma)


def _form(model: Model, relation: int) -> tuple[np.ndarray, np.ndarray]:
    """The relation's bilinear form, on those of the entities' coordinates that are returned too."""
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
    """Rows per entity whose products, times γ, bound the difference of the two models' scores.

    It is e'ᵀM'e' − eᵀMe = (e' − e)ᵀM'e' + eᵀ(M' − M)e' + eᵀM(e' − e), and the rounding of the
    first product.
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
    """The largest values in each group of rows, column by column."""
    result = np.zeros((int(groups.max(initial=-1)) + 1, values.shape[1]))
    np.maximum.at(result, groups, values)
    return result


def _distinct_rows(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The number of each row among the distinct ones, and these."""
    table = np.ascontiguousarray(table + 0.0)  # −0 is 0
    if not table.shape[1]:
        return np.zeros(len(table), dtype=np.int64), table[:1]
    keys = table.view(np.dtype((np.void, table.itemsize * table.shape[1]))).ravel()
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return inverse.ravel(), table[first]


def _distinct_cells(
    rows: np.ndarray, columns: np.ndarray, heads: np.ndarray, tails: np.ndarray
) -> Lists | None:
    """The facts between groups of entities, as the column groups of each row group.

    ``rows`` and ``columns`` are the groups of each entity as a head and as a tail; −1 is none.
    None where a fact and a non-fact are between the same groups, or a fact has none.
    """
    row_sizes, column_sizes = (np.bincount(groups[groups >= 0]) for groups in (rows, columns))
    if (rows[heads] < 0).any() or (columns[tails] < 0).any():
        return None
    width = max(len(column_sizes), 1)
    cells, counts = np.unique(
        rows[heads].astype(np.int64) * width + columns[tails], return_counts=True
    )
    owner, items = np.divmod(cells, width)
    if (counts != row_sizes[owner] * column_sizes[items]).any():
        return None
    return Lists.of(owner, items, len(row_sizes))


# -- exact: intervals of consecutive ones ----------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Intervals:
    """The intervals of consecutive ones of some rows, in an order of the columns.

    Interval k covers the places first[k] to last[k] of the order; those of row i are numbered from
    offset[i] to offset[i + 1].  Rows whose ``apart`` is true have too many intervals.  They have
    none here, and are given a coordinate of their own instead.
    """

    transposed: bool  # rows are tails
    rows: np.ndarray  # numbers in the relation's matrix
    columns: np.ndarray  # the same, in order
    offset: np.ndarray
    first: np.ndarray
    last: np.ndarray
    apart: np.ndarray

    @classmethod
    def of(
        cls,
        matrix: BooleanMatrix,
        transposed: bool,
        rows: np.ndarray,
        columns: np.ndarray,
        most: int,
    ) -> "Intervals":
        """Those of ``rows`` in the order ``columns``; rows with more than ``most`` go apart."""
        owner, first, last = matrix.rows.take(rows).intervals(columns)
        count = np.bincount(owner, minlength=len(rows))
        apart = count > most
        kept = ~apart[owner]
        offset = np.append(0, np.cumsum(np.where(apart, 0, count)))
        return cls(transposed, rows, columns, offset, first[kept], last[kept], apart)

    @property
    def count(self) -> np.ndarray:
        """How many intervals each row has."""
        return np.diff(self.offset)

    @property
    def rank(self) -> int:
        """2c + h for rows of at most c intervals, and h rows apart."""
        return 2 * int(self.count.max(initial=0)) + int(self.apart.sum())


@dataclass(frozen=True, eq=False)
class IntervalCertificate:
    """An exact proof of an upper bound on the rounding rank, by an order of each block's columns.

    In a block with at most c intervals per row, put the columns at t = 0, 1, 2, …  The polynomial
    −(t² + 1)^(c − c') ∏ (t − s + ½)(t − e − ½) over the c' intervals [s, e] of a row is positive
    exactly on the row's ones.  It is −t^2c + lower terms, hence aᵢ + bⱼ + 2c − 1 products.  A row
    apart takes one product more, which is large on its ones.

    Now give each block a point v of the unit sphere in 2c (+ h) dimensions, and let K be large.
    The row √K v + aᵢ v/√K + Lᵢ and the column √K v + bⱼ v/√K + Qⱼ, with L and Q tangent to the
    sphere at v, have a product above K exactly on the facts: within a block by its polynomials, and
    between two blocks because K⟨v, v'⟩ falls short of K by a multiple of K.
    """

    n: int  # entities
    row_of: np.ndarray
    column_of: np.ndarray
    blocks: tuple[Intervals, ...]

    @property
    def rank(self) -> int:
        """The rank that is proved to be enough."""
        several = len(self.blocks) > 1
        return max((b.rank + (several and bool(b.apart.all())) for b in self.blocks), default=0)

    def holds(self, heads: np.ndarray, tails: np.ndarray) -> bool:
        """Whether the certificate proves its rank for just these facts; every entry is checked."""
        heads, tails = distinct_facts(heads, tails, self.n)
        rows = _distinct_cells(self.row_of, self.column_of, heads, tails)
        if rows is None:
            return False
        columns = Lists.of(rows.items, rows.owner, int(self.column_of.max(initial=-1)) + 1)
        inside = np.zeros(max(len(rows), len(columns)), dtype=bool)
        found = 0
        for block in self.blocks:
            lists = (columns if block.transposed else rows).take(block.rows)
            found += len(lists.items)
            inside[block.columns] = True
            if not inside[lists.items].all():  # a fact across two blocks
                return False
            inside[block.columns] = False
            intervals = np.stack(lists.intervals(block.columns))
            row_of = np.repeat(np.arange(len(block.rows)), block.count)
            claimed = np.stack([row_of, block.first, block.last])
            if not np.array_equal(intervals[:, ~block.apart[intervals[0]]], claimed):
                return False
        return found == len(rows.items)
