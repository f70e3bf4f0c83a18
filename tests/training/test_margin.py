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
