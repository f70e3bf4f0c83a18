"""Orders of columns in which the ones of every row stand in few runs.

Two ones of a row that are neighbours in the order are a *join*; a row with d ones and j joins has
d − j runs.  So an order with at most c runs per row is one in which every row of d ones has d − c
joins, and columns that share no row may stand anywhere.
"""

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from bilink._jit import kernel, kernel_function
from bilink.theory.rounding.boolean import BooleanMatrix, bipartite

_SPECTRAL = 400  # columns up to which the eigenvector of the Laplacian is worth its cube
_TEMPERATURE = 0.25
_CALL = 10_000_000  # of work between two looks at the best order so far


@kernel_function
def _change_joins(x, y, sign, start, items, joins, needed, waiting, place, count):
    """Add (or take away) the join of columns x and y in the rows of both; return what it costs.

    ``waiting[: count[0]]`` are the rows that lack joins, ``place`` says where each one stands.
    """
    cost = 0
    if x < 0 or y < 0:
        return cost
    i, j = start[x], start[y]
    while i < start[x + 1] and j < start[y + 1]:
        if items[i] < items[j]:
            i += 1
        elif items[i] > items[j]:
            j += 1
        else:
            row = items[i]
            lacked = joins[row] < needed[row]
            joins[row] += sign
            lacks = joins[row] < needed[row]
            if lacked and sign > 0:
                cost -= 1
            if lacks and sign < 0:
                cost += 1
            if lacks and not lacked:
                waiting[count[0]] = row
                place[row] = count[0]
                count[0] += 1
            elif lacked and not lacks:
                count[0] -= 1
                last = waiting[count[0]]
                waiting[place[row]] = last
                place[last] = place[row]
            i += 1
            j += 1
    return cost


@kernel_function
def _at(order, k):
    """The column at place k; -1 beyond the ends."""
    return order[k] if 0 <= k < order.shape[0] else -1


@kernel_function
def _reverse(order, position, i, j):
    """Reverse order[i : j + 1]."""
    while i < j:
        x, y = order[i], order[j]
        order[i], order[j] = y, x
        position[y], position[x] = i, j
        i += 1
        j -= 1


@kernel_function
def _shift(order, position, i, j):
    """Move the column at place i to place j, and those between by one."""
    x = order[i]
    step = 1 if j > i else -1
    for k in range(i, j, step):
        order[k] = order[k + step]
        position[order[k]] = k
    order[j] = x
    position[x] = j


