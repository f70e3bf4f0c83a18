"""Consistency: the check, its bound on rounding, and the constructions of Theorems 11 and 12."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import NAMES, model_of, random_model, scores, seeds, whole
from scipy.optimize import linprog

import bilink
from bilink.errors import BilinkError
from bilink.models.model import Model
from bilink.theory.consistency import check_consistency, error_bound
from bilink.theory.consistent_models import consistent_model
from bilink.theory.relations import RelationFacts
from bilink.theory.rounding.certificates import Factors
from bilink.theory.universality import represent

EVERY = [*NAMES, "transe-l1"]


def facts_of(tensor):
    """Rows (head, relation, tail) of a Boolean tensor (K, N, N)."""
    k, i, j = np.nonzero(tensor)
    return np.stack([i, k, j], axis=1)


def naive_margin(tensor, values):
    """The least difference between a fact and another pair of the same relation."""
    gaps = [
        float(part[b].min() - part[~b].max()) if b.any() and not b.all() else math.inf
        for b, part in zip(tensor, values, strict=True)
    ]
    return min(gaps)


def random_factors(seed, n, k, most=4, integers=True):
    """Factors of random widths, and the facts that they tell apart."""
    random = np.random.default_rng(seed)
    made = []
    for _ in range(k):
        shape = (n, random.integers(0, most + 1))
        draw = (lambda s: random.integers(-4, 5, s) * 1.0) if integers else random.normal
        left, right = (draw(size=shape) if not integers else draw(shape) for _ in range(2))
        made.append(Factors(left, right, 0.5))
    return made, np.array([f.left @ f.right.T > f.threshold for f in made])


@pytest.mark.parametrize("name", EVERY)
@given(seed=seeds, dim=st.integers(1, 4), n=st.integers(2, 6))
def test_the_margin_is_the_least_difference_in_any_blocks(name, seed, dim, n):
    model = random_model(name, dim, seed, n, 2, integers=False)
    tensor = np.random.default_rng(seed).random((2, n, n)) < 0.4
    tensor[:, 0, 0] = True
    expected = naive_margin(tensor, scores(model))
    for memory in (2**20, 64 * (n + 8) * 4):
        found = check_consistency(model, facts_of(tensor), memory=memory)
        assert found.margin == pytest.approx(expected, abs=1e-9)
        assert found.consistent == (found.margin > 0)
    top = scores(model)
    tensor = top >= np.quantile(top, 0.7, axis=(1, 2), keepdims=True)
    if naive_margin(tensor, top) > 1e-6:
        assert check_consistency(model, facts_of(tensor)).certified


def exact_score(name, h, r, t):
    h, r, t = ([Fraction(float(x)) for x in row] for row in (h, r, t))
    d = len(h)
    if name == "rescal":
        return sum(h[i] * r[i * d + j] * t[j] for i in range(d) for j in range(d))
    if name == "distmult":
        return sum(a * b * c for a, b, c in zip(h, r, t, strict=True))
    if name == "transe":
        return -sum((a + b - c) ** 2 for a, b, c in zip(h, r, t, strict=True))
    if name == "transe-l1":
        return -sum(abs(a + b - c) for a, b, c in zip(h, r, t, strict=True))
    n = 0 if name == "complex" else 2 - d % 2
    p = (d - n) // 2
    total = sum((h[i] * r[i] * t[i] for i in range(n)), Fraction(0))
    for i in range(n, n + p):
        real = h[i] * r[i] - h[i + p] * r[i + p]
        imaginary = h[i] * r[i + p] + h[i + p] * r[i]
        total += real * t[i] + imaginary * t[i + p]
    return total


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(seed=seeds, dim=st.integers(1, 5))
def test_no_score_is_further_from_the_truth_than_its_bound(name, dtype, seed, dim):
    random = np.random.default_rng(seed)
    model = random_model(name, dim, seed, 4, 1, integers=False)
    scale = 10.0 ** random.integers(-3, 4, model.entities.shape)
    model = Model(
        model.family, dim, (model.entities * scale).astype(dtype), model.relations.astype(dtype)
    )
    heads = np.arange(4)
    bound = error_bound(model, heads, 0)
    queries = model.scorer.queries("tail", heads, np.zeros(4, dtype=int))
    block = np.empty((4, 4), dtype=dtype)
    model.scorer.query_scores(queries, block)
    truth = [
        [exact_score(name, h, model.relations[0], t) for t in model.entities]
        for h in model.entities
    ]
    pairs = bound.of_pairs()
    assert pairs.max() <= bound.largest() * (1 + 1e-9)
    for i in range(4):
        for j in range(4):
            assert abs(Fraction(float(block[i, j])) - truth[i][j]) <= Fraction(pairs[i, j])


@given(seed=seeds, n=st.integers(2, 6), k=st.integers(1, 3))
def test_theorem_11_rescal_is_consistent_exactly(seed, n, k):
    factors, tensor = random_factors(seed, n, k)
    model = consistent_model(factors, "rescal")
    assert model.dim == max(1, min(n, 2 * sum(f.left.shape[1] for f in factors)))
    few = 2 * sum(f.left.shape[1] for f in factors) > n  # Theorem 5: the facts themselves
    expected = tensor * 1.0 if few else np.array([f.left @ f.right.T for f in factors])
    np.testing.assert_array_equal(scores(model), expected)
    if tensor.any():
        found = check_consistency(model, facts_of(tensor))
        assert found.certified
        assert found.margin == naive_margin(tensor, expected)
        assert found.margin_over_error == math.inf  # integers: nothing was rounded


@pytest.mark.parametrize("name", ["complex", "hole"])
@given(seed=seeds, n=st.integers(2, 9), k=st.integers(1, 3))
def test_theorem_12_and_corollary_4_complex_and_hole(name, seed, n, k):
    factors, tensor = random_factors(seed, n, k)
    widths = [f.left.shape[1] for f in factors]
    expected = np.array([f.left @ f.right.T for f in factors])
    paper = consistent_model(factors, name, "paper")
    tight = consistent_model(factors, name, "tight")
    full = sum(min(n, 2 * r) for r in widths)
    small = min(n * (n + 1) // 2, sum(min(n, -(-3 * r // 2)) for r in widths))
    if name == "complex":
        assert paper.dim == max(1, full)
        assert tight.dim <= max(1, small)
    else:
        assert paper.dim == 2 * full + 1
        assert tight.dim <= 2 * small + 1
    np.testing.assert_allclose(scores(paper), expected, atol=1e-11)
    for made, product, facts in zip(scores(tight), expected, tensor, strict=True):
        off = min(abs(made - product).max(), abs(made - facts).max())  # facts if these cost less
        assert off < 1e-11
    for model in (paper, tight):
        if tensor.any():
            assert check_consistency(model, facts_of(tensor)).certified


def test_wide_factors_of_many_entities_keep_the_sizes_of_the_theorems():
    factors, tensor = random_factors(0, 60, 3, most=7, integers=False)
    widths = [f.left.shape[1] for f in factors]
    sizes = {name: consistent_model(factors, name).dim for name in ("rescal", "complex", "hole")}
    assert sizes["rescal"] == 2 * sum(widths)
    assert sizes["complex"] == sum(-(-3 * r // 2) for r in widths)
    assert sizes["hole"] <= 2 * sizes["complex"] + 1
    for name in sizes:
        found = check_consistency(consistent_model(factors, name), facts_of(tensor))
        assert found.certified
        assert found.margin_over_error > 1e6


def test_many_relations_of_few_entities_share_what_all_matrices_need():
    """N(N + 1)/2 coordinates carry any number of relations, exactly."""
    factors, tensor = random_factors(3, 4, 12)
    for name, size in (("complex", 4 * 5 // 2), ("hole", 4 * 5 - 2)):
        model = consistent_model(factors, name)
        assert model.dim == size
        assert check_consistency(model, facts_of(tensor)).certified


def test_one_flipped_fact_is_noticed():
    factors, tensor = random_factors(1, 8, 2)
    model = consistent_model(factors, "complex")
    for cell in (np.argwhere(tensor)[0], np.argwhere(~tensor)[0]):
        flipped = tensor.copy()
        flipped[tuple(cell)] ^= True
        found = check_consistency(model, facts_of(flipped))
        assert not found.consistent
        assert not found.certified
        assert found.margin_over_error < 0


def test_a_margin_within_rounding_is_consistent_but_not_certified():
    row = np.array([[1.0], [1.0 + 1e-15], [0.3]])
    model = model_of("distmult", 1, row, np.full((1, 1), 0.1))
    facts = [(1, 0, 1)]
    found = check_consistency(model, np.array(facts))
    assert found.consistent
    assert not found.certified
    assert found.margin_over_error < 1


def test_whole_numbers_are_exact_only_while_they_are_small():
    small, large = (
        model_of("distmult", 1, whole(1, 4, 1) * x, np.ones((1, 1))) for x in (1, 2**28)
    )
    assert error_bound(small, np.arange(4), 0).largest() == 0
    assert error_bound(large, np.arange(4), 0).largest() > 0


def test_a_bare_scorer_is_checked_but_never_certified():
    model = model_of("distmult", 1, np.array([[1.0], [0.0]]), np.ones((1, 1)))
    assert check_consistency(model, np.array([[0, 0, 0]])).certified
    found = check_consistency(model.scorer, np.array([[0, 0, 0]]))
    assert found.consistent
    assert not found.certified


def test_theorems_9_and_10_distmult_and_transe_have_inconsistent_graphs():
    """No random model is consistent with the counterexamples, as the laws say."""
    for seed in range(50):
        for name, facts in (("distmult", [(0, 0, 1)]), ("transe", [(0, 0, 0)])):
            model = random_model(name, 3, seed, 2, 1)
            assert not check_consistency(model, np.array(facts)).consistent


def boolean_matrices(n):
    for bits in itertools.product([False, True], repeat=n * n):
        yield np.array(bits).reshape(n, n)


@pytest.mark.parametrize("n", [2, 3])
def test_theorem_9_distmult_holds_the_symmetric_graphs_and_no_others(n):
    """All graphs of one relation; a symmetric matrix has real eigenvalues as DistMult's weights."""
    for facts in boolean_matrices(n):
        if not facts.any():
            continue
        symmetric = np.array_equal(facts, facts.T)
        assert symmetric == (relation_facts(facts).lost_by_distmult() == 0)
        if symmetric:
            values, vectors = np.linalg.eigh(facts * 1.0)
            model = model_of("distmult", n, vectors, values[None])
            assert check_consistency(model, facts_of(facts[None])).certified


