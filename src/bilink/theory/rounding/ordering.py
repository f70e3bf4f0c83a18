"""Orders of columns in which the ones of every row form few intervals.

Two ones of a row that are neighbours in the order are a *join*; a row with d ones and j joins has
d − j intervals.  So the search looks for joins in the rows that have too many intervals.
"""

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from bilink._jit import kernel, kernel_function
from bilink.theory.rounding.boolean import BooleanMatrix, bipartite

_SPECTRAL = 400  # columns up to which the eigenvector of the Laplacian is worth its cube
_TEMPERATURE = 0.25
_CALL = 10_000_000  # of work, after which the order is compared with the best one so far


@kernel_function
def _change_join(x, y, sign, start, items, excess, above, place, count):
    """Add (sign 1) or remove (−1) the join of columns x and y in the rows that hold both.

    ``excess`` is by how many intervals a row is above the target.  ``above[: count[0]]`` are the
    rows where it is positive, and ``place`` says where each of them is in this list.  Return the
    change in the sum of positive excesses.
    """
    change = 0
    if x < 0 or y < 0:
        return change
    i, j = start[x], start[y]
    while i < start[x + 1] and j < start[y + 1]:
        if items[i] < items[j]:
            i += 1
        elif items[i] > items[j]:
            j += 1
        else:
            row = items[i]
            before = excess[row]
            after = before - sign
            excess[row] = after
            change += max(after, 0) - max(before, 0)
            if after > 0 >= before:
                above[count[0]] = row
                place[row] = count[0]
                count[0] += 1
            elif before > 0 >= after:
                count[0] -= 1
                last = above[count[0]]
                above[place[row]] = last
                place[last] = place[row]
            i += 1
            j += 1
    return change


@kernel_function
def _change_joins(pairs, lost, sign, start, items, excess, above, place, count):
    """Remove the joins of the first ``lost`` pairs and add those of the others; −1 undoes it."""
    change = 0
    for k in range(pairs.shape[0]):
        x, y, each = pairs[k, 0], pairs[k, 1], -sign if k < lost else sign
        change += _change_join(x, y, each, start, items, excess, above, place, count)
    return change


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
def search_order(order, position, row_start, row_items, start, items, excess, work, chances, state):
    """Join columns of rows with an excess, by moving one of them or reversing a part of the order.

    A change that adds k to the sum of positive excesses is kept with probability chances[k].
    ``work`` is the time to spend, in units of about a nanosecond.
    """
    n_rows = excess.shape[0]
    above = np.empty(n_rows, dtype=np.int32)
    place = np.empty(n_rows, dtype=np.int32)
    count = np.zeros(1, dtype=np.int64)
    for row in range(n_rows):
        if excess[row] > 0:
            place[row] = count[0]
            above[count[0]] = row
            count[0] += 1
    pairs = np.empty((6, 2), dtype=np.int64)
    while work > 0 and count[0] > 0:
        row = above[_below(state, count[0])]
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
        change = _change_joins(pairs[:used], lost, 1, start, items, excess, above, place, count)
        chance = chances[min(change, chances.shape[0] - 1)] if change > 0 else 1.0
        if chance < 1.0 and _below(state, 1 << 30) >= chance * (1 << 30):
            _change_joins(pairs[:used], lost, -1, start, items, excess, above, place, count)
            continue
        work -= 2 * abs(i - j)
        if kind < 2:
            _reverse(order, position, low, high)
        elif side == 1:
            _shift(order, position, i, j if i < j else j + 1)
        else:
            _shift(order, position, i, j - 1 if i < j else j)


def count_intervals(matrix: BooleanMatrix, order: np.ndarray) -> np.ndarray:
    """The number of intervals of consecutive ones of each row."""
    return np.bincount(matrix.rows.intervals(order)[0], minlength=len(matrix.rows))


