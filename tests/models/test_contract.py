"""What every model must satisfy.  A new model is tested by being registered."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from bilink.errors import ConfigError
from bilink.models.model import Model
from bilink.models.registry import FAMILIES, family
from bilink.models.storage import load_model, save_model

every_model = pytest.mark.parametrize("name", sorted(FAMILIES))
BILINEAR = sorted(name for name, found in FAMILIES.items() if found.form.is_product)
every_bilinear_model = pytest.mark.parametrize("name", BILINEAR)
seeds = st.integers(0, 2**32 - 1)
dims = st.integers(1, 9)
SIDES = ("head", "tail")


def random_model(name, dim, seed, n_entities=5, n_relations=2, dtype=np.float64):
    random = np.random.default_rng(seed)
    found = family(name)
    entity_width, relation_width = found.widths(dim)
    return Model(
        found,
        dim,
        random.normal(size=(n_entities, entity_width)).astype(dtype),
        random.normal(size=(n_relations, relation_width)).astype(dtype),
    )


def all_triples(model):
    n, k = len(model.entities), len(model.relations)
    return np.array([(h, r, t) for h in range(n) for r in range(k) for t in range(n)])


@every_model
@given(dim=dims, seed=seeds)
def test_scores_are_those_of_the_papers_formula(name, dim, seed):
    model = random_model(name, dim, seed)
    entities, relations = model.family.export(model.entities, model.relations)
    expected = [
        naive.score(name, entities[h], relations[r], entities[t]) for h, r, t in all_triples(model)
    ]
    np.testing.assert_allclose(model.score(all_triples(model)), expected, rtol=1e-9, atol=1e-9)


@every_model
@given(dim=dims, seed=seeds)
def test_query_times_candidate_is_the_score_from_both_sides(name, dim, seed):
    model = random_model(name, dim, seed)
    triples = all_triples(model)
    for side, given_column, answer in (("head", 2, 0), ("tail", 0, 2)):
        block = model.scorer.scores(side, triples[:, given_column], triples[:, 1])
        scores = block[np.arange(len(triples)), triples[:, answer]]
        np.testing.assert_allclose(scores, model.score(triples), rtol=1e-9, atol=1e-9)


@every_bilinear_model
@given(dim=dims, seed=seeds)
def test_the_matrix_form_is_the_score(name, dim, seed):
    model = random_model(name, dim, seed)
    rows = model.family.form.candidates(model.entities)
    matrices = [model.family.matrix(relation) for relation in model.relations]
    expected = [rows[h] @ matrices[r] @ rows[t] for h, r, t in all_triples(model)]
    np.testing.assert_allclose(model.score(all_triples(model)), expected, rtol=1e-9, atol=1e-8)


@every_model
@pytest.mark.parametrize("side", SIDES)
@given(dim=dims, seed=seeds)
def test_backward_functions_match_finite_differences(name, side, dim, seed):
    """d⟨gradient, query⟩ in the entity and the relation is what the backward function says."""
    model = random_model(name, dim, seed)
    kernels = model.family.kernels
    query_of, backward = kernels[f"{side}_query"], kernels[f"{side}_backward"]
    entity, relation = model.entities[0], model.relations[0]
    width = model.family.query_width(len(entity))
    gradient = np.random.default_rng(seed + 1).normal(size=width)

    def value(entity, relation):
        query = np.empty(width)
        query_of(entity, relation, query)
        return gradient @ query

    to_entity, to_relation = np.ones_like(entity), np.ones_like(relation)
    backward(entity, relation, gradient, to_entity, to_relation)  # adds to what is there
    np.testing.assert_allclose(
        to_entity - 1, numeric_gradient(lambda x: value(x, relation), entity), atol=1e-6
    )
    np.testing.assert_allclose(
        to_relation - 1, numeric_gradient(lambda x: value(entity, x), relation), atol=1e-6
    )


@every_model
@given(dim=dims, seed=seeds)
def test_gradients_of_the_form_match_finite_differences(name, dim, seed):
    model = random_model(name, dim, seed)
    kernels = model.family.kernels
    query, entity = np.empty(model.family.query_width(model.entities.shape[1])), model.entities[1]
    kernels["tail_query"](model.entities[0], model.relations[0], query)
    for which, at in (("query_gradient", query), ("entity_gradient", entity)):
        out = np.ones_like(at)
        kernels[which](query, entity, 0.7, out)
        pair = (lambda x: (x, entity)) if which == "query_gradient" else (lambda x: (query, x))
        expected = numeric_gradient(lambda x, pair=pair: 0.7 * kernels["compare"](*pair(x)), at)
        np.testing.assert_allclose(out - 1, expected, atol=1e-6)


def numeric_gradient(function, at, step=1e-6):
    gradient = np.empty_like(at)
    for k in range(len(at)):
        up, down = at.copy(), at.copy()
        up[k] += step
        down[k] -= step
        gradient[k] = (function(up) - function(down)) / (2 * step)
    return gradient


@every_model
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_model_survives_saving_and_loading(name, dtype, tmp_path):
    model = random_model(name, 6, seed=1, dtype=dtype)
    save_model(model, tmp_path / "model.safetensors")
    again = load_model(tmp_path / "model.safetensors")
    assert (again.family, again.dim) == (model.family, model.dim)
    assert again.entities.dtype == dtype
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(again.entities, model.entities, atol=tolerance)
    np.testing.assert_allclose(again.relations, model.relations, atol=tolerance)
    if name != "hole":  # which passes through a Fourier transform
        np.testing.assert_array_equal(again.entities, model.entities)


@every_model
def test_one_triple_scores_as_it_does_among_many(name):
    model = random_model(name, 5, seed=2)
    triples = all_triples(model)
    many = model.score(triples)
    assert [model.score(triple)[0] for triple in triples] == many.tolist()


@every_model
def test_float32_and_float64_agree(name):
    model = random_model(name, 8, seed=3)
    single = Model(
        model.family, 8, *(x.astype(np.float32) for x in (model.entities, model.relations))
    )
    assert single.score(all_triples(model)).dtype == np.float32
    np.testing.assert_allclose(
        single.score(all_triples(model)), model.score(all_triples(model)), rtol=1e-4, atol=1e-4
    )


@given(dim=st.integers(1, 12), seed=seeds)
def test_hole_keeps_norms_in_fourier_coordinates(dim, seed):
    hole = family("hole")
    rows = np.random.default_rng(seed).normal(size=(4, dim))
    turned, _ = hole.restore(rows, rows)
    np.testing.assert_allclose(np.linalg.norm(turned, axis=1), np.linalg.norm(rows, axis=1))
    back, _ = hole.export(turned, turned)
    np.testing.assert_allclose(back, rows, atol=1e-12)


def test_an_unknown_model_gets_a_suggestion():
    with pytest.raises(ConfigError, match="did you mean 'transe'"):
        family("tranE")
    assert family("ComplEx").name == "complex"
