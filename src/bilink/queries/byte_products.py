"""Products of rows of bytes, and which of them reach a limit: five times as fast as in float32.

Many processors have an instruction that multiplies and adds four bytes at a time in each of eight
lanes (VNNI); Numba reaches it through a few lines of LLVM.  The products never leave the registers:
a micro-tile of 4 rows by 32 columns is multiplied, compared with the limits of its rows, and one
bit is left of each pair.  Elsewhere BLAS multiplies the same whole numbers in float32, which is
exact up to ``WIDEST``.
"""

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import extending
from numba.core import cgutils, codegen, types

from bilink._jit import kernel

STEP = 8  # products can be cut off after any multiple of this many coordinates
WIDEST = 1024  # coordinates: 127 · 127 · 1024 < 2²⁴, so float32 holds every sum
_ROWS, _LANES, _VECTORS = 4, 8, 4  # of a micro-tile; a vector holds the sums of 8 columns
_COLUMNS = _LANES * _VECTORS
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
        padded = np.zeros((-(-n // _ROWS) * _ROWS, width), dtype=np.int8)
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
        blocks = -(-n // _COLUMNS)
        unsigned = np.zeros((blocks * _COLUMNS, width), dtype=np.uint8)
        unsigned[:n] = rows.view(np.uint8) ^ np.uint8(_OFFSET)  # adds 128
        groups = unsigned.view(np.int32).reshape(blocks, _COLUMNS, width // _GROUP)
        return cls(rows, np.ascontiguousarray(groups.transpose(0, 2, 1)))


def reaching(rows: Rows, columns: Columns, level: int, limits: np.ndarray) -> np.ndarray:
    """The pairs, as row · columns + column, whose first coordinates have a sum ≥ the row's limit.

    The sum goes over the first ``level`` · STEP coordinates; ``limits`` are whole numbers.
    """
    width = level * STEP
    if not HAS_INSTRUCTION:
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
    bits = np.empty(_ROWS, dtype=np.uint32)
    count = 0
    for block in range(packed.shape[0]):
        for first in range(0, rows.shape[0], _ROWS):
            if not _micro_tile(rows, first, packed, block, groups, below, bits):
                continue
            for row in range(_ROWS):
                left = bits[row]
                while left:
                    column = block * _COLUMNS + _first_bit(left)
                    left &= left - np.uint32(1)
                    if column < n:  # the others only pad
                        found[count] = (first + row) * n + column
                        count += 1
    return count


def _has_instruction() -> bool:
    """Whether kernels are compiled, and for a processor that multiplies bytes."""
    settings: Any = numba.config
    told = settings.CPU_FEATURES  # by the user; else those of this processor
    features = (codegen.get_host_cpu_features() if told is None else told).split(",")
    wide = "+avx512vnni" in features and "+avx512vl" in features
    return not settings.DISABLE_JIT and (wide or "+avxvnni" in features)


HAS_INSTRUCTION = _has_instruction()
_intrinsic: Any = extending.intrinsic  # whose calls have one argument less than its definition


@_intrinsic
def _first_bit(_context, bits):
    """The place of the lowest bit that is set."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        found = builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))
        return builder.zext(found, ir.IntType(64))

    return types.intp(types.uint32), generate


@_intrinsic
def _micro_tile(_context, rows, first, packed, block, groups, below, bits):
    """Multiply 4 rows by 32 columns over some groups; the bits of those above their rows' limits.

    As Python: for each ``r`` < 4, ``bits[r]`` gets bit ``j`` where
    Σ_g ⟨4 bytes of packed[block, g, j], 4 bytes of rows[first + r, g]⟩ > below[first + r].
    Returns 0 where there is none, and then leaves ``bits`` as they are.
    """
    signature = types.uint32(rows, types.intp, packed, types.intp, types.intp, below, bits)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        """The code: one loop over the groups, with 16 vectors of sums."""
        whole, sums = ir.IntType(32), ir.VectorType(ir.IntType(32), _LANES)
        place = ir.IntType(64)
        name = "llvm.x86.avx512.vpdpbusd.256"  # LLVM also knows it by this name without AVX-512
        multiply = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(sums, [sums] * 3), name
        )

        def array(i: int) -> Any:
            return context.make_array(signature.args[i])(context, builder, arguments[i])

        def spread(number: ir.Value) -> ir.Value:
            nothing = ir.Constant(sums, ir.Undefined)
            one = builder.insert_element(nothing, number, whole(0))
            return builder.shuffle_vector(one, nothing, ir.Constant(sums, [0] * _LANES))

        def larger(one: ir.Value, other: ir.Value) -> ir.Value:
            return builder.select(builder.icmp_signed(">", one, other), one, other)

        rows, packed, below, bits = (array(i) for i in (0, 2, 5, 6))
        first, block, groups = (arguments[i] for i in (1, 3, 4))
        stride = cgutils.unpack_tuple(builder, rows.shape)[1]
        row_starts = [
            builder.gep(rows.data, [builder.mul(builder.add(first, place(r)), stride)])
            for r in range(_ROWS)
        ]
        offset = builder.mul(builder.mul(block, stride), place(_COLUMNS))
        column_start = builder.bitcast(builder.gep(packed.data, [offset]), sums.as_pointer())

        before, loop = builder.block, builder.append_basic_block("groups")
        after = builder.append_basic_block("compare")
        builder.branch(loop)
        builder.position_at_end(loop)
        group = builder.phi(place)
        totals = [[builder.phi(sums) for _ in range(_VECTORS)] for _ in range(_ROWS)]
        start = builder.mul(group, place(_VECTORS))
        columns = [
            builder.load(builder.gep(column_start, [builder.add(start, place(v))]), align=4)
            for v in range(_VECTORS)
        ]
        for r, row_start in enumerate(row_starts):
            row = spread(builder.load(builder.gep(row_start, [group])))
            for v, column in enumerate(columns):
                total = totals[r][v]
                more = builder.call(multiply, [total, column, row])
                total.add_incoming(ir.Constant(sums, [0] * _LANES), before)
                total.add_incoming(more, loop)
                totals[r][v] = more
        following = builder.add(group, place(1))
        group.add_incoming(place(0), before)
        group.add_incoming(following, loop)
        builder.cbranch(builder.icmp_signed("<", following, groups), loop, after)

        builder.position_at_end(after)
        limits = [
            spread(builder.load(builder.gep(below.data, [builder.add(first, place(r))])))
            for r in range(_ROWS)
        ]
        some = None
        for row_totals, limit in zip(totals, limits, strict=True):
            higher = builder.icmp_signed(">", reduce(larger, row_totals), limit)
            some = higher if some is None else builder.or_(some, higher)
        found = builder.zext(builder.bitcast(some, ir.IntType(_LANES)), whole)
        with builder.if_then(builder.icmp_signed("!=", found, whole(0)), likely=False):
            for r in range(_ROWS):
                row_bits = whole(0)
                for v in range(_VECTORS):
                    higher = builder.icmp_signed(">", totals[r][v], limits[r])
                    eight = builder.zext(builder.bitcast(higher, ir.IntType(_LANES)), whole)
                    row_bits = builder.or_(row_bits, builder.shl(eight, whole(_LANES * v)))
                builder.store(row_bits, builder.gep(bits.data, [place(r)]))
        return found

    return signature, generate
