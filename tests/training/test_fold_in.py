"""A new entity gets a row from its facts, with all else frozen."""

import numpy as np
import pytest

import bilink
from bilink.errors import ConfigError
from bilink.models.model import Model
from bilink.models.registry import FAMILIES, family
from bilink.training.fold_in import Frozen, fold_in, fold_in_gradient, relation_gradient
from conftest import random_graph


def random_model(name, n_entities=12, n_relations=3, dim=4, seed=0):
    random = np.random.default_rng(seed)
    widths = family(name).widths(dim)
    shapes = zip((n_entities, n_relations), widths, strict=True)
    return Model(family(name), dim, *(random.normal(0, 0.5, shape) for shape in shapes))


def naive_loss(score, queries, places, totals, negatives, offsets, asked, answers, weights, beta):
    """The sums of ``fold_in_gradient``, written out."""
    loss = sum(
        w * np.log1p(np.exp(beta * score(q) - a))
        for q, a, w in zip(asked, answers, weights, strict=True)
    )
    for query, place, total in zip(queries, places, totals, strict=True):
        there = zip(negatives[place], offsets[place], strict=True)
        others = sum(np.exp(o + beta * score(q)) for q, o in there if o > -np.inf)
        right = np.exp(beta * score(query))
        loss += np.log((right + np.exp(total)) / right) + np.log((right + others) / right)
    return loss


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_the_loss_is_the_formula_and_its_gradient_that_of_finite_differences(name):
    random = np.random.default_rng(1)
    width = family(name).widths(3)[0]
    row = random.normal(size=width)
    queries = family(name).query_width(width)
    data = (
        random.normal(size=(3, queries)),
        np.array([0, 1, 1]),
        random.normal(size=3),
        random.normal(size=(2, 4, queries)),
        np.array([[0.5, -np.inf, 1, 0], [0, 0, -np.inf, 2.0]]),
        random.normal(size=(5, queries)),
        random.normal(size=5),
        random.uniform(0, 3, 5),
    )
    kernel, compare = family(name).bind(fold_in_gradient), family(name).kernels["compare"]

    def loss(at):
        return kernel(at, *data, 0.7, np.zeros(width))

    assert loss(row) == pytest.approx(naive_loss(lambda q: compare(q, row), *data, 0.7))
    gradient = np.zeros(width)
    kernel(row, *data, 0.7, gradient)
    steps = 1e-6 * np.eye(width)
    expected = [(loss(row + step) - loss(row - step)) / 2e-6 for step in steps]
    np.testing.assert_allclose(gradient, expected, atol=1e-5)


@pytest.mark.parametrize("name", [*sorted(FAMILIES), "complex-reciprocal", "transe-reciprocal"])
@pytest.mark.parametrize("is_tail", [True, False])
def test_the_loss_of_a_relation_is_the_formula_and_its_gradient_that_of_finite_differences(
    name, is_tail
):
    random = np.random.default_rng(2)
    width, relation_width = family(name).widths(3)
    row = random.normal(size=relation_width)
    given, answers, negatives = (random.normal(size=(n, width)) for n in (3, 3, 4))
    offsets = np.array([[0.5, -np.inf, 1, 0], [0, 0, -np.inf, 2.0], [-np.inf] * 4])
    kernels = family(name).kernels
    kernel = family(name).bind(relation_gradient)

    def loss(at):
        return kernel(at, given, answers, negatives, offsets, is_tail, 0.7, np.zeros(len(row)))

    def naive():
        total = 0.0
        for i in range(2):  # the third question has no negatives
            query = np.empty(family(name).query_width(width))
            kernels["tail_query" if is_tail else "head_query"](given[i], row, query)
            right = np.exp(0.7 * kernels["compare"](query, answers[i]))
            wrong = sum(
                np.exp(offsets[i, j] + 0.7 * kernels["compare"](query, negatives[j]))
                for j in range(4)
            )
            total += np.log((right + wrong) / right)
        return total

    assert loss(row) == pytest.approx(naive())
    gradient = np.zeros(len(row))
    kernel(row, given, answers, negatives, offsets, is_tail, 0.7, gradient)
    steps = 1e-6 * np.eye(len(row))
    expected = [(loss(row + step) - loss(row - step)) / 2e-6 for step in steps]
    np.testing.assert_allclose(gradient, expected, atol=1e-5)


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_old_entities_stay_and_new_ones_are_finite(name):
    graph, model = random_graph(), random_model(name)
    facts = np.array([[12, 0, 1], [2, 1, 12], [12, 2, 13], [13, 0, 13], [14, 1, 13]])
    more = fold_in(Frozen.of(model, graph), facts, 4)  # the last has no fact at all
    assert more.entities.shape == (16, model.entities.shape[1])
    np.testing.assert_array_equal(more.entities[:12], model.entities)
    assert np.isfinite(more.entities).all()
    again = fold_in(Frozen.of(model, graph), facts, 4)
    np.testing.assert_array_equal(more.entities, again.entities)


