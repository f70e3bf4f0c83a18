"""A lower bound on the rounding rank: columns that rows tell apart in every way.

If d columns are shattered (each of the 2^d sets of them is what some row holds of them), no factors
of rank below d exist: d + 1 points and the origin have a Radon partition, which no half-space cuts.
"""

import numpy as np

from bilink.theory.rounding.boolean import BooleanMatrix

_COLUMNS = 48  # candidates beside the first column
_STARTS = 24
_CHECKS = 20_000  # sets that are looked at


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
        near = np.concatenate([matrix.rows[i] for i in rows[:_CHECKS]])
        counts = np.bincount(near, minlength=len(sizes))
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
    """Split every class of rows by one more column, as long as no part is empty."""
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