def block_costs(matrix: BooleanMatrix, intervals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each block the least cost 2c + h, where h rows have more than c intervals; and that c.

    ``intervals`` is the number of intervals of each row.
    """
    counts = np.zeros((matrix.n_blocks, int(intervals.max(initial=1)) + 1), dtype=np.int64)
    np.add.at(counts, (matrix.row_block, intervals), 1)
    above = counts.sum(axis=1, keepdims=True) - np.cumsum(counts, axis=1)
    costs = 2 * np.arange(counts.shape[1]) + above
    costs = costs[:, :0:-1]  # the largest c first: of equal costs, that with the fewest rows apart
    best = np.argmin(costs, axis=1)
    return costs[np.arange(len(costs)), best], counts.shape[1] - 1 - best


def least_cost(intervals: np.ndarray) -> tuple[int, int]:
    """The same for all rows as if they were one block."""
    counts = np.bincount(intervals, minlength=2)
    costs = (2 * np.arange(len(counts)) + len(intervals) - np.cumsum(counts))[:0:-1]
    best = int(np.argmin(costs))
    return int(costs[best]), len(counts) - 1 - best


def first_order(matrix: BooleanMatrix) -> np.ndarray:
    """Columns by block, each block in the better of two classical orders.

    Reverse Cuthill-McKee keeps neighbours near.  The second eigenvector of the Laplacian of shared
    rows finds an order with single intervals where there is one (Atkins, Boman and Hendrickson,
    1998).
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

    Better is a lower cost, where costs below 2 · target are equal; then fewer rows with more than
    ``target`` intervals; then fewer intervals.
    """
    number, row_block = matrix.n_blocks, matrix.row_block
    keys = []
    for counts in (count_intervals(matrix, order), count_intervals(matrix, other)):
        cost = np.maximum(block_costs(matrix, counts)[0], 2 * target)
        above = np.bincount(row_block[counts > target], minlength=number)
        total = np.bincount(row_block, counts, number).astype(np.int64)
        keys.append(np.stack([cost, above, total]))
    less, same = np.zeros(number, dtype=bool), np.ones(number, dtype=bool)
    for one, another in zip(*keys, strict=True):
        less |= same & (another < one)
        same &= another == one
    return np.where(less[matrix.column_block[order]], other, order)


def _spectral(matrix: BooleanMatrix, part: np.ndarray) -> np.ndarray:
    """The columns of one block by the Laplacian's second eigenvector."""
    lists = matrix.columns.take(part)
    _, rows = np.unique(lists.items, return_inverse=True)
    cells = sparse.csr_array((np.ones(len(rows)), (lists.owner, rows)))
    shared = (cells @ cells.T).toarray()
    laplacian = np.diag(shared.sum(axis=1)) - shared
    _, vectors = np.linalg.eigh(laplacian)
    return part[np.argsort(vectors[:, 1], kind="stable")]


def improve(
    matrix: BooleanMatrix, order: np.ndarray, target: int, work: int, seed: int = 0
) -> np.ndarray:
    """Search for an order with at most ``target`` intervals per row; return the best one found."""
    columns, rows = matrix.columns, matrix.rows
    order, position = order.copy(), np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    excess = count_intervals(matrix, order) - target
    state = np.array([seed * 2 + 0x9E3779B97F4A7C15], dtype=np.uint64)
    chances = np.exp(-np.arange(8) / _TEMPERATURE)
    best, fewest = order.copy(), int(np.count_nonzero(excess > 0))
    lists = rows.start, rows.items, columns.start, columns.items
    while work > 0 and fewest:
        search_order(order, position, *lists, excess, min(work, _CALL), chances, state)
        work -= _CALL
        above = int(np.count_nonzero(excess > 0))
        if above < fewest:
            best, fewest = order.copy(), above
    return best


def few_intervals(matrix: BooleanMatrix, work: int) -> np.ndarray:
    """An order of the columns, block by block, in which each block has a low cost.

    ``work`` is spent several times, for ever fewer intervals.
    """
    order, step = first_order(matrix), 4
    while True:
        cost, most = block_costs(matrix, count_intervals(matrix, order))
        least = int(most[cost == cost.max()].max())
        if least < 2:
            return order
        target = least - max(1, least // step)
        found = improve(matrix, order, target, work)
        order = better_blocks(matrix, order, found, target)
        if block_costs(matrix, count_intervals(matrix, order))[0].max() >= cost.max():
            if least // step <= 1:
                break
            step *= 4
    # A block may cost as little with rows apart, but for all columns on one circle they add up.
    level = int(cost.max()) // 2
    order = better_blocks(matrix, order, improve(matrix, order, level, work), level)
    if level > 1:  # single intervals are best for a block, whatever its factors are made of
        found = improve(matrix, order, 1, work)
        single = block_costs(matrix, count_intervals(matrix, found))[0] == 2
        order = np.where(single[matrix.column_block[order]], found, order)
    return order
