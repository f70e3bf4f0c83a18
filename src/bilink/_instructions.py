"""Instructions of the processor that Numba has no word for, through a few lines of LLVM each."""

from functools import reduce
from typing import Any

import numba
from llvmlite import ir
from numba import extending
from numba.core import cgutils, codegen, types

TILE_ROWS, _LANES, _VECTORS = 4, 8, 4  # of a tile; a vector holds the sums of 8 columns
TILE_COLUMNS = _LANES * _VECTORS


def _multiplies_bytes() -> bool:
    """Whether kernels are compiled, and for a processor that multiplies bytes."""
    settings: Any = numba.config
    told = settings.CPU_FEATURES  # by the user; else those of this processor
    features = (codegen.get_host_cpu_features() if told is None else told).split(",")
    wide = "+avx512vnni" in features and "+avx512vl" in features
    return not settings.DISABLE_JIT and (wide or "+avxvnni" in features)


MULTIPLIES_BYTES = _multiplies_bytes()
_intrinsic: Any = extending.intrinsic  # whose calls have one argument less than its definition


@_intrinsic
def first_bit(_context, bits):
    """The place of the lowest bit that is set."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        found = builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))
        return builder.zext(found, ir.IntType(64))

    return types.intp(types.uint32), generate


@_intrinsic
def byte_tile(_context, rows, first, packed, block, groups, below, bits):
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
            for r in range(TILE_ROWS)
        ]
        offset = builder.mul(builder.mul(block, stride), place(TILE_COLUMNS))
        column_start = builder.bitcast(builder.gep(packed.data, [offset]), sums.as_pointer())

        before, loop = builder.block, builder.append_basic_block("groups")
        after = builder.append_basic_block("compare")
        builder.branch(loop)
        builder.position_at_end(loop)
        group = builder.phi(place)
        totals = [[builder.phi(sums) for _ in range(_VECTORS)] for _ in range(TILE_ROWS)]
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
            for r in range(TILE_ROWS)
        ]
        some = None
        for row_totals, limit in zip(totals, limits, strict=True):
            higher = builder.icmp_signed(">", reduce(larger, row_totals), limit)
            some = higher if some is None else builder.or_(some, higher)
        found = builder.zext(builder.bitcast(some, ir.IntType(_LANES)), whole)
        with builder.if_then(builder.icmp_signed("!=", found, whole(0)), likely=False):
            for r in range(TILE_ROWS):
                row_bits = whole(0)
                for v in range(_VECTORS):
                    higher = builder.icmp_signed(">", totals[r][v], limits[r])
                    eight = builder.zext(builder.bitcast(higher, ir.IntType(_LANES)), whole)
                    row_bits = builder.or_(row_bits, builder.shl(eight, whole(_LANES * v)))
                builder.store(row_bits, builder.gep(bits.data, [place(r)]))
        return found

    return signature, generate
