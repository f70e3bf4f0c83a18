"""Bounds on the rounding rank: every claim against slow, obvious references."""

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest
from exact import exact_assembly
from hypothesis import given, settings
from hypothesis import strategies as st

from bilink.errors import DataError
from bilink.theory.rounding.boolean import BooleanMatrix
from bilink.theory.rounding.certificates import Factors, margin_over_error
from bilink.theory.rounding.descent import factorise
from bilink.theory.rounding.geometry import circle_factors
from bilink.theory.rounding.ordering import (
    block_costs,
    count_intervals,
    few_intervals,
    first_order,
    improve,
)
from bilink.theory.rounding.rank import _Search, rank_one_factors, rounding_rank, shattered

EFFORT = 0.02


@st.composite
def matrices(draw, most=9):
    """A Boolean matrix, often sparse, with zero and repeated rows and columns."""
    n = draw(st.integers(1, most))
    seed, share = draw(st.integers(0, 10_000)), draw(st.sampled_from([0.05, 0.15, 0.3, 0.6, 0.9]))
    random = np.random.default_rng(seed)
    matrix = random.random((n, n)) < share
    if draw(st.booleans()):
        matrix = matrix[random.integers(0, n, n)][:, random.integers(0, n, n)]
    return matrix


def facts(matrix):
    return np.nonzero(matrix)


def told_apart(factors, matrix):
    return np.array_equal(factors.left @ factors.right.T > factors.threshold, matrix)


def naive_count(row):
    return sum(one and not before for before, one in itertools.pairwise([False, *row]))


# -- reduction, orders -----------------------------------------------------------------------------


@given(matrices())
def test_the_distinct_rows_and_columns_give_the_matrix_back(matrix):
    reduced = BooleanMatrix.of(*facts(matrix), len(matrix))
    padded = np.zeros(np.add(reduced.shape, 1), dtype=bool)  # the last row and column for -1
    padded[:-1, :-1] = reduced.dense()
    assert np.array_equal(padded[reduced.row_of][:, reduced.column_of], matrix)
    assert len(np.unique(padded[:-1], axis=0)) == reduced.shape[0]
    assert padded[:-1, :-1].any(axis=0).all()
    assert padded[:-1, :-1].any(axis=1).all()


@given(matrices())
def test_orders_keep_all_columns_and_blocks_and_count_their_intervals(matrix):
    reduced = BooleanMatrix.of(*facts(matrix), len(matrix))
    if not reduced.shape[0]:
        return
    for order in (first_order(reduced), few_intervals(reduced, 100_000)):
        assert sorted(order) == list(range(reduced.shape[1]))
        blocks = reduced.column_block[order]
        assert np.array_equal(blocks, np.sort(blocks))
        counts = [naive_count(row) for row in reduced.dense()[:, order].tolist()]
        assert count_intervals(reduced, order).tolist() == counts
    costs, most = block_costs(reduced, count_intervals(reduced, order))
    for block in range(reduced.n_blocks):
        mine = np.array(counts)[reduced.row_block == block]
        choices = [2 * c + np.count_nonzero(mine > c) for c in range(1, len(reduced.columns) + 1)]
        assert costs[block] == min(choices) == choices[most[block] - 1]


def test_a_scrambled_order_of_intervals_is_found_again():
    random = np.random.default_rng(1)
    starts = random.integers(0, 36, 120)
    matrix = np.zeros((120, 120), dtype=bool)
    for i, start in enumerate(starts):
        matrix[i, start : start + random.integers(2, 6)] = True
    matrix = matrix[:, random.permutation(120)]
    found = rounding_rank(*facts(matrix), 120, effort=EFFORT)
    assert (found.lower, found.upper, found.certified_rank) == (2, 2, 2)


def test_improve_never_makes_more_rows_wait():
    random = np.random.default_rng(2)
    reduced = BooleanMatrix.of(*facts(random.random((40, 40)) < 0.1), 40)
    order = first_order(reduced)
    for target in (3, 2, 1):
        better = improve(reduced, order, target, 1_000_000)
        assert np.sum(count_intervals(reduced, better) > target) <= np.sum(
            count_intervals(reduced, order) > target
        )