@kernel_function
def _random(state):
    """The next of Marsaglia's xorshift numbers."""
    x = state[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    state[0] = x
    return x


@kernel_function
def _below(state, n):
    """A random number from 0 to n − 1."""
    return np.int64((_random(state) >> np.uint64(11)) % np.uint64(n))


@kernel_function
def _set(pairs, k, x, y):
    """pairs[k] = x, y."""
    pairs[k, 0] = x
    pairs[k, 1] = y


@kernel
def count_joins(order, start, items, joins):
    """joins[row] = how many of its ones have the next one as neighbour."""
    for k in range(order.shape[0] - 1):
        x, y = order[k], order[k + 1]
        i, j = start[x], start[y]
        while i < start[x + 1] and j < start[y + 1]:
            if items[i] < items[j]:
                i += 1
            elif items[i] > items[j]:
                j += 1
            else:
                joins[items[i]] += 1
                i += 1
                j += 1


@kernel
def search_order(
    order, position, row_start, row_items, start, items, joins, needed, work, chances, state
):
    """Bring columns of rows that lack joins together, by moving one or reversing what is between.

    A move that makes the sum of missing joins greater by k is kept with probability chances[k].
    ``work`` is how much may be done, in units that take about a nanosecond.
    """
    n_rows = needed.shape[0]
    waiting = np.empty(n_rows, dtype=np.int32)
    place = np.empty(n_rows, dtype=np.int32)
    count = np.zeros(1, dtype=np.int64)
    for row in range(n_rows):
        if joins[row] < needed[row]:
            place[row] = count[0]
            waiting[count[0]] = row
            count[0] += 1
    pairs = np.empty((6, 2), dtype=np.int64)
    while work > 0 and count[0] > 0:
        row = waiting[_below(state, count[0])]
        first, size = row_start[row], row_start[row + 1] - row_start[row]
        x = row_items[first + _below(state, size)]
        y = row_items[first + _below(state, size)]
        i, j = position[x], position[y]
        work -= 100 + 20 * (start[x + 1] - start[x] + start[y + 1] - start[y])
        if abs(i - j) < 2:
            continue
        kind = _below(state, 4)
        if kind < 2 and i > j:
            i, j = j, i
        if kind == 0:  # x [… y] z → x [y …] z
            low, high = i + 1, j
        else:  # w [x …] y → w [… x] y
            low, high = i, j - 1
        if kind < 2:
            before, after = _at(order, low - 1), _at(order, high + 1)
            _set(pairs, 0, before, order[low])
            _set(pairs, 1, order[high], after)
            _set(pairs, 2, before, order[high])
            _set(pairs, 3, order[low], after)
            lost, used = 2, 4
        else:  # x goes before or after y
            side = 1 if kind == 2 else -1
            other = _at(order, j + side)
            _set(pairs, 0, _at(order, i - 1), x)
            _set(pairs, 1, x, _at(order, i + 1))
            _set(pairs, 2, y, other)
            _set(pairs, 3, _at(order, i - 1), _at(order, i + 1))
            _set(pairs, 4, y, x)
            _set(pairs, 5, x, other)
            lost, used = 3, 6
            if other == x:
                continue
        change = 0
        for k in range(used):
            sign = -1 if k < lost else 1
            change += _change_joins(
                pairs[k, 0], pairs[k, 1], sign, start, items, joins, needed, waiting, place, count
            )
        chance = chances[min(change, chances.shape[0] - 1)] if change > 0 else 1.0
        if chance < 1.0 and _below(state, 1 << 30) >= chance * (1 << 30):
            for k in range(used):
                sign = 1 if k < lost else -1
                _change_joins(
                    pairs[k, 0],
                    pairs[k, 1],
                    sign,
                    start,
                    items,
                    joins,
                    needed,
                    waiting,
                    place,
                    count,
                )
            continue
        work -= 2 * abs(i - j)
        if kind < 2:
            _reverse(order, position, low, high)
        elif side == 1:
            _shift(order, position, i, j if i < j else j + 1)
        else:
            _shift(order, position, i, j - 1 if i < j else j)


def runs_of(matrix: BooleanMatrix, order: np.ndarray) -> np.ndarray:
    """The number of runs of ones of each row."""
    joins = np.zeros(len(matrix.rows), dtype=np.int64)
    count_joins(order, matrix.columns.start, matrix.columns.items, joins)
    return matrix.rows.sizes - joins


def block_costs(matrix: BooleanMatrix, runs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each block the least 2c + h, where h rows have more than c runs and go apart; and c."""
    counts = np.zeros((matrix.n_blocks, int(runs.max(initial=1)) + 1), dtype=np.int64)
    np.add.at(counts, (matrix.row_block, runs), 1)
    above = counts.sum(axis=1, keepdims=True) - np.cumsum(counts, axis=1)
    costs = 2 * np.arange(counts.shape[1]) + above
    costs = costs[:, :0:-1]  # from the largest c, so that no row is apart at the same cost
    best = np.argmin(costs, axis=1)
    return costs[np.arange(len(costs)), best], counts.shape[1] - 1 - best


def least_cost(runs: np.ndarray) -> tuple[int, int]:
    """The same for all rows as if they were one block."""
    counts = np.bincount(runs, minlength=2)
    costs = (2 * np.arange(len(counts)) + len(runs) - np.cumsum(counts))[:0:-1]
    best = int(np.argmin(costs))
    return int(costs[best]), len(counts) - 1 - best


def first_order(matrix: BooleanMatrix) -> np.ndarray:
    """Columns by block, each block in the better of two classical orders.

    Reverse Cuthill-McKee keeps neighbours near; the second eigenvector of the Laplacian of shared
    rows finds an order with single runs where there is one (Atkins, Boman and Hendrickson, 1998).
    """
    n = len(matrix.rows)
    graph = bipartite(matrix.rows, matrix.columns)
    walk = csgraph.reverse_cuthill_mckee(graph, symmetric_mode=True)
    order = (walk[walk >= n] - n).astype(np.int64)
    order = order[np.argsort(matrix.column_block[order], kind="stable")]
    ends = np.flatnonzero(np.diff(matrix.column_block[order])) + 1
    parts = np.split(order, ends)
    for k, part in enumerate(parts):
        if 3 <= len(part) <= _SPECTRAL:
            parts[k] = _spectral(matrix, part)
    return better_blocks(matrix, order, np.concatenate(parts), 1)


def better_blocks(
    matrix: BooleanMatrix, order: np.ndarray, other: np.ndarray, target: int
) -> np.ndarray:
    """Each block from the better of two orders, which have the blocks at the same places.

    Better is to cost less, down to 2 · target; then fewer rows with more runs than that; then fewer
    runs.
    """
    number, row_block = matrix.n_blocks, matrix.row_block
    keys = []
    for runs in (runs_of(matrix, order), runs_of(matrix, other)):
        cost = np.maximum(block_costs(matrix, runs)[0], 2 * target)
        above = np.bincount(row_block[runs > target], minlength=number)
        keys.append(np.stack([cost, above, np.bincount(row_block, runs, number).astype(np.int64)]))
    less, same = np.zeros(number, dtype=bool), np.ones(number, dtype=bool)
    for one, another in zip(*keys, strict=True):
        less |= same & (another < one)
        same &= another == one
    return np.where(less[matrix.column_block[order]], other, order)


def _spectral(matrix: BooleanMatrix, part: np.ndarray) -> np.ndarray:
    """The columns of one block by the Laplacian's second eigenvector."""
    lists = [matrix.columns[c] for c in part.tolist()]
    rows = np.concatenate(lists)
    owner = np.repeat(np.arange(len(part)), [len(x) for x in lists])
    _, rows = np.unique(rows, return_inverse=True)
    cells = sparse.csr_array((np.ones(len(rows)), (owner, rows)))
    shared = (cells @ cells.T).toarray()
    laplacian = np.diag(shared.sum(axis=1)) - shared
    _, vectors = np.linalg.eigh(laplacian)
    return part[np.argsort(vectors[:, 1], kind="stable")]


def improve(
    matrix: BooleanMatrix, order: np.ndarray, target: int, work: int, seed: int = 0
) -> np.ndarray:
    """Look for an order with at most ``target`` runs per row; the best of those that were met."""
    columns, rows = matrix.columns, matrix.rows
    order, position = order.copy(), np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    needed = np.maximum(rows.sizes - target, 0)
    joins = rows.sizes - runs_of(matrix, order)
    state = np.array([seed * 2 + 0x9E3779B97F4A7C15], dtype=np.uint64)
    chances = np.exp(-np.arange(8) / _TEMPERATURE)
    best, fewest = order.copy(), int(np.count_nonzero(joins < needed))
    while work > 0 and fewest:
        search_order(
            order,
            position,
            rows.start,
            rows.items,
            columns.start,
            columns.items,
            joins,
            needed,
            min(work, _CALL),
            chances,
            state,
        )
        work -= _CALL
        lacking = int(np.count_nonzero(joins < needed))
        if lacking < fewest:
            best, fewest = order.copy(), lacking
    return best


def few_runs(matrix: BooleanMatrix, work: int) -> np.ndarray:
    """An order of the columns, block by block, that costs each block little.

    ``work`` is spent several times, for ever fewer runs.
    """
    order, step = first_order(matrix), 4
    while True:
        cost, most = block_costs(matrix, runs_of(matrix, order))
        least = int(most[cost == cost.max()].max())
        if least < 2:
            return order
        target = least - max(1, least // step)
        found = improve(matrix, order, target, work)
        order = better_blocks(matrix, order, found, target)
        if block_costs(matrix, runs_of(matrix, order))[0].max() >= cost.max():
            if least // step <= 1:
                break
            step *= 4
    # A block may be as cheap with rows apart, but one order of all columns wants few of these.
    level = int(cost.max()) // 2
    order = better_blocks(matrix, order, improve(matrix, order, level, work), level)
    if level > 1:  # blocks that can do with single runs are cheap in every other way too
        found = improve(matrix, order, 1, work)
        single = block_costs(matrix, runs_of(matrix, found))[0] == 2
        order = np.where(single[matrix.column_block[order]], found, order)
    return order
