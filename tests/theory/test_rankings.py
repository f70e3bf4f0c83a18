"""Dense ranks, ranking matrices, and three ways in which scores can agree."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bilink.errors import ConfigError, DataError
from bilink.models.model import Model
from bilink.theory.rankings import (
    check_ranking,
    dense_rank,
    deviation,
    refines,
    same_ranking,
    same_scores,
    score_tensor,
)

seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 6)


def naive_rank(matrix):
    """One more than the number of distinct larger entries."""
    entries = set(matrix.ravel().tolist())
    return np.array([[1 + sum(x > y for x in entries) for y in row] for row in matrix.tolist()])


def integers(seed, *shape):
    return np.random.default_rng(seed).integers(-4, 5, shape)


def test_the_papers_example():
    scores = [[0.2, 2.4, 1], [-1, 4, 2], [-3, 0.2, 0]]
    assert dense_rank(np.array(scores)).tolist() == [[5, 2, 4], [7, 1, 3], [8, 5, 6]]


@given(seed=seeds, n=sizes, k=st.integers(1, 3))
def test_the_dense_rank_counts_distinct_larger_scores_of_the_slice(seed, n, k):
    scores = integers(seed, k, n, n)
    ranks = dense_rank(scores)
    for part, rank in zip(scores, ranks, strict=True):
        assert np.array_equal(rank, naive_rank(part))
        larger, smaller = np.subtract.outer(part, part), np.subtract.outer(rank, rank)
        assert np.array_equal(larger <= 0, smaller >= 0)
    assert n == 1 or np.array_equal(check_ranking(ranks), ranks)
    assert np.array_equal(dense_rank(-ranks), ranks)  # π(−P) = P
    assert np.array_equal(dense_rank(scores * 3 + 7), ranks)
    assert np.array_equal(dense_rank(np.exp(scores / 2)), ranks)


@given(seed=seeds)
def test_a_tolerance_joins_what_rounding_has_parted(seed):
    scores = integers(seed, 4, 4)
    noise = np.random.default_rng(seed).uniform(-1e-12, 1e-12, (4, 4))
    assert np.array_equal(dense_rank(scores + noise, 1e-9), dense_rank(scores))


@given(seed=seeds, n=st.integers(2, 5))
def test_the_three_levels_imply_each_other_downwards_only(seed, n):
    a = integers(seed, 2, n, n)
    shift = integers(seed + 1, 2, 1, 1)
    shifted, cubed = a + shift, a**3
    broken = a + 0.3 * np.linspace(-1, 1, n * n).reshape(n, n)
    assert same_scores(a, a)
    assert same_scores(a, shifted, up_to_constant=True)
    assert same_scores(a, shifted) == (not shift.any())
    assert same_ranking(a, shifted)
    assert same_ranking(a, cubed)
    assert refines(cubed, a)
    assert refines(broken, a)
    assert refines(a, broken) == same_ranking(a, broken)
    assert same_ranking(a, broken) == np.array_equal(dense_rank(a), dense_rank(broken))


def test_one_swapped_pair_is_noticed_at_every_level():
    a = np.array([[3.0, 2.0], [1.0, 0.0]])
    b = np.array([[3.0, 1.0], [2.0, 0.0]])
    assert not same_scores(a, b, up_to_constant=True, tolerance=0.1)
    assert not same_ranking(a, b)
    assert not refines(b, a)
    assert deviation(a, b, "scores") == 1 / 3


def test_score_tensors_hold_every_score():
    random = np.random.default_rng(0)
    model = Model(
        Model.empty("transe", 3, 0, 0).family, 3, *(random.normal(size=(n, 3)) for n in (4, 2))
    )
    scores = score_tensor(model)
    assert scores.shape == (2, 4, 4)
    triples = [(h, r, t) for r in range(2) for h in range(4) for t in range(4)]
    np.testing.assert_allclose(scores.ravel(), model.score(triples), atol=1e-12)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((2, 3)), "not square"),
        (np.ones(4), "not square"),
        (np.array([[1.0, np.nan], [1, 1]]), "NaN"),
        (np.array([[1, 3], [1, 1]]), "none left out"),
        (np.array([[0, 1], [1, 1]]), "whole numbers from 1"),
        (np.ones((1, 1)), "at least two entities"),
        (np.ones((0, 2, 2)), "at least one relation"),
        (np.ones((1, 1, 2, 2)), "shape"),
    ],
)
def test_what_is_no_ranking_gets_a_sentence(matrix, message):
    with pytest.raises(DataError, match=message):
        check_ranking(matrix)


def test_sizes_that_do_not_match_or_fit_get_a_sentence():
    with pytest.raises(DataError, match="cannot be compared"):
        same_ranking(np.ones((2, 2)), np.ones((3, 3)))
    with pytest.raises(ConfigError, match="too many to hold"):
        score_tensor(Model.empty("distmult", 1, 100_000, 1))