def test_queries_too_wide_to_hold_are_refused(monkeypatch):
    frozen = Frozen.of(random_model("transr"), random_graph())
    facts = np.array([[12, 0, 1], [2, 1, 12]])
    fold_in(frozen, facts, 1)
    monkeypatch.setattr("bilink.training.fold_in.MEMORY", 300_000)
    with pytest.raises(ConfigError, match=r"a query of TransR, dim 4, has 20 numbers"):
        fold_in(frozen, facts, 1)


def test_small_blocks_of_scores_change_no_more_than_rounding(monkeypatch):
    graph, model = random_graph(), random_model("complex")
    facts = np.array([[12, r, t] for r in range(3) for t in range(6)])
    whole = fold_in(Frozen.of(model, graph), facts, 1)
    monkeypatch.setattr("bilink.models.scorer.BLOCK_MEMORY", 1)  # one question at a time
    parts = fold_in(Frozen.of(model, graph), facts, 1)
    np.testing.assert_allclose(parts.entities, whole.entities, atol=1e-4)


@pytest.fixture(scope="module")
def atlas():
    options = {"regularization": {"entity": 0.02, "relation": 0.02}, "decay": 0.97}
    options |= {"epochs": 20, "batch_size": 500, "threads": 1, "validation_triples": 0}
    return bilink.train("atlas", "complex", 20, options=options)


def test_a_twin_made_of_half_the_facts_answers_the_other_half(atlas):
    """And it does not push itself before others."""
    graph, random = atlas.graph, np.random.default_rng(0)
    degrees = np.bincount(graph.train[:, [0, 2]].ravel(), minlength=len(graph.entities))
    chosen = np.argsort(-degrees)[20:32]
    new, old = len(graph.entities), atlas.model.entities
    known, hidden = [], []
    for i, e in enumerate(chosen):
        own = graph.train[(graph.train[:, [0, 2]] == e).sum(axis=1) == 1]
        own = random.permutation(np.where(own == [e, -1, e], [new + i, 0, new + i], own))
        known.append(own[::2])
        hidden.append(own[1::2])
    more = fold_in(Frozen.of(atlas.model, graph), np.concatenate(known), len(chosen))
    mean = Model(more.family, more.dim, more.entities.copy(), more.relations)
    mean.entities[new:] = old.mean(axis=0)
    facts = np.concatenate(hidden)
    facts = facts[facts[:, 0] >= new]
    found = {}
    for title, model in (("folded", more), ("mean", mean)):
        block = model.scorer.scores("tail", *facts[:, :2].T)
        right = block[np.arange(len(facts)), facts[:, 2]]
        found[title] = np.mean(1 / (1 + (block > right[:, None]).sum(axis=1)))
    assert found["folded"] > 2 * found["mean"]
    valid = graph.valid
    block = more.scorer.scores("tail", valid[:, 0], valid[:, 1])
    assert (block.argmax(axis=1) >= new).mean() < 0.02


def test_a_relation_learnt_from_half_of_its_facts_answers_the_other_half(atlas):
    """As a copy of one that the model knows, under another name."""
    graph = atlas.graph
    r = graph.relations.find("borders")
    own = np.random.default_rng(0).permutation(graph.train[graph.train[:, 1] == r])
    new = len(graph.relations)
    own[:, 1] = new
    more = fold_in(Frozen.of(atlas.model, graph), own[::2], relations=1)
    np.testing.assert_array_equal(more.relations[:new], atlas.model.relations)
    mean = Model(more.family, more.dim, more.entities, more.relations.copy())
    mean.relations[new] = atlas.model.relations.mean(axis=0)
    found = {}
    for title, model in (("folded", more), ("mean", mean)):
        block = model.scorer.scores("tail", *own[1::2, :2].T)
        right = block[np.arange(len(block)), own[1::2, 2]]
        found[title] = np.mean(1 / (1 + (block > right[:, None]).sum(axis=1)))
    assert found["folded"] > 2 * found["mean"]