@pytest.mark.parametrize("n", [2, 3])
def test_theorem_10_transe_holds_the_graphs_that_a_solver_says_it_does(n):
    """All graphs of one relation, TransE of any size.

    Scores are −Dᵢⱼ + cⱼ − cᵢ up to a constant, where D is a sum of squared distances on lines.
    Those of whole numbers are an inner bound on all D, and all D ≥ 0 an outer one.  Where both
    programs agree, the answer is exact.
    """
    lines = {
        tuple((np.subtract.outer(x, x) ** 2).ravel().tolist())
        for x in itertools.product(range(n + 1), repeat=n)
    }
    inner = [np.array(line).reshape(n, n) for line in sorted(lines)[1:]]
    outer = [np.zeros((n, n)) for _ in itertools.combinations(range(n), 2)]
    for part, (i, j) in zip(outer, itertools.combinations(range(n), 2), strict=True):
        part[i, j] = part[j, i] = 1
    turns = [list(turn) for turn in itertools.permutations(range(n))]
    missed = 0
    for facts in boolean_matrices(n):
        key = facts.tobytes()
        if key != min(facts[np.ix_(turn, turn)].tobytes() for turn in turns):
            continue  # another order of the entities
        possible = linear_program(facts, inner)
        assert possible == linear_program(facts, outer)
        lost = relation_facts(facts).lost_by_transe()
        assert lost == 0 or not possible
        missed += lost == 0 and not possible
    assert missed == (n == 3)  # the bound on what is lost is a lower one


