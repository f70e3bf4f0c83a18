"""Products of rows of bytes, and which of them reach a limit: five times as fast as in float32.

Many processors have an instruction that multiplies and adds four bytes at a time in each of eight
lanes (``_instructions``).  The products never leave the registers: a micro-tile of 4 rows by 32
columns is multiplied, compared with the limits of its rows, and one bit is left of each pair.
Elsewhere BLAS multiplies the same whole numbers in float32, which is exact up to ``WIDEST``.
"""

from dataclasses import dataclass

import numpy as np

from bilink._instructions import MULTIPLIES_BYTES, TILE_COLUMNS, TILE_ROWS, byte_tile, first_bit
from bilink._jit import kernel

STEP = 8  # products can be cut off after any multiple of this many coordinates
WIDEST = 1024  # coordinates: 127 · 127 · 1024 < 2²⁴, so float32 holds every sum
_GROUP = 4  # bytes of a row that the instruction takes together
_OFFSET = 128  # one of its two sides has no sign, so that its bytes are this much larger
_NEVER = 2**30  # more than any sum


@dataclass(frozen=True, eq=False)
class Rows:
    """One side of the products."""

    bytes: np.ndarray  # (n, width), int8; the width is a multiple of STEP
    padded: np.ndarray  # (n rounded up, groups of 4 bytes), int32
    sums: np.ndarray  # (n rounded up, width / STEP + 1), int32; of all bytes before level · STEP

    @classmethod
    def of(cls, rows: np.ndarray) -> "Rows":
        """Rows of bytes from −127 to 127."""
        n, width = rows.shape
        padded = np.zeros((-(-n // TILE_ROWS) * TILE_ROWS, width), dtype=np.int8)
        padded[:n] = rows
        sums = np.zeros((len(padded), width // STEP + 1), dtype=np.int32)
        _sum_up(padded, sums)
        return cls(rows, padded.view(np.int32), sums)


@dataclass(frozen=True, eq=False)
class Columns:
    """The other side, in the order in which the instruction reads it."""

    bytes: np.ndarray  # (n, width), int8
    packed: np.ndarray  # (blocks of 32 columns, groups of 4 bytes, 32), int32

    @classmethod
    def of(cls, rows: np.ndarray) -> "Columns":
        """Rows of bytes from −127 to 127, whose width is a multiple of STEP."""
        n, width = rows.shape
        blocks = -(-n // TILE_COLUMNS)
        unsigned = np.zeros((blocks * TILE_COLUMNS, width), dtype=np.uint8)
        unsigned[:n] = rows.view(np.uint8) ^ np.uint8(_OFFSET)  # adds 128
        groups = unsigned.view(np.int32).reshape(blocks, TILE_COLUMNS, width // _GROUP)
        return cls(rows, np.ascontiguousarray(groups.transpose(0, 2, 1)))


def reaching(rows: Rows, columns: Columns, level: int, limits: np.ndarray) -> np.ndarray:
    """The pairs, as row · columns + column, whose first coordinates have a sum ≥ the row's limit.

    The sum goes over the first ``level`` · STEP coordinates; ``limits`` are whole numbers.
    """
    width = level * STEP
    if not MULTIPLIES_BYTES:
        sums = rows.bytes[:, :width].astype(np.float32) @ columns.bytes[:, :width].T
        return np.flatnonzero(sums >= limits[:, None])
    found = np.empty(rows.bytes.shape[0] * columns.bytes.shape[0], dtype=np.int32)
    below = np.empty(len(rows.padded), dtype=np.int32)
    _shift(limits, rows.sums[:, level], below)
    groups = width // _GROUP
    count = _reaching(rows.padded, columns.packed, groups, below, len(columns.bytes), found)
    return found[:count]


@kernel
def _sum_up(rows, sums):
    """sums[i, l] = Σ of the bytes of row i before l · STEP."""
    for i in range(rows.shape[0]):
        for level in range(1, sums.shape[1]):
            total = sums[i, level - 1]
            for k in range((level - 1) * STEP, level * STEP):
                total += np.int32(rows[i, k])
            sums[i, level] = total


@kernel
def _shift(limits, sums, below):
    """What sums with columns without sign must be above; rows that only pad never are."""
    for i in range(below.shape[0]):
        limit = min(max(limits[i], -_NEVER), _NEVER) if i < limits.shape[0] else _NEVER
        below[i] = np.int32(np.int64(limit) - 1 + _OFFSET * np.int64(sums[i]))


@kernel
def _reaching(rows, packed, groups, below, n, found):
    """Write the pairs whose sums are above ``below`` into ``found``; returns how many."""
    bits = np.empty(TILE_ROWS, dtype=np.uint32)
    count = 0
    for block in range(packed.shape[0]):
        for first in range(0, rows.shape[0], TILE_ROWS):
            if not byte_tile(rows, first, packed, block, groups, below, bits):
                continue
            for row in range(TILE_ROWS):
                left = bits[row]
                while left:
                    column = block * TILE_COLUMNS + first_bit(left)
                    left &= left - np.uint32(1)
                    if column < n:  # the others only pad
                        found[count] = (first + row) * n + column
                        count += 1
    return count
