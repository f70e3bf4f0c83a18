"""One relation as a Boolean matrix: its distinct rows and columns, and its connected blocks.

In a decomposition, entities without facts can have zero vectors, and entities with the same facts
the same vector.  So only the distinct non-zero rows and columns need one.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from bilink.errors import DataError


@dataclass(frozen=True, eq=False)
class Lists:
    """Lists of integers end to end: list i is ``items[start[i] : start[i + 1]]``, sorted."""

    start: np.ndarray  # int64
    items: np.ndarray  # int32

    def __len__(self) -> int:
        return len(self.start) - 1

    def __getitem__(self, i: int) -> np.ndarray:
        return self.items[self.start[i] : self.start[i + 1]]

    @cached_property
    def sizes(self) -> np.ndarray:
        """The length of each list."""
        return np.diff(self.start)

    @property
    def owner(self) -> np.ndarray:
        """The list that each item is in."""
        return np.repeat(np.arange(len(self), dtype=np.int32), self.sizes)

    def take(self, chosen: np.ndarray) -> "Lists":
        """The chosen lists, in this order."""
        sizes = self.sizes[chosen]
        start = np.append(0, np.cumsum(sizes))
        places = np.arange(start[-1]) + np.repeat(self.start[chosen] - start[:-1], sizes)
        return Lists(start, self.items[places])

    def intervals(self, order: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The intervals that each list forms in an order of the items: list, first, last place."""
        place = np.empty(int(order.max(initial=-1)) + 1, dtype=np.int64)
        place[order] = np.arange(len(order))
        owner, places = self.owner, place[self.items]
        places = places[np.lexsort((places, owner))]
        begins = np.ones(len(owner), dtype=bool)
        begins[1:] = (np.diff(owner) != 0) | (np.diff(places) > 1)
        first = np.flatnonzero(begins)
        return owner[first], places[first], places[np.append(first[1:], len(owner)) - 1]

    @classmethod
    def of(cls, owner: np.ndarray, items: np.ndarray, n: int) -> "Lists":
        """``n`` lists from pairs of owner and item."""
        order = np.lexsort((items, owner))
        start = np.zeros(n + 1, dtype=np.int64)
        np.cumsum(np.bincount(owner, minlength=n), out=start[1:])
        return cls(start, np.ascontiguousarray(items[order], dtype=np.int32))


@dataclass(frozen=True, eq=False)
class Block:
    """A connected part of a Boolean matrix: some of its rows and columns, numbered anew."""

    row_ids: np.ndarray
    column_ids: np.ndarray
    rows: Lists
    columns: Lists


@dataclass(frozen=True, eq=False)
class BooleanMatrix:
    """The distinct non-zero rows and columns of a relation, and its connected blocks."""

    row_of: np.ndarray  # int32 of every entity, -1 for one that is never a head
    column_of: np.ndarray  # the same for tails
    rows: Lists  # the columns where a row is 1
    columns: Lists  # the rows where a column is 1
    n_blocks: int
    row_block: np.ndarray  # the block of each row
    column_block: np.ndarray

    @classmethod
    def of(cls, heads: np.ndarray, tails: np.ndarray, n: int) -> "BooleanMatrix":
        """The matrix of the facts (heads[i], tails[i]) among ``n`` entities."""
        heads, tails = distinct_facts(heads, tails, n)
        row_of = _classes(Lists.of(heads, tails, n))
        column_of = _classes(Lists.of(tails, heads, n))
        n_rows, n_columns = (int(ids.max(initial=-1)) + 1 for ids in (row_of, column_of))
        cells = np.unique(row_of[heads].astype(np.int64) * max(n_columns, 1) + column_of[tails])
        owner, items = np.divmod(cells, max(n_columns, 1))
        rows, columns = Lists.of(owner, items, n_rows), Lists.of(items, owner, n_columns)
        number, labels = 0, np.empty(0, dtype=np.int32)
        if n_rows:
            number, labels = csgraph.connected_components(bipartite(rows, columns), directed=False)
        return cls(row_of, column_of, rows, columns, number, labels[:n_rows], labels[n_rows:])

    @property
    def shape(self) -> tuple[int, int]:
        """Distinct rows, distinct columns."""
        return len(self.rows), len(self.columns)

    @property
    def transposed(self) -> "BooleanMatrix":
        """Heads and tails exchanged; the blocks keep their numbers."""
        return BooleanMatrix(
            self.column_of,
            self.row_of,
            self.columns,
            self.rows,
            self.n_blocks,
            self.column_block,
            self.row_block,
        )

    def block(self, number: int) -> "Block":
        """The rows and columns of one connected block."""
        row_ids = np.flatnonzero(self.row_block == number)
        column_ids = np.flatnonzero(self.column_block == number)
        rows = self.rows.take(row_ids)
        rows = Lists(rows.start, np.searchsorted(column_ids, rows.items).astype(np.int32))
        columns = Lists.of(rows.items, rows.owner, len(column_ids))
        return Block(row_ids, column_ids, rows, columns)

    def dense(self) -> np.ndarray:
        """The distinct rows and columns as a Boolean array."""
        result = np.zeros(self.shape, dtype=bool)
        result[self.rows.owner, self.rows.items] = True
        return result


def bipartite(rows: Lists, columns: Lists) -> sparse.csr_matrix:
    """The graph whose vertices are the rows, then the columns, with an edge for every 1."""
    n, m = len(rows), len(columns)
    start = np.concatenate([rows.start, rows.start[-1] + columns.start[1:]])
    items = np.concatenate([rows.items + np.int32(n), columns.items])
    ones = np.ones(len(items), dtype=np.int8)
    return sparse.csr_matrix((ones, items, start), shape=(n + m, n + m))


def distinct_facts(heads: np.ndarray, tails: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The facts without repetitions, sorted; ids out of range are refused."""
    heads, tails = np.asarray(heads), np.asarray(tails)
    for ids in (heads, tails):
        if ids.ndim != 1 or not (np.issubdtype(ids.dtype, np.integer) or ids.size == 0):
            raise DataError("facts are two lists of whole numbers, the heads and the tails")
    if len(heads) != len(tails):
        raise DataError(f"there are {len(heads):,} heads but {len(tails):,} tails")
    for ids in (heads, tails):
        if len(ids) and not (ids.min() >= 0 and ids.max() < n):
            raise DataError(f"a fact names an entity outside of 0 … {n - 1:,}")
    cells = np.unique(heads.astype(np.int64) * max(n, 1) + tails)
    heads, tails = np.divmod(cells, max(n, 1))
    return heads, tails


def _classes(lists: Lists) -> np.ndarray:
    """Number the distinct non-empty lists; -1 for empty ones."""
    numbers: dict[bytes, int] = {}
    text = lists.items.tobytes()
    width = lists.items.itemsize
    start = (lists.start * width).tolist()
    result = np.full(len(lists), -1, dtype=np.int32)
    for i in np.flatnonzero(lists.sizes).tolist():
        result[i] = numbers.setdefault(text[start[i] : start[i + 1]], len(numbers))
    return result