# -- rank one --------------------------------------------------------------------------------------


def patterns_of_rank_one(rows, columns):
    """All patterns lᵢqⱼ > ½; three sizes of |l| are enough for three rows, and so for |q|."""
    sizes = [2.0**k for k in range(1, rows + 1)]
    ls = [0, *sizes, *(-x for x in sizes)]
    qs = [0.75 / x for x in sizes]
    qs = [0, *qs, *(-x for x in qs)]
    left = np.array(list(itertools.product(ls, repeat=rows)))
    right = np.array(list(itertools.product(qs, repeat=columns)))
    found = np.zeros((len(left), len(right)), dtype=np.int64)
    for bit, (i, j) in enumerate(itertools.product(range(rows), range(columns))):
        found |= (np.outer(left[:, i], right[:, j]) > 0.5).astype(np.int64) << bit
    return set(np.unique(found).tolist())


def test_rank_one_is_what_brute_force_finds():
    rows, columns = 3, 3
    possible = patterns_of_rank_one(rows, columns)
    for pattern in range(2 ** (rows * columns)):
        matrix = np.array([pattern >> bit & 1 for bit in range(rows * columns)], dtype=bool)
        matrix = matrix.reshape(rows, columns)
        reduced = BooleanMatrix.of(*facts(matrix), 3)
        factors = rank_one_factors(reduced) if reduced.shape[0] else ()
        assert (factors is not None) == (pattern in possible)
        if factors:
            assert np.array_equal(factors[0] @ factors[1].T > 0.5, reduced.dense())


# -- lower bound -----------------------------------------------------------------------------------


def vc_dimension(matrix):
    best = 0
    for size in range(1, matrix.shape[1] + 1):
        for columns in itertools.combinations(range(matrix.shape[1]), size):
            if len(np.unique(matrix[:, columns], axis=0)) == 2**size:
                best = size
    return best


@given(matrices(most=7))
def test_the_search_for_shattered_columns_finds_the_vc_dimension(matrix):
    reduced = BooleanMatrix.of(*facts(matrix), len(matrix))
    assert shattered(reduced, len(matrix)) == vc_dimension(matrix)
    assert shattered(reduced.transposed, len(matrix)) == vc_dimension(matrix.T)


# -- the whole -------------------------------------------------------------------------------------


@settings(max_examples=20)
@given(matrices(), st.booleans())
def test_bounds_enclose_and_certified_factors_tell_all_facts_apart(matrix, complete):
    found = rounding_rank(*facts(matrix), len(matrix), effort=EFFORT, complete=complete)
    assert found.lower <= found.upper <= min(matrix.shape)
    assert max(vc_dimension(matrix), vc_dimension(matrix.T)) <= found.upper
    if complete:
        assert found.factors is not None
    if found.factors is not None:
        assert told_apart(found.factors, matrix)
        assert found.margin_over_error > 1
        assert found.certified_rank >= found.lower
    if found.exact is not None:
        assert found.exact.holds(*facts(matrix))
        assert found.upper <= max(found.exact.rank, found.lower)


@settings(max_examples=20)
@given(matrices(), st.integers(0, 10_000))
def test_certificates_reject_a_single_flipped_bit(matrix, seed):
    found = rounding_rank(*facts(matrix), len(matrix), effort=EFFORT, complete=True)
    i, j = np.random.default_rng(seed).integers(0, len(matrix), 2)
    matrix[i, j] = not matrix[i, j]
    assert margin_over_error(found.factors, *facts(matrix)) == 0
    if found.exact is not None:
        assert not found.exact.holds(*facts(matrix))


@settings(max_examples=15)
@given(matrices(most=7))
def test_the_exact_certificate_is_a_theorem(matrix):
    """Its polynomials, put on a rational sphere, give a matrix of that rank in fractions."""
    search = _Search(*facts(matrix), len(matrix), EFFORT)
    if not search.matrix.shape[0]:
        return
    certificate = search.exact_certificate()
    assert exact_assembly(certificate, search.matrix.dense())


