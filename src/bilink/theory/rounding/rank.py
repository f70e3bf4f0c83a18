"""The rounding rank of a relation: how many dimensions tell its facts from its non-facts.

The rounding rank of a Boolean matrix is the least rank of a real matrix that is above ½ exactly
where it is true (Wang et al., 2018).  Computing it is hard (complete for the existential theory of
the reals), so it is bounded: from below by shattered sets, from above by factors in float64 whose
every entry is checked, or by an order of columns that is checked with whole numbers.

d columns are shattered if each of the 2^d subsets is what some row holds of them.  Then the rank is
at least d: d vectors in fewer dimensions have, together with the origin, a Radon partition, which
no half-space cuts.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bilink.errors import ConfigError
from bilink.theory.rounding.boolean import Block, BooleanMatrix
from bilink.theory.rounding.certificates import (
    Factors,
    IntervalCertificate,
    Intervals,
    margin_over_error,
)
from bilink.theory.rounding.descent import LocalFactors, factorise
from bilink.theory.rounding.geometry import Part, Solved, circle_factors, sphere_factors
from bilink.theory.rounding.ordering import block_costs, count_intervals, few_intervals, least_cost

_MOVES, _LEAST_MOVES, _MOST_MOVES = 20_000, 10_000_000, 200_000_000  # per fact and in all
_WORK = 5.0e9  # multiplications of all descents on one relation
_EVALUATIONS, _LEAST_EVALUATIONS = 1000, 50  # of the loss, in one descent
_SEEDS = 3  # descents on a block
_HOPELESS = 30.0  # a final loss above which no other seed is tried
_DRAWING = 200  # a drawing takes as long as so many times (rows + columns)² multiplications
_COLUMNS = 48  # candidates for a shattered set beside its first column
_STARTS = 24  # first columns
_CHECKS = 20_000  # sets of columns


@dataclass(frozen=True, eq=False)
class RoundingRank:
    """Bounds on the rounding rank of one relation, with proofs of the upper one."""

    lower: int
    upper: int
    factors: Factors | None  # certified in float64, if found; the rank may be above ``upper``
    margin_over_error: float  # of the factors, above 1; NaN without factors
    exact: IntervalCertificate | None  # None for a relation of rank 0 or 1

    @property
    def certified_rank(self) -> int | None:
        """The rank of the certified factors."""
        return None if self.factors is None else self.factors.rank


def rounding_rank(
    heads: np.ndarray, tails: np.ndarray, n: int, *, effort: float = 1.0, complete: bool = False
) -> RoundingRank:
    """Bounds on the rounding rank of the facts (heads[i], tails[i]) among ``n`` entities.

    ``effort`` scales the time of the search for a low upper bound.  With ``complete``, the search
    goes on to higher ranks until there are certified factors.
    """
    if not 0 < effort < float("inf"):
        raise ConfigError(f"effort must be a positive number, not {effort}")
    search = _Search(heads, tails, n, effort)
    matrix = search.matrix
    if not matrix.shape[0]:
        return search.done(0, 0, search.certified((np.zeros((0, 0)), np.zeros((0, 0)))), None)
    simple = rank_one_factors(matrix)
    if simple is not None:
        return search.done(1, 1, search.certified(simple), None)
    lower = max(2, shattered(matrix, n), shattered(matrix.transposed, n))
    exact = search.exact_certificate()
    upper = min(exact.rank, *matrix.shape)
    assert lower <= upper
    return search.enclose(lower, upper, exact, complete)


def rank_one_factors(matrix: BooleanMatrix) -> tuple[np.ndarray, np.ndarray] | None:
    """Factors with one column, or None where there are none.

    They exist exactly if there are at most two blocks and both are nested: of two rows, one holds
    the other.  Positive numbers serve one block, negative ones the other.
    """
    number = matrix.n_blocks
    if number > 2:
        return None
    left, right = np.zeros((matrix.shape[0], 1)), np.zeros((matrix.shape[1], 1))
    place = np.empty(matrix.shape[1], dtype=np.int64)
    for block in range(number):
        columns = np.flatnonzero(matrix.column_block == block)
        by_size = columns[np.argsort(-matrix.columns.sizes[columns], kind="stable")]
        place[by_size] = np.arange(len(by_size))
        sign = 1 - 2 * block
        right[by_size, 0] = sign / (2 * np.arange(len(by_size)) + 1)
        rows = np.flatnonzero(matrix.row_block == block)
        left[rows, 0] = sign * matrix.rows.sizes[rows]
    farthest = np.maximum.reduceat(place[matrix.rows.items], matrix.rows.start[:-1])
    return (left, right) if (farthest == matrix.rows.sizes - 1).all() else None


class _Search:
    """The search for factors of one relation, and what it has found so far."""

    def __init__(self, heads: np.ndarray, tails: np.ndarray, n: int, effort: float):
        self.heads, self.tails, self.n, self.effort = heads, tails, n, effort
        self.matrix = BooleanMatrix.of(heads, tails, n)
        self.sides = self.matrix, self.matrix.transposed
        self.work = effort * _WORK
        self.solved: dict[int, LocalFactors] = {}

    # -- orders ------------------------------------------------------------------------------------

    @cached_property
    def orders(self) -> list[np.ndarray]:
        """For each side, an order of the columns with few intervals per row."""
        ones = len(self.matrix.rows.items)
        work = int(self.effort * min(_LEAST_MOVES + _MOVES * ones, _MOST_MOVES))
        return [few_intervals(side, work) for side in self.sides]

    @cached_property
    def counts(self) -> list[np.ndarray]:
        """For each side, the number of intervals of each row."""
        return [count_intervals(*pair) for pair in zip(self.sides, self.orders, strict=True)]

    @cached_property
    def blocks(self) -> tuple[Intervals, ...]:
        """The intervals of each block, on the side where its cost is lower."""
        found = [block_costs(*pair) for pair in zip(self.sides, self.counts, strict=True)]
        rows = [_by_block(side.row_block, np.arange(side.shape[0])) for side in self.sides]
        columns = [
            _by_block(side.column_block, order)
            for side, order in zip(self.sides, self.orders, strict=True)
        ]
        chosen = (found[1][0] < found[0][0]).astype(int).tolist()
        return tuple(
            Intervals.of(self.sides[s], bool(s), rows[s][b], columns[s][b], int(found[s][1][b]))
            for b, s in enumerate(chosen)
        )

    def exact_certificate(self) -> IntervalCertificate:
        """The exact proof of an upper bound, by orders of columns."""
        found = IntervalCertificate(self.n, self.matrix.row_of, self.matrix.column_of, self.blocks)
        assert found.holds(self.heads, self.tails)
        return found

    # -- factors -----------------------------------------------------------------------------------

    def enclose(
        self, lower: int, upper: int, exact: IntervalCertificate, complete: bool
    ) -> RoundingRank:
        """Bisect the ranks between the bounds, as if success were monotone in the rank.

        Failure takes longer than success, so the rank tried is above the middle.
        """
        low, high = lower, upper
        best: Factors | None = None
        while low <= high:
            rank = (low + 3 * high) // 4
            found = self.factors(rank)
            if found is None:
                low = rank + 1
            else:
                best, upper = found, found.rank
                high = upper - 1
        rank, most = upper, min(self.matrix.shape)
        while best is None and complete and rank < most:
            rank += 1 + rank // 4
            self.work = self.effort * _WORK
            best = self.factors(rank)
        if best is None and (complete or upper == most):
            best = self.certified(_plain(self.matrix))
        return self.done(lower, upper, best, exact)

    def factors(self, rank: int) -> Factors | None:
        """Certified factors of this rank or less, if they are found."""
        if self.on_circle is not None and self.on_circle.rank <= rank:
            return self.on_circle
        return self.certified(self._on_sphere(rank))

    @cached_property
    def on_circle(self) -> Factors | None:
        """Certified factors from one order of all columns, on the better side."""
        costs = [least_cost(counts) for counts in self.counts]
        for s in (0, 1) if costs[0] <= costs[1] else (1, 0):
            found = circle_factors(self.sides[s], self.orders[s], costs[s][1])
            factors = self.certified(found[::-1] if found and s else found)
            if factors is not None:
                return factors
        return None

    def _on_sphere(self, rank: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Factors block by block: from its intervals where these are single, else by descent."""
        parts: list[Part] = []
        hard = [b for b, block in enumerate(self.blocks) if block.rank > 2]
        for b in sorted(hard, key=lambda b: -len(self.blocks[b].rows)):  # the worst fails first
            block = self.matrix.block(b)
            found = self._block_factors(b, block, rank - 1)
            if found is None:
                return None
            parts.append(Solved(block, found))
        parts += [block for block in self.blocks if block.rank <= 2]
        return sphere_factors(parts, self.matrix.shape, rank)

    def _block_factors(self, b: int, block: Block, dim: int) -> LocalFactors | None:
        """Factors of one block by descent, within what is left of the work."""
        known = self.solved.get(b)
        if known is not None and known.left.shape[1] <= dim:
            return known
        n, m = len(block.rows), len(block.columns)
        drawing, evaluation = _DRAWING * (n + m) ** 2, n * m * (dim + 4)  # multiplications
        for seed in range(_SEEDS):
            most = min(_EVALUATIONS, int((self.work - drawing) / evaluation))
            if most < _LEAST_EVALUATIONS or drawing > self.work / 4:
                return None
            found = factorise(block.rows, block.columns, dim, evaluations=most, seed=seed)
            self.work -= drawing + found.evaluations * evaluation
            if found.factors is not None:
                self.solved[b] = found.factors
                return found.factors
            if found.loss > _HOPELESS:
                return None
        return None

    # -- results -----------------------------------------------------------------------------------

    def certified(self, found: tuple[np.ndarray, np.ndarray] | None) -> Factors | None:
        """Factors of the distinct rows and columns → of all entities, if they pass their check."""
        if found is None:
            return None
        # Entities without facts have the number −1: that of a last row of zeros.
        left, right = (np.pad(table, ((0, 1), (0, 0))) for table in found)
        factors = Factors(left[self.matrix.row_of], right[self.matrix.column_of], 0.5)
        return factors if margin_over_error(factors, self.heads, self.tails) > 1 else None

    def done(
        self, lower: int, upper: int, factors: Factors | None, exact: IntervalCertificate | None
    ) -> RoundingRank:
        """The result."""
        margin = float("nan")
        if factors is not None:
            margin = margin_over_error(factors, self.heads, self.tails)
        return RoundingRank(lower, upper, factors, margin, exact)


