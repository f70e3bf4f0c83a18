"""Universality: constructions, counterexamples, and lower bounds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import random_model, scores, seeds

from bilink.errors import BilinkError
from bilink.theory.counterexamples import below_n, counterexample, fits_below_n
from bilink.theory.rankings import dense_rank, same_scores
from bilink.theory.slices import by_inertia, by_schur, inertia_bound, mixed_of
from bilink.theory.table1 import warren_bound
from bilink.theory.universality import represent

UNIVERSAL = ("rescal", "hole", "complex")


def random_ranking(seed, n, k, levels):
    return dense_rank(np.random.default_rng(seed).integers(0, levels, (k, n, n)))


@pytest.mark.parametrize("name", UNIVERSAL)
@given(seed=seeds, n=st.integers(2, 6), k=st.integers(1, 3), levels=st.integers(1, 40))
def test_theorems_5_and_7_every_ranking_is_a_models(name, seed, n, k, levels):
    ranking = random_ranking(seed, n, k, levels)
    paper, tight = (represent(ranking, name, way) for way in ("paper", "tight"))
    assert paper.dim == {"rescal": n, "complex": k * n, "hole": 2 * k * n + 1}[name]
    assert (
        tight.dim
        <= {
            "rescal": n,
            "complex": min(n * (n + 1) // 2, k * inertia_bound(n)),
            "hole": min(n * (n + 1) - 2, 2 * k * inertia_bound(n) + 1),
        }[name]
    )
    for model in (paper, tight):
        tolerance = 0 if name == "rescal" else 1e-9
        assert np.array_equal(dense_rank(scores(model), tolerance), ranking)


def test_strict_orders_of_many_entities_are_kept():
    ranking = np.random.default_rng(0).permutation(60 * 60).reshape(60, 60) + 1
    model = represent(ranking, "complex")
    assert model.dim <= inertia_bound(60) == 50
    entities, weights = mixed_of(model).pairs, mixed_of(model).pair_weights[0]
    values = ((entities * weights) @ entities.conj().T).real
    assert np.array_equal(dense_rank(values), ranking)


@given(seed=seeds, n=st.integers(1, 9), rank=st.integers(0, 9), kind=st.sampled_from("sah"))
def test_any_matrix_has_no_more_coordinates_than_the_bound(seed, n, rank, kind):
    """Also where the symmetric part is zero, singular, definite, or all there is."""
    random = np.random.default_rng(seed)
    matrix = random.normal(size=(n, min(n, rank))) @ random.normal(size=(min(n, rank), n))
    matrix = {"s": matrix + matrix.T, "a": matrix - matrix.T, "h": matrix}[kind]
    for form, most in (
        (by_schur(matrix, np.eye(n)), n),
        (by_inertia(matrix, np.eye(n)), inertia_bound(n)),
    ):
        assert form.size("complex") <= max(1, most)
        model = form.to_model("complex")
        assert same_scores(matrix[None], scores(model), tolerance=1e-10)


def test_a_definite_symmetric_part_halves_the_size():
    random = np.random.default_rng(0)
    matrix = random.normal(size=(20, 20))
    form = by_inertia(matrix - matrix.T + 3 * np.eye(20), np.eye(20))
    assert form.size("complex") == 10


def test_the_inertia_bound_is_the_worst_case_over_all_inertias():
    for n in range(1, 25):
        worst = max(
            min(
                n,
                -(-n // 2) + -(-min(minus + zero, plus + zero) // 2),
                n // 2 + -(-plus // 2) + -(-minus // 2),
            )
            for plus in range(n + 1)
            for minus in range(n + 1 - plus)
            for zero in [n - plus - minus]
        )
        assert inertia_bound(n) == worst <= min(n, 5 * n / 6 + 1.5)


@pytest.mark.parametrize("name", ["distmult", "transe", "transe-l1"])
def test_theorem_8_and_corollary_2_distmult_and_transe_are_not_universal(name):
    with pytest.raises(BilinkError, match="universal at no size"):
        represent(np.array([[2, 1], [3, 2]]), name)


@given(n=st.integers(2, 7), seed=seeds)
def test_rescal_below_n_lacks_a_ranking(n, seed):
    """Section 3.4: a slice of size N − 1 has a vector that it and its transpose send to zero."""
    shown = below_n(n)
    assert shown.check()
    assert shown.facts.sum() == n + 1
    model = random_model("rescal", n - 1, seed, n, 1)
    _, _, turn = np.linalg.svd(model.entities.T)
    null = turn[-1]
    part = scores(model)[0]
    np.testing.assert_allclose(part @ null, 0, atol=1e-9)
    np.testing.assert_allclose(part.T @ null, 0, atol=1e-9)
    # a S of two levels is aB + b11ᵀ; a search over a and b finds no such v for this B
    facts = shown.facts.astype(float)
    for a, b in np.random.default_rng(seed).normal(size=(20, 2)):
        both = np.vstack([a * facts + b, (a * facts + b).T])
        assert np.linalg.matrix_rank(both, tol=1e-9) == n
    assert fits_below_n(np.eye(n))  # the identity alone is no counterexample: v = 1


@given(n=st.integers(2, 7))
def test_the_identity_needs_one_less(n):
    """A regular simplex: RESCAL of size N − 1 does rank the diagonal first."""
    centred = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(centred)
    rows = vectors[:, 1:] * np.sqrt(values[1:])
    assert np.array_equal(dense_rank(rows @ rows.T, 1e-9), 2 - np.eye(n, dtype=int))


def test_lower_bounds_by_counting():
    assert warren_bound("rescal", 1000, 1) - 1 == 124
    assert warren_bound("rescal", 100, 1) - 1 == 12
    assert warren_bound("complex", 1000, 1) - 1 == 62
    assert warren_bound("rescal", 1000, 10**6) == pytest.approx(353, abs=1)
    for name, upper in (("rescal", lambda n, k: n), ("complex", lambda n, k: k * n)):
        for n in (2, 5, 64, 300):
            for k in (1, 3, 50):
                assert 1 <= warren_bound(name, n, k) <= upper(n, k)
                assert name != "rescal" or n < 64 or warren_bound(name, n, k) > n // 32


def test_the_counterexamples_can_be_looked_at():
    shown = counterexample("DistMult")
    assert shown.facts.tolist() == [[False, True], [False, False]]
    assert "2 1; 3 2" in str(shown)
    with pytest.raises(BilinkError, match="no ranking that every RESCAL model lacks"):
        counterexample("rescal")
    with pytest.raises(BilinkError, match="at least two entities"):
        below_n(1)


@pytest.mark.parametrize("name", UNIVERSAL)
@pytest.mark.parametrize(
    ("ranking", "message"),
    [
        ([[1]], "at least two entities"),
        (np.ones((0, 3, 3)), "at least one relation"),
        ([[1, 2, 3]], "not square"),
        ([[1, np.nan], [1, 1]], "NaN"),
        ([[1, 4], [2, 2]], "none left out"),
    ],
)
def test_what_is_no_ranking_is_refused(name, ranking, message):
    with pytest.raises(BilinkError, match=message):
        represent(np.array(ranking), name)
    with pytest.raises(BilinkError, match="paper or tight"):
        represent(np.array([[1, 2], [2, 2]]), name, "best")