@given(matrices(), st.integers(2, 4))
def test_circle_factors_tell_all_rows_apart(matrix, most):
    reduced = BooleanMatrix.of(*facts(matrix), len(matrix))
    if not reduced.shape[0]:
        return
    order = first_order(reduced)
    found = circle_factors(reduced, order, most)
    if found is not None:
        assert np.array_equal(found[0] @ found[1].T > 0.5, reduced.dense())
        apart = np.count_nonzero(count_intervals(reduced, order) > most)
        assert found[0].shape[1] == 2 * most + apart


def test_descent_solves_a_block_that_no_interval_does():
    spider = np.zeros((7, 7), dtype=bool)  # three legs of two edges around one row
    spider[0, [0, 1, 2]] = True
    for leg in range(3):
        spider[1 + leg, [leg, 3 + leg]] = True
    reduced = BooleanMatrix.of(*facts(spider), 7)
    block = reduced.block(0)
    found = factorise(block.rows, block.columns, 2, evaluations=500).factors
    scores = found.a[:, None] + found.b + found.left @ found.right.T
    truth = reduced.dense()[np.ix_(block.row_ids, block.column_ids)]
    assert (scores[truth] >= 1 - 1e-9).all()
    assert (scores[~truth] <= -1 + 1e-9).all()


def test_many_blocks_cost_no_more_than_the_worst():
    cross = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 1]], dtype=bool)
    matrix = np.kron(np.eye(20, dtype=bool), cross)
    one = rounding_rank(*facts(cross), 4, effort=EFFORT)
    found = rounding_rank(*facts(matrix), 80, effort=EFFORT)
    assert found.certified_rank == found.upper == max(one.upper, 3)
    assert told_apart(found.factors, matrix)


# -- ends ------------------------------------------------------------------------------------------


def test_empty_and_full_relations():
    none = np.empty(0, dtype=np.int64)
    empty = rounding_rank(none, none, 5)
    assert (empty.lower, empty.upper, empty.certified_rank) == (0, 0, 0)
    assert empty.margin_over_error > 1
    full = rounding_rank(*facts(np.ones((4, 4))), 4)
    assert (full.lower, full.upper, full.certified_rank) == (1, 1, 1)
    single = rounding_rank(np.array([0]), np.array([0]), 1)
    assert (single.lower, single.upper) == (1, 1)


def test_wrong_facts_and_factors_are_refused_with_a_sentence():
    with pytest.raises(DataError, match="outside of 0 … 2"):
        rounding_rank(np.array([3]), np.array([0]), 3)
    with pytest.raises(DataError, match="1 heads but 2 tails"):
        rounding_rank(np.array([0]), np.array([0, 1]), 3)
    with pytest.raises(DataError, match="whole numbers"):
        rounding_rank(np.array([0.5]), np.array([0.0]), 3)
    broken = Factors(np.full((3, 1), np.nan), np.ones((3, 1)), 0.5)
    with pytest.raises(DataError, match="NaN"):
        margin_over_error(broken, np.array([0]), np.array([0]))


def test_a_margin_within_rounding_is_no_certificate():
    """0.1 + 0.2 is above 0.3 by less than what rounding can do."""
    left, right = np.array([[0.1, 0.2], [0.0, 0.0]]), np.ones((2, 2))
    factors = Factors(left, right, 0.3)
    assert margin_over_error(factors, np.array([0, 0]), np.array([0, 1])) <= 1


CODE = """
import numpy as np
from bilink.theory.rounding.rank import rounding_rank
random = np.random.default_rng(3)
for share in (0.12, 0.3, 0.7):
    heads, tails = np.nonzero(random.random((9, 9)) < share)
    found = rounding_rank(heads, tails, 9, effort=0.001, complete=True)
    print(found.lower, found.upper, found.certified_rank, found.exact.rank if found.exact else 0)
"""


def test_compiled_and_interpreted_kernels_agree():
    def run(**env):
        command = [sys.executable, "-W", "ignore", "-c", CODE]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **env})
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run() == run(NUMBA_DISABLE_JIT="1")
