"""The compiled step against finite differences of a loss that is written out plainly."""

from dataclasses import replace

import numpy as np
import pytest

import naive
from bilink.data.graph import Graph
from bilink.data.vocabulary import Vocabulary
from bilink.models.model import Model
from bilink.models.registry import FAMILIES
from bilink.training import margin
from bilink.training.config import MarginConfig
from bilink.training.margin import MarginEngine

RATE = 1e-3


def one_triple_graph(n_entities=4):
    none = np.empty((0, 3))
    names = tuple("abcdefgh"[:n_entities])
    return Graph(
        "one",
        Vocabulary("entity", names),
        Vocabulary("relation", ("r",)),
        np.array([[0, 0, 1]]),
        none,
        none,
    )


def random_model(name, dim, n_entities, seed=0):
    random = np.random.default_rng(seed)
    model = Model.empty(name, dim, n_entities, 1)
    entities = random.normal(size=model.entities.shape)
    relations = random.normal(size=model.relations.shape)
    return Model(model.family, dim, entities, relations)  # float64


@pytest.mark.parametrize("negatives", [1, 3])
@pytest.mark.parametrize("loss", ["margin", "sigmoid-margin", "logistic"])
@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_a_step_of_sgd_is_the_gradient_of_the_loss(name, loss, negatives):
    """With four entities, each step draws negatives among the two or three that are not known."""
    graph = one_triple_graph()
    for seed in range(4):
        model = random_model(name, 3, 4, seed)
        config = MarginConfig(
            optimizer="sgd",
            learning_rate=RATE,
            loss=loss,
            margin=2.0,
            negatives=negatives,
            seed=seed,
            threads=1,
        )
        before = (model.entities.copy(), model.relations.copy())
        MarginEngine(model, graph, config).run_epoch(0)
        moves = [
            (a - b) / -RATE for a, b in zip((model.entities, model.relations), before, strict=True)
        ]
        fits = [
            all(np.allclose(m, g, atol=1e-4) for m, g in zip(moves, expected, strict=True))
            for expected in possible_gradients(name, loss, before, negatives)
        ]
        assert any(fits)


def possible_gradients(name, loss, arrays, negatives):
    """The gradients for every choice of corruptions that the step may have drawn."""
    model = random_model(name, 3, 4)
    model.entities[:], model.relations[:] = arrays
    from itertools import combinations_with_replacement

    for side, allowed in (("head", (1, 2, 3)), ("tail", (0, 2, 3))):
        for others in combinations_with_replacement(allowed, negatives):

            def value(side=side, others=others):
                corrupted = [(e, 0, 1) if side == "head" else (0, 0, e) for e in others]
                present = replace(model)  # a scorer of the parameters as they are now
                positive, *others = present.score([(0, 0, 1), *corrupted])
                return sum(naive.pair_loss(loss, 2.0, positive, other) for other in others)

            yield [
                naive.numeric_gradient(value, array) for array in (model.entities, model.relations)
            ]


def test_adagrad_divides_by_the_root_of_the_summed_squares():
    graph = one_triple_graph(n_entities=3)
    model = random_model("distmult", 3, 3)
    before = model.entities.copy()
    config = MarginConfig(margin=100.0, learning_rate=0.5, threads=1)
    engine = MarginEngine(model, graph, config)
    engine.run_epoch(0)
    moved = before != model.entities
    assert moved.any()
    # After one step from zero, the state is the squared gradient, so each step has length rate.
    np.testing.assert_allclose(np.abs(model.entities - before)[moved], 0.5, rtol=1e-3)
    assert (engine.state["entity_state"][moved] > 0).all()
    assert (engine.state["entity_state"][~moved] == 0).all()


def test_the_penalty_pulls_the_touched_rows_towards_zero():
    graph = one_triple_graph(n_entities=8)
    plain, pulled = random_model("distmult", 3, 8), random_model("distmult", 3, 8)
    start = plain.entities.copy()
    options = {"optimizer": "sgd", "learning_rate": RATE, "margin": 100.0, "threads": 1}
    base = MarginConfig(**options)
    MarginEngine(plain, graph, base).run_epoch(0)
    both = base.with_options({"regularization.entity": 2.0, "regularization.relation": 3.0})
    start_relations = pulled.relations.copy()
    MarginEngine(pulled, graph, both).run_epoch(0)
    touched = (plain.entities != start).any(axis=1)
    assert touched.sum() == 3  # head, tail and one rival
    np.testing.assert_allclose(
        (pulled.entities - plain.entities)[touched], -RATE * 2 * start[touched], atol=1e-9
    )
    np.testing.assert_array_equal(pulled.entities[~touched], start[~touched])
    np.testing.assert_allclose(
        pulled.relations - plain.relations, -RATE * 3 * start_relations, atol=1e-9
    )


@pytest.mark.parametrize(("constraint", "low", "high"), [("ball", 0, 1), ("sphere", 1, 1)])
def test_constraints_hold_for_the_touched_rows(constraint, low, high):
    graph = one_triple_graph(n_entities=3)
    model = random_model("complex", 4, 3)
    model.entities[:] *= 3
    start = model.entities.copy()
    config = MarginConfig(margin=100.0, constraint=constraint, corrupt="both", threads=1)
    MarginEngine(model, graph, config).run_epoch(0)
    norms = np.linalg.norm(model.entities, axis=1)[(model.entities != start).any(axis=1)]
    assert (norms >= low - 1e-5).all()
    assert (norms <= high + 1e-5).all()