def _plain(matrix: BooleanMatrix) -> tuple[np.ndarray, np.ndarray]:
    """The matrix itself as a product: a coordinate for every row, or for every column."""
    ones = matrix.dense().astype(np.float64)
    n, m = matrix.shape
    return (np.eye(n), ones.T) if n <= m else (ones, np.eye(m))


def _by_block(block: np.ndarray, order: np.ndarray) -> list[np.ndarray]:
    """The numbers in each block, in the given order."""
    by_block = order[np.argsort(block[order], kind="stable")]
    return np.split(by_block, np.cumsum(np.bincount(block))[:-1])


# -- lower bound -----------------------------------------------------------------------------------


def shattered(matrix: BooleanMatrix, n: int) -> int:
    """The size of the largest shattered set of columns that a short search finds.

    ``n`` is the number of all rows, zeros and repetitions included.
    """
    if not matrix.shape[0]:
        return 0
    zero_row = bool(n > np.count_nonzero(matrix.row_of >= 0))
    n_rows = matrix.shape[0] + zero_row
    everything = (1 << n_rows) - 1
    sizes = matrix.columns.sizes
    found, checks = 0, _CHECKS
    for first in np.argsort(-sizes, kind="stable")[:_STARTS].tolist():
        rows = matrix.columns[first]
        counts = np.bincount(matrix.rows.take(rows[:_CHECKS]).items, minlength=len(sizes))
        counts[first] = 0
        chosen = [c for c in np.argsort(-counts, kind="stable")[:_COLUMNS].tolist() if counts[c]]
        masks = [_mask(matrix.columns[c]) for c in chosen]
        own = _mask(rows)
        classes = [own, everything & ~own]
        if not classes[1]:
            continue
        size, checks = _extend(classes, masks, 0, 1, found, checks)
        found = max(found, size)
        if checks <= 0:
            break
    return found


def _mask(rows: np.ndarray) -> int:
    """A set of rows as the bits of an integer."""
    bits = np.zeros(int(rows.max()) + 1, dtype=np.uint8)
    bits[rows] = 1
    return int.from_bytes(np.packbits(bits, bitorder="little").tobytes(), "little")


def _extend(
    classes: list[int], masks: list[int], start: int, size: int, best: int, checks: int
) -> tuple[int, int]:
    """Split every class of rows by one more column, as long as no part is empty.

    Return the size of the largest shattered set, and how many checks are left.
    """
    best = max(best, size)
    for k in range(start, len(masks)):
        if checks <= 0:
            break
        checks -= 1
        mask, parts = masks[k], []
        for rows in classes:
            inside = rows & mask
            if not inside or inside == rows:
                break
            parts += [inside, rows ^ inside]
        else:
            best, checks = _extend(parts, masks, k + 1, size + 1, best, checks)
    return best, checks
