"""Subsumption: every arrow of Table 1, with the paper's construction and the tighter one."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import NAMES, invariants, random_model, scores, seeds

from bilink.errors import BilinkError, ConfigError, DataError
from bilink.models.model import Model
from bilink.models.registry import family
from bilink.theory import conversions, slices
from bilink.theory.conversions import ARROWS, convert, grow
from bilink.theory.counterexamples import COUNTEREXAMPLES, counterexample, witness
from bilink.theory.rankings import dense_rank, deviation, refines, same_ranking, same_scores

# Constructions without a transform or a root leave integers whole, so that == is the right test.
EXACT = {
    ("transe", "rescal", "paper"),
    ("transe", "rescal", "tight"),
    ("transe", "hole", "tight"),
    ("complex", "rescal", "tight"),
    ("complex", "hole", "tight"),
    ("distmult", "rescal", "tight"),
    ("distmult", "complex", "tight"),
    ("distmult", "hole", "tight"),
    ("rescal", "complex", "tight"),
    ("rescal", "hole", "tight"),
}
# Cells of Table 1: the size of the target for a source of size r, the paper's and the tight one.
CELLS = {
    ("rescal", "rescal"): (lambda r: r, lambda r: r),
    ("hole", "rescal"): (lambda r: r, lambda r: r),
    ("complex", "rescal"): (lambda r: 2 * r + 1, lambda r: 2 * r),
    ("distmult", "rescal"): (lambda r: r, lambda r: r),
    ("transe", "rescal"): (lambda r: 2 * r + 1, lambda r: r + 2),
    ("rescal", "hole"): (None, lambda r: max(1, r * (r + 1) - 2)),
    ("hole", "hole"): (lambda r: r, lambda r: r),
    ("complex", "hole"): (lambda r: 2 * r + 1, lambda r: 2 * r + 1),
    ("distmult", "hole"): (lambda r: 2 * r + 1, lambda r: max(1, 2 * r - 2)),
    ("transe", "hole"): (None, lambda r: 2 * r + 2 if r > 1 else 3),
    ("rescal", "complex"): (None, lambda r: r * (r + 1) // 2),
    ("hole", "complex"): (lambda r: r, lambda r: r // 2 + 1),
    ("complex", "complex"): (lambda r: r, lambda r: r),
    ("distmult", "complex"): (lambda r: r, lambda r: r),
    ("transe", "complex"): (None, lambda r: r + 1 if r > 1 else 1),
    ("distmult", "distmult"): (lambda r: r, lambda r: r),
    ("transe", "transe"): (lambda r: r, lambda r: r),
}
REFINEMENTS = {
    ("transe", "rescal"): lambda r: r + 1,
    ("transe", "complex"): lambda r: r,
    ("transe", "hole"): lambda r: 2 * r + 1,
}


def agree(level, was, now):
    if level == "scores":
        return same_scores(was, now, tolerance=1e-11)
    if level == "scores up to a constant":
        return same_scores(was, now, up_to_constant=True, tolerance=1e-11)
    if level == "ranking":
        return same_ranking(was, now, tolerance=1e-9)
    return refines(now, was, tolerance=1e-6)


def label(arrow):
    return f"{arrow.source}-{arrow.target}-{arrow.kind}-{arrow.formula}"


@pytest.mark.parametrize("arrow", ARROWS, ids=label)
@given(r=st.integers(1, 5), n=st.integers(2, 5), k=st.integers(1, 3), seed=seeds)
def test_every_arrow_keeps_what_it_says_at_the_size_it_says(arrow, r, n, k, seed):
    r = int(min(r, arrow.most))
    model = random_model(arrow.source, r, seed, n, k)
    made = arrow.build(model)
    assert made.family.name == arrow.target
    assert made.dim <= arrow.size(r, k)
    was, now = scores(model), scores(made)
    assert agree(arrow.level, was, now)
    if (arrow.source, arrow.target, arrow.kind) in EXACT and "K" not in arrow.formula:
        if arrow.target == "hole":  # as the paper's real vectors it went through a transform
            form = made.family
            now = np.array(
                [made.entities @ form.matrix(w) @ made.entities.T for w in made.relations]
            )
        if arrow.level == "ranking":
            return
        assert same_ranking(was, now)
        assert same_scores(was, now, up_to_constant=arrow.level != "scores")


@pytest.mark.parametrize("name", ["cp", "simple", "analogy", "rotate", "quate"])
def test_arrows_that_are_not_implemented_are_called_so(name):
    model = random_model(name, 4, 0, 3, 2)
    with pytest.raises(ConfigError, match="convert it to rescal first"):
        convert(model, "hole")
    with pytest.raises(ConfigError, match="no arrow from RESCAL to"):
        convert(random_model("rescal", 4, 0, 3, 2), name)


@pytest.mark.parametrize(("source", "target"), CELLS)
@given(r=st.integers(1, 6), seed=seeds)
def test_every_cell_of_table_1(source, target, r, seed):
    model = random_model(source, r, seed, n_entities=3, n_relations=r + 2, integers=False)
    paper, tight = CELLS[source, target]
    for kind, size in (("paper", paper), ("tight", tight)):
        if size is None:
            with pytest.raises(ConfigError, match="there is: "):
                convert(model, target, kind)
            continue
        made, certificate = convert(model, target, kind)
        assert made.dim == certificate.dim == size(r)
        assert certificate.deviation < 1e-12
    if (source, target) in REFINEMENTS:
        made, certificate = convert(model, target, "refinement")
        assert made.dim == REFINEMENTS[source, target](r)
        assert certificate.level == "refinement"
        assert certificate.deviation < 1e-6


@pytest.mark.parametrize("source", NAMES)
@pytest.mark.parametrize("target", ["distmult", "transe"])
@given(r=st.integers(1, 5))
def test_no_size_of_distmult_or_transe_is_enough_for_others(source, target, r):
    """Theorems 2, 8, 9, 10 and Corollary 2; true of RESCAL of size 1 already (erratum 10)."""
    model = random_model(source, r, 0)
    trivial = source == target or (target == "distmult" and (source, r) in TRIVIAL)
    if trivial:
        assert convert(model, target)[1].deviation < 1e-12
        return
    with pytest.raises(ConfigError, match=r"out of its reach") as caught:
        convert(model, target)
    shown = counterexample(target)
    assert shown.check()
    assert all(f"{row[0]} {row[1]}" in str(caught.value) for row in shown.ranking.tolist())
    assert np.array_equal(dense_rank(scores(witness(source, target, r)), 1e-9)[0], shown.ranking)


TRIVIAL = {("rescal", 1), ("hole", 1), ("hole", 2)}  # erratum 9


@given(r=st.integers(1, 5), seed=seeds)
def test_distmult_and_transe_obey_the_laws_that_their_counterexamples_break(r, seed):
    for name, shown in COUNTEREXAMPLES.items():
        assert all(shown.holds(part) for part in scores(random_model(name, r, seed)))


@pytest.mark.parametrize("name", NAMES)
@given(r=st.integers(1, 6), more=st.integers(0, 4), seed=seeds)
def test_a_larger_model_can_do_what_a_smaller_one_does(name, r, more, seed):
    model = random_model(name, r, seed)
    larger = grow(model, r + more)
    assert larger.dim == r + more
    assert same_scores(scores(model), scores(larger), tolerance=1e-11)


def test_zeros_at_the_end_of_hole_change_its_scores():
    """Erratum 11: the footnote on growing sizes is true of HolE, but not by padding."""
    model = random_model("hole", 3, seed=1)
    vectors = model.family.export(model.entities, model.relations)
    padded = model.family.restore(*(np.pad(rows, ((0, 0), (0, 1))) for rows in vectors))
    assert not same_scores(
        scores(model), scores(Model(model.family, 4, *padded)), up_to_constant=True, tolerance=0.01
    )


def test_complex_without_the_conjugate_would_be_symmetric():
    """Erratum 2: the formula as printed."""
    random = np.random.default_rng(0)
    e, w = (random.normal(size=(n, 3)) + 1j * random.normal(size=(n, 3)) for n in (4, 1))
    printed = (e * w) @ e.T
    np.testing.assert_allclose(printed.real, printed.real.T, atol=1e-12)
    x, y, c, d = e.real, e.imag, w.real, w.imag  # a DistMult model of three times the size
    entities, weights = np.hstack([x, y, x + y]), np.hstack([c + d, d - c, -d])
    np.testing.assert_allclose((entities * weights) @ entities.T, printed.real, atol=1e-12)
    with_conjugate = ((e * w) @ e.conj().T).real
    assert not np.allclose(with_conjugate, with_conjugate.T)
    np.testing.assert_allclose(((e * w.conj()) @ e.conj().T).real, with_conjugate.T, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rescal", lambda r: (r, r * (r + 1) // 2, r * (r - 1) // 2)),
        ("hole", lambda r: (r, r // 2 + 1, (r - 1) // 2)),
        ("complex", lambda r: (2 * r, r, r)),
        ("distmult", lambda r: (r, r, 0)),
        ("transe", lambda r: (r + 2, 2, r)),
    ],
)
@pytest.mark.parametrize("r", [1, 2, 3, 4])
def test_the_invariants_that_make_the_sizes_optimal(name, expected, r):
    """Rank of a slice, and dimensions spanned by symmetric and antisymmetric parts."""
    model = random_model(name, r, seed=3, n_entities=3 * r + 6, n_relations=20, integers=False)
    assert invariants(scores(model)) == expected(r)


def test_few_relations_of_rescal_get_coordinates_of_their_own():
    model = random_model("rescal", 12, seed=0, n_relations=1, integers=False)
    made, certificate = convert(model, "complex")
    assert made.dim <= 10 < 12 * 13 // 2
    assert certificate.deviation < 1e-12
    assert convert(model, "hole")[0].dim <= 2 * 10 + 1


def test_single_precision_is_converted_in_double():
    model = random_model("transe", 6, seed=0, n_entities=30, integers=False)
    single = Model(model.family, 6, *(x.astype("f4") for x in (model.entities, model.relations)))
    made, certificate = convert(single, "RESCAL")
    assert made.entities.dtype == made.relations.dtype == np.float64
    assert certificate.deviation < 1e-13
    assert certificate.compared == 2 * 30 * 30


def test_a_wrong_construction_gets_no_certificate(monkeypatch):
    right = next(a for a in ARROWS if label(a) == "distmult-rescal-tight-r")

    def build(model):
        made = right.build(model)
        made.relations[0, 0] += 0.01
        return made

    monkeypatch.setattr(conversions, "ARROWS", (replace(right, build=build),))
    with pytest.raises(DataError, match="double precision is not enough"):
        convert(random_model("distmult", 3, seed=0), "rescal")


@pytest.mark.parametrize("level", ["ranking", "refinement"])
def test_a_wrong_order_gets_no_certificate(monkeypatch, level):
    right = next(a for a in ARROWS if label(a) == "transe-rescal-tight-r + 2")

    def build(model):
        made = right.build(model)
        return Model(made.family, made.dim, made.entities[::-1].copy(), made.relations)

    model = random_model("transe", 2, seed=0)
    monkeypatch.setattr(conversions, "ARROWS", (replace(right, level=level),))
    assert convert(model, "rescal")[1].deviation < 1e-12
    monkeypatch.setattr(conversions, "ARROWS", (replace(right, level=level, build=build),))
    with pytest.raises(DataError, match="double precision is not enough"):
        convert(model, "rescal")


def test_ties_count_for_a_ranking_but_not_for_a_refinement():
    was, now = np.array([0.0, 1, 1, 2]), np.array([0.0, 1, 1.5, 2])
    assert deviation(was, now, "refinement") == 0
    assert deviation(was, now, "ranking") == 0.25


def test_bad_wishes_get_a_sentence(monkeypatch):
    model = random_model("complex", 3, seed=0)
    for wish, message in (
        ({"to": "rescla"}, "did you mean 'rescal'"),
        ({"to": "rescal", "construction": "best"}, "one of paper, tight"),
        ({"to": "rescal", "dim": 5}, "below the bound: this RESCAL model needs 6"),
        ({"to": "rescal", "construction": "refinement"}, "there is: paper, tight"),
        ({"to": "transe-l1"}, "no bilinear form"),
    ):
        with pytest.raises(BilinkError, match=message):
            convert(model, **wish)
    assert convert(model, "rescal", dim=9)[0].dim == 9
    monkeypatch.setattr(slices, "physical_memory", lambda: 1e6)
    large = Model(family("complex"), 200, np.zeros((2, 400)), np.zeros((3, 400)))
    with pytest.raises(ConfigError, match="does not fit into the memory"):
        convert(large, "rescal")


@pytest.mark.parametrize(
    ("n_entities", "n_relations", "value", "message"),
    [
        (1, 1, 1.0, "two entities and one relation"),
        (3, 0, 1.0, "two entities and one relation"),
        (3, 1, np.nan, "not finite"),
        (3, 1, np.inf, "not finite"),
    ],
)
def test_models_without_scores_get_a_sentence(n_entities, n_relations, value, message):
    shapes = (n_entities, 2), (n_relations, 2)
    model = Model(family("transe"), 2, *(np.full(shape, value) for shape in shapes))
    with pytest.raises(DataError, match=message):
        convert(model, "rescal")