def test_pairs_that_keep_the_margin_move_nothing():
    graph = one_triple_graph()
    model = random_model("transe", 3, 4)
    model.entities[1] = model.entities[0] + model.relations[0]  # the positive scores zero
    start = model.entities.copy()
    totals = MarginEngine(model, graph, MarginConfig(margin=0.0, threads=1)).run_epoch(0)
    np.testing.assert_array_equal(model.entities, start)
    assert (totals.loss, totals.violated, totals.pairs) == (0, 0, 1)


def test_a_nan_shows_in_the_loss():
    graph = one_triple_graph()
    for loss in ("margin", "sigmoid-margin", "logistic"):
        model = random_model("distmult", 3, 4)
        model.entities[:] = np.nan
        totals = MarginEngine(model, graph, MarginConfig(loss=loss, threads=1)).run_epoch(0)
        assert np.isnan(totals.loss)


def test_more_triples_than_32_bits_can_number_are_numbered_by_64(monkeypatch):
    assert margin.place_type(2**31 - 1) == np.int32
    assert margin.place_type(2**31) == np.int64
    graph, config = one_triple_graph(), MarginConfig(threads=1)
    trained = []
    for number in (np.int32, np.int64):
        monkeypatch.setattr(margin, "place_type", lambda n, number=number: number)
        model = random_model("distmult", 3, 4)
        MarginEngine(model, graph, config).run_epoch(0)
        trained.append(model)
    np.testing.assert_array_equal(trained[0].entities, trained[1].entities)


def corruptions(n_entities):
    """All that may stand in place of the one triple (0, 0, 1)."""
    for e in range(n_entities):
        if e != 0:
            yield (e, 0, 1)
        if e != 1:
            yield (0, 0, e)


def in_paper(model):
    """Rows as the model's paper has them."""
    return model.family.export(model.entities.copy(), model.relations.copy())


@pytest.mark.parametrize("dim", [5, 6])  # one or two real coordinates
@pytest.mark.parametrize("loss", ["margin", "sigmoid-margin"])
def test_sgd_on_fourier_rows_is_sgd_on_the_real_vectors_of_hole(loss, dim):
    """So a learning rate and a penalty mean what they mean in the paper."""
    model = random_model("hole", dim, 4, seed=dim)
    before = in_paper(model)
    penalties = {"entity": 0.3, "relation": 0.7}
    config = MarginConfig(
        optimizer="sgd", learning_rate=0.1, loss=loss, margin=9.0, threads=1, coordinates="paper"
    ).with_options({"regularization": penalties})
    MarginEngine(model, one_triple_graph(), config).run_epoch(0)
    found = in_paper(model)
    step = "hole", loss, 9.0, 0.1, tuple(penalties.values()), *before, (0, 0, 1)
    wanted = [naive.sgd_step(*step, negative) for negative in corruptions(4)]
    assert any(
        all(np.allclose(f, w, atol=1e-7) for f, w in zip(found, arrays, strict=True))
        for arrays in wanted
    )


@pytest.mark.parametrize("name", ["hole", "hole-reciprocal", "distmult"])
def test_a_first_step_of_adagrad_is_as_long_in_the_parameters_of_the_paper(name):
    model = random_model(name, 6, 4)
    before = in_paper(model)[1]
    config = MarginConfig(margin=99.0, learning_rate=0.1, threads=1, coordinates="paper")
    MarginEngine(model, one_triple_graph(), config).run_epoch(0)
    # Each orthonormal coordinate moves by the learning rate.
    assert np.linalg.norm(in_paper(model)[1] - before) == pytest.approx(0.1 * np.sqrt(6), 1e-6)


@pytest.mark.parametrize("seed", range(3))  # none draws a loop, whose rows move in another order
def test_positive_and_negative_of_transe_have_a_step_each(seed):
    model = random_model("transe", 3, 4, seed)
    start = model.entities.copy(), model.relations.copy()
    config = MarginConfig(
        margin=99.0,
        learning_rate=0.3,
        epsilon=0.01,
        threads=1,
        seed=seed,
        steps="triple",
        constraint="ball-all",
    )
    engine = MarginEngine(model, one_triple_graph(), config)
    found = [model.entities, model.relations, *engine.state.values()]
    fits = []
    engine.run_epoch(0)
    for negative in corruptions(4):
        arrays, squares = [a.copy() for a in start], [np.zeros_like(a) for a in start]
        naive.two_steps_of_transe(*arrays, squares, 0.3, 0.01, (0, 0, 1), negative)
        wanted = [*arrays, *squares]
        fits.append(all(np.allclose(f, w) for f, w in zip(found, wanted, strict=True)))
    assert any(fits)


def test_relations_stay_in_the_ball_in_the_parameters_of_the_paper():
    model = random_model("hole", 6, 4)
    config = MarginConfig(margin=99.0, threads=1, coordinates="paper", constraint="ball-all")
    MarginEngine(model, one_triple_graph(), config).run_epoch(0)
    assert np.linalg.norm(in_paper(model)[1]) == pytest.approx(1)


def test_the_constant_under_the_root_makes_small_gradients_make_small_steps():
    moved = []
    for epsilon in (1e-24, 1e-2):
        model = random_model("distmult", 3, 4)
        model.relations[:] *= 1e-3
        before = model.entities.copy()
        config = MarginConfig(margin=99.0, learning_rate=0.5, threads=1, epsilon=epsilon)
        MarginEngine(model, one_triple_graph(), config).run_epoch(0)
        moved.append(np.abs(model.entities - before).max())
    assert moved[0] == pytest.approx(0.5)
    assert moved[1] < 0.05