def linear_program(facts, distances):
    """Whether some mixture of distances, c and threshold part the facts from the others."""
    n = len(facts)
    rows = []
    for i, j in itertools.product(range(n), repeat=2):
        shift = np.eye(n)[j] - np.eye(n)[i]
        score = np.array([*(-part[i, j] for part in distances), *shift, -1.0])
        rows.append(-score if facts[i, j] else score)
    free = [(0, None)] * len(distances) + [(None, None)] * (n + 1)
    nothing = np.zeros(len(free))
    return linprog(nothing, np.array(rows), np.full(n * n, -1.0), bounds=free).status == 0


def relation_facts(facts):
    return RelationFacts(0, len(facts), *np.nonzero(facts))


def test_all_splits_of_a_graph_count_and_train_can_be_asked_alone():
    triples = [("a", "r", "b"), ("b", "r", "a"), ("a", "r", "c")]
    graph = bilink.graph_from_triples(triples)
    n = len(graph.entities)
    tensor = np.zeros((1, n, n), dtype=bool)
    tensor[0, graph.triples[:, 0], graph.triples[:, 2]] = True
    model = model_of("rescal", n, np.eye(n), tensor.reshape(1, -1).astype(float))
    assert check_consistency(model, graph).certified
    assert check_consistency(model, graph.train).consistent == (len(graph.train) == 3)


