"""The rounding rank of a relation: how many dimensions tell its facts from its non-facts.

The rounding rank of a Boolean matrix is the least rank of a real matrix that is above ½ exactly
where it is true (Wang et al., 2018).  Computing it is hard (complete for the existential theory of
the reals), so it is enclosed: from below by shattered sets, from above by factors in float64 whose
every entry is checked, or by an order of columns that is checked with integers.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bilink.errors import ConfigError
from bilink.theory.factors import Factors
from bilink.theory.rounding.boolean import Block, BooleanMatrix
from bilink.theory.rounding.certificates import margin_over_error
from bilink.theory.rounding.circle import circle_factors
from bilink.theory.rounding.hinge import LocalFactors, factorise
from bilink.theory.rounding.ordering import block_costs, few_runs, least_cost, runs_of
from bilink.theory.rounding.run_certificates import BlockRuns, RunsCertificate, block_runs
from bilink.theory.rounding.shattering import shattered
from bilink.theory.rounding.sphere import Intervals, Part, Solved, sphere_factors

_MOVES, _LEAST_MOVES, _MOST_MOVES = 20_000, 10_000_000, 200_000_000  # per fact and in all
_WORK = 5.0e9  # numbers that all descents on one relation multiply
_EVALUATIONS, _LEAST_EVALUATIONS = 1000, 50  # of all entries of a block, in one descent
_SEEDS = 3  # descents on a block
_HOPELESS = 30.0  # a loss at the end of a descent that another seed will not mend
_DRAWING = 200  # a drawing takes as long as multiplying so many times (rows + columns)² numbers


@dataclass(frozen=True, eq=False)
class RoundingRank:
    """Bounds on the rounding rank of one relation, with what proves the upper one."""

    lower: int
    upper: int
    factors: Factors | None  # certified in float64; its rank may be above ``upper``, or it is None
    margin_over_error: float  # of the factors, above 1; NaN without factors
    runs: RunsCertificate | None  # exact; None for a relation of rank 0 or 1

    @property
    def certified_rank(self) -> int | None:
        """The rank of the certified factors."""
        return None if self.factors is None else self.factors.left.shape[1]


def rounding_rank(
    heads: np.ndarray, tails: np.ndarray, n: int, *, effort: float = 1.0, complete: bool = False
) -> RoundingRank:
    """Bounds on the rounding rank of the facts (heads[i], tails[i]) among ``n`` entities.

    ``effort`` scales how long is searched for a low upper bound.  ``complete`` goes
    on to higher ranks until there are certified factors.
    """
    if not 0 < effort < float("inf"):
        raise ConfigError(f"effort must be a positive number, not {effort}")
    search = _Search(heads, tails, n, effort)
    matrix = search.matrix
    if not matrix.shape[0]:
        return search.done(0, 0, search.spread(np.zeros((0, 0)), np.zeros((0, 0))), None)
    simple = rank_one_factors(matrix)
    if simple is not None:
        return search.done(1, 1, search.spread(*simple), None)
    lower = max(2, shattered(matrix, n), shattered(matrix.transposed, n))
    runs = search.runs_certificate()
    upper = min(runs.rank, *matrix.shape)
    assert lower <= upper
    return search.enclose(lower, upper, runs, complete)


def rank_one_factors(matrix: BooleanMatrix) -> tuple[np.ndarray, np.ndarray] | None:
    """Factors with one column, or None where there are none.

    They exist exactly if there are at most two blocks and both are nested: the larger of two rows
    holds the smaller one.  Positive numbers serve one block, negative ones the other.
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
    """What is known about one relation while better factors are looked for."""

    def __init__(self, heads: np.ndarray, tails: np.ndarray, n: int, effort: float):
        self.heads, self.tails, self.n, self.effort = heads, tails, n, effort
        self.matrix = BooleanMatrix.of(heads, tails, n)
        self.work = effort * _WORK
        self.solved: dict[int, LocalFactors] = {}

    # -- orders ------------------------------------------------------------------------------------

    @cached_property
    def sides(self) -> tuple[BooleanMatrix, BooleanMatrix]:
        """The matrix, and its rows and columns exchanged."""
        return self.matrix, self.matrix.transposed

    @cached_property
    def orders(self) -> list[np.ndarray]:
        """For each side, an order of the columns with few runs per row."""
        ones = len(self.matrix.rows.items)
        work = int(self.effort * min(_LEAST_MOVES + _MOVES * ones, _MOST_MOVES))
        return [few_runs(side, work) for side in self.sides]

    @cached_property
    def runs(self) -> list[np.ndarray]:
        """For each side, the number of runs of each row."""
        return [runs_of(*pair) for pair in zip(self.sides, self.orders, strict=True)]

    @cached_property
    def blocks(self) -> tuple[BlockRuns, ...]:
        """The runs of each block on the side where it costs less."""
        found = [block_costs(*pair) for pair in zip(self.sides, self.runs, strict=True)]
        number = self.matrix.n_blocks
        rows = [members(side.row_block, number) for side in self.sides]
        columns = [
            members(side.column_block, number, order)
            for side, order in zip(self.sides, self.orders, strict=True)
        ]
        chosen = (found[1][0] < found[0][0]).astype(int).tolist()
        return tuple(
            block_runs(self.sides[s], bool(s), rows[s][b], columns[s][b], int(found[s][1][b]))
            for b, s in enumerate(chosen)
        )

    def runs_certificate(self) -> RunsCertificate:
        """The exact proof of an upper bound, by orders of columns."""
        found = RunsCertificate(self.n, self.matrix.row_of, self.matrix.column_of, self.blocks)
        assert found.holds(self.heads, self.tails)
        return found

    # -- factors -----------------------------------------------------------------------------------

    def enclose(
        self, lower: int, upper: int, runs: RunsCertificate, complete: bool
    ) -> RoundingRank:
        """Narrow the range of ranks between the bounds, as if success were monotone in the rank.

        Failure takes longer than success, so ranks are tried from above rather than in the middle.
        """
        low, high = lower, upper
        best: Factors | None = None
        while low <= high:
            rank = (low + 3 * high) // 4
            found = self.factors(rank)
            if found is None:
                low = rank + 1
            else:
                best, upper = found, found.left.shape[1]
                high = upper - 1
        rank, most = upper, min(self.matrix.shape)
        while best is None and complete and rank < most:
            rank += 1 + rank // 4
            self.work = self.effort * _WORK
            best = self.factors(rank)
        if best is None and (complete or upper == most):
            best = self.spread(*_plain(self.matrix))
        return self.done(lower, upper, best, runs)

    def factors(self, rank: int) -> Factors | None:
        """Certified factors of this rank or less, if they are found."""
        circle = self.on_circle
        if circle is not None and circle.left.shape[1] <= rank:
            return circle
        found = self._on_sphere(rank)
        if found is not None:
            factors = self.spread(*found)
            if margin_over_error(factors, self.heads, self.tails) > 1:
                return factors
        return None

    @cached_property
    def on_circle(self) -> Factors | None:
        """Certified factors from one order of all columns, on the better side."""
        costs = [least_cost(runs) for runs in self.runs]
        for s in (0, 1) if costs[0] <= costs[1] else (1, 0):
            found = circle_factors(self.sides[s], self.orders[s], costs[s][1])
            if found is not None:
                factors = self.spread(*(found if s == 0 else found[::-1]))
                if margin_over_error(factors, self.heads, self.tails) > 1:
                    return factors
        return None

    def _on_sphere(self, rank: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Each block for itself: by intervals where single runs do, else by descent."""
        parts: list[Part] = []
        hard = [b for b, block in enumerate(self.blocks) if block.rank > 2]
        for b in sorted(hard, key=lambda b: -len(self.blocks[b].rows)):  # the worst fails first
            block = self.matrix.block(b)
            found = self._block_factors(b, block, rank - 1)
            if found is None:
                return None
            parts.append(Solved(block, found))
        parts += [intervals(block) for block in self.blocks if block.rank <= 2]
        return sphere_factors(parts, self.matrix.shape, rank)

    def _block_factors(self, b: int, block: Block, dim: int) -> LocalFactors | None:
        known = self.solved.get(b)
        if known is not None and known.left.shape[1] <= dim:
            return known
        n, m = block.shape
        drawing, look = _DRAWING * (n + m) ** 2, n * m * (dim + 4)
        for seed in range(_SEEDS):
            most = min(_EVALUATIONS, int((self.work - drawing) / look))
            if most < _LEAST_EVALUATIONS or drawing > self.work / 4:
                return None
            found = factorise(block.rows, block.columns, dim, evaluations=most, seed=seed)
            self.work -= drawing + found.evaluations * look
            if found.factors is not None:
                self.solved[b] = found.factors
                return found.factors
            if found.loss > _HOPELESS:
                return None
        return None

    # -- results -----------------------------------------------------------------------------------

    def spread(self, left: np.ndarray, right: np.ndarray) -> Factors:
        """Factors of the distinct rows and columns → of all entities."""
        return Factors(
            _spread(left, self.matrix.row_of), _spread(right, self.matrix.column_of), 0.5
        )

    def done(
        self, lower: int, upper: int, factors: Factors | None, runs: RunsCertificate | None
    ) -> RoundingRank:
        """The result; factors that do not pass their check are dropped."""
        margin = float("nan")
        if factors is not None:
            margin = margin_over_error(factors, self.heads, self.tails)
            if margin <= 1:
                factors, margin = None, float("nan")
        return RoundingRank(lower, upper, factors, margin, runs)


def _plain(matrix: BooleanMatrix) -> tuple[np.ndarray, np.ndarray]:
    """The matrix itself as a product: a coordinate for every row, or for every column."""
    ones = matrix.dense().astype(np.float64)
    n, m = matrix.shape
    return (np.eye(n), ones.T) if n <= m else (ones, np.eye(m))


def _spread(table: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    result = np.zeros((len(numbers), table.shape[1]))
    result[numbers >= 0] = table[numbers[numbers >= 0]]
    return result


def members(block: np.ndarray, number: int, order: np.ndarray | None = None) -> list[np.ndarray]:
    """The numbers in each block, in the given order."""
    order = np.arange(len(block)) if order is None else order
    by_block = order[np.argsort(block[order], kind="stable")]
    ends = np.cumsum(np.bincount(block, minlength=number))[:-1]
    return np.split(by_block, ends)


def intervals(block: BlockRuns) -> Intervals:
    """A block of single runs."""
    return Intervals(block.transposed, block.columns, block.rows, block.first, block.last)
