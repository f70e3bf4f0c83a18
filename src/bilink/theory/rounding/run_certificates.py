"""Exact certificates: orders of columns with few runs in every row, checked with integers."""

from dataclasses import dataclass

import numpy as np

from bilink._jit import kernel, kernel_function
from bilink.theory.rounding.boolean import BooleanMatrix, Lists, distinct_facts


@dataclass(frozen=True, eq=False)
class BlockRuns:
    """A block of a relation, with the runs of its rows in an order of its columns.

    The runs of row i are those from offset[i] to offset[i + 1]; each covers the places from first
    to last.
    Rows whose ``apart`` is true are given a coordinate of their own instead.
    """

    transposed: bool  # rows are tails
    rows: np.ndarray  # numbers in the relation's matrix
    columns: np.ndarray  # the same, in order
    offset: np.ndarray
    first: np.ndarray
    last: np.ndarray
    apart: np.ndarray

    @property
    def rank(self) -> int:
        """2c + h: c runs at most, h rows apart."""
        runs = np.diff(self.offset)[~self.apart]
        return 2 * int(runs.max(initial=0)) + int(self.apart.sum())


@kernel_function
def _sign(place, offset, first, last, row):
    """The sign of −∏ (2t − (2s − 1)) (2t − (2e + 1)) over the row's runs [s, e], at t = place."""
    sign = -1
    for k in range(offset[row], offset[row + 1]):
        x = 2 * place - (2 * first[k] - 1)
        y = 2 * place - (2 * last[k] + 1)
        if (x < 0) != (y < 0):
            sign = -sign
    return sign


@kernel
def wrong_signs(offset, first, last, apart, start, items, n_columns):
    """How many entries of a block its polynomials get wrong; ``items`` are places, sorted."""
    wrong = 0
    for i in range(apart.shape[0]):
        if apart[i]:
            continue
        p = start[i]
        for t in range(n_columns):
            fact = p < start[i + 1] and items[p] == t
            if fact:
                p += 1
            if (_sign(t, offset, first, last, i) > 0) != fact:
                wrong += 1
    return wrong


@dataclass(frozen=True, eq=False)
class RunsCertificate:
    """An exact proof of an upper bound on the rounding rank: blocks, orders, ends of runs.

    In a block with at most c runs per row, put the columns at t = 0, 1, 2, …  The polynomial
    −(t² + 1)^(c − c') ∏ (t − s + ½)(t − e − ½) over the c' runs [s, e] of a row is positive exactly
    on the row's ones, and −t^2c + lower terms: aᵢ + bⱼ + 2c − 1 products.  A row apart takes one
    product more, which is large on its ones.  Now let v be another point of the unit sphere in 2c
    (+ h) dimensions for each block, and K large: the row √K v + aᵢ v/√K + Lᵢ and the column
    √K v + bⱼ v/√K + Qⱼ, L and Q tangent to the sphere at v, have a product above K exactly on the
    facts, because two blocks' K⟨v, v'⟩ is less than K by a multiple of K.
    """

    n: int  # entities
    row_of: np.ndarray
    column_of: np.ndarray
    blocks: tuple[BlockRuns, ...]

    @property
    def rank(self) -> int:
        """The rank that is proved to be enough."""
        several = len(self.blocks) > 1
        return max((b.rank + (several and bool(b.apart.all())) for b in self.blocks), default=0)

    def holds(self, heads: np.ndarray, tails: np.ndarray) -> bool:
        """Whether the certificate proves its rank for just these facts; every entry is checked."""
        heads, tails = distinct_facts(heads, tails, self.n)
        rows, columns = self.row_of[heads], self.column_of[tails]
        if (rows < 0).any() or (columns < 0).any():
            return False
        width = int(self.column_of.max(initial=-1)) + 1
        cells, counts = np.unique(rows.astype(np.int64) * width + columns, return_counts=True)
        owner, items = np.divmod(cells, max(width, 1))
        copies_of_row = np.bincount(self.row_of[self.row_of >= 0])
        copies_of_column = np.bincount(self.column_of[self.column_of >= 0])
        if (counts != copies_of_row[owner] * copies_of_column[items]).any():
            return False
        found = 0
        matrix = Lists.of(owner, items, len(copies_of_row))
        twin = Lists.of(items, owner, len(copies_of_column))
        place = np.full(max(len(copies_of_row), len(copies_of_column)), -1, dtype=np.int64)
        for block in self.blocks:
            source = twin if block.transposed else matrix
            sizes = source.sizes[block.rows]
            found += int(sizes.sum())
            place[block.columns] = np.arange(len(block.columns))
            ones = place[np.concatenate([source[i] for i in block.rows.tolist()])]
            place[block.columns] = -1
            if (ones < 0).any():  # a fact across two blocks
                return False
            lists = Lists.of(np.repeat(np.arange(len(sizes)), sizes), ones, len(sizes))
            if wrong_signs(
                block.offset,
                block.first,
                block.last,
                block.apart,
                lists.start,
                lists.items,
                len(block.columns),
            ):
                return False
        return found == len(cells)


def block_runs(
    matrix: BooleanMatrix,
    transposed: bool,
    rows: np.ndarray,
    columns: np.ndarray,
    most: int,
) -> BlockRuns:
    """The runs of ``rows`` in the order ``columns``; rows with more than ``most`` go apart."""
    place = np.full(matrix.shape[1], -1, dtype=np.int64)
    place[columns] = np.arange(len(columns))
    offset, first, last, apart = [0], [], [], []
    for row in rows.tolist():
        places = np.sort(place[matrix.rows[row]])
        breaks = np.flatnonzero(np.diff(places) > 1)
        many = len(breaks) + 1 > most
        if not many:
            first.append(places[np.append(0, breaks + 1)])
            last.append(places[np.append(breaks, len(places) - 1)])
        apart.append(many)
        offset.append(offset[-1] + (0 if many else len(breaks) + 1))
    empty = np.empty(0, dtype=np.int64)
    return BlockRuns(
        transposed,
        rows,
        columns,
        np.array(offset, dtype=np.int64),
        np.concatenate(first) if first else empty,
        np.concatenate(last) if last else empty,
        np.array(apart, dtype=bool),
    )