def test_the_rounding_rank_depends_on_the_threshold():
    """Erratum 6: the smallest consistent rank is the least over all thresholds."""
    facts = np.array([[0, 0, 1, 1], [1, 0, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0]], dtype=bool)
    left, right = np.array([1, 0.5, -1, -0.5]), np.array([-0.6, -1.2, 0.6, 1.2])
    assert np.array_equal(np.outer(left, right) > -0.5, facts)
    # With a threshold above zero, entities joined by facts have one sign, and so all here; then
    # the tails of the heads would be nested, but those of heads 0 and 2 are not.
    signs = {0}
    for _ in range(4):
        columns = facts[sorted(signs)].any(axis=0)
        signs |= set(np.flatnonzero(facts[:, columns].any(axis=1)).tolist())
    assert signs == {0, 1, 2, 3}
    assert not (facts[0] & facts[2]).any()
    assert np.array_equal(np.zeros((3, 3)) > -0.5, np.ones((3, 3)))  # all ones: rank 0, not 1


def test_facts_stand_below_in_number_and_above_in_score():
    """Erratum 1: rank 1 is best, so a consistent ranking gives facts the smaller numbers."""
    ranking = np.array([[1, 2], [2, 2]])
    model = represent(ranking, "rescal")
    assert check_consistency(model, np.array([[0, 0, 0]])).consistent
    assert scores(model)[0, 0, 0] > scores(model)[0, 1, 1]


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        (lambda m: check_consistency(m, np.empty((0, 3), int)), "at least one row"),
        (lambda m: check_consistency(m, np.array([1, 2, 3])), "at least one row"),
        (lambda m: check_consistency(m, np.array([[0, 0, 9]])), "beyond the 4 of the model"),
        (lambda m: check_consistency(m, np.array([[0, 9, 0]])), "relation id 9"),
        (lambda m: check_consistency(m, np.array([[0, 0, 0]]), memory=10), "too small"),
        (lambda m: consistent_model([], "rescal"), "at least one relation"),
        (lambda m: consistent_model([factor((1, 1), (1, 1))], "rescal"), "two entities"),
        (lambda m: consistent_model([factor((3, 1), (3, 2))], "rescal"), "equally many columns"),
        (lambda m: consistent_model([factor((3, 1), (3, 1), math.nan)], "hole"), "not finite"),
        (lambda m: consistent_model([factor((3, 1), (3, 1))], "transe"), "out of its reach"),
        (lambda m: consistent_model([factor((3, 1), (3, 1))], "hole", "small"), "paper or tight"),
    ],
)
def test_what_the_theory_cannot_use_gets_a_sentence(wish, message):
    with pytest.raises(BilinkError, match=message):
        wish(random_model("rescal", 2, 0))


def factor(left, right, value=1.0):
    return Factors(np.full(left, value), np.full(right, value), 0.5)


def test_scores_that_are_not_finite_are_refused():
    model = model_of("distmult", 1, whole(0, 3, 1), np.full((1, 1), math.nan))
    with pytest.raises(BilinkError, match="not finite"):
        check_consistency(model, np.array([[0, 0, 1]]))
