"""PTransE: flows against a slow reference, the gradient of the path loss, and the whole run."""

import numpy as np
import pytest
from test_mining import directed_facts
from typer.testing import CliRunner

import bilink
from bilink.cli import app
from bilink.errors import ConfigError
from bilink.paths.flows import FlowScorer
from bilink.paths.mining import mine
from bilink.paths.rules import MiningConfig
from bilink.training.path_loss import PathLoss
from conftest import random_graph


def made(length=3, seed=0, unit=0.0):
    graph = random_graph(n_entities=12, n_relations=2, size=60, seed=seed)
    rules = mine(graph, MiningConfig(length=length, constants=False, support=1, effort=100))
    values = np.random.default_rng(seed).uniform(0.1, 1, len(rules.paths))
    return graph, rules, FlowScorer(rules, graph, values, unit)


def slow_flow(edges, steps, x):
    """Amounts that reach each entity from x; no entity of a walk repeats."""
    found, ways = {}, [((x,), 1.0)]
    for d in steps:
        ways = [
            ((*way, y), amount / len(edges.get((way[-1], d), ())))
            for way, amount in ways
            for y in edges.get((way[-1], d), ())
            if y not in way
        ]
    for way, amount in ways:
        found[way[-1]] = found.get(way[-1], 0) + amount
    return found


@pytest.mark.parametrize("unit", [0, 0.01])
@pytest.mark.parametrize("length", [1, 2, 3])
def test_flows_are_those_of_a_slow_reference_from_both_sides(length, unit):
    graph, rules, scorer = made(length, unit=unit)
    k, n = len(graph.relations), len(graph.entities)
    edges = {}
    for x, d, y in directed_facts(graph.train, k):
        edges.setdefault((x, d), set()).add(y)
    assert len(rules.paths) > 5
    for relation in range(k):
        wanted = np.zeros((n, n))
        for path, value in zip(rules.paths, scorer.values, strict=True):
            if path[0] == relation:
                for h in range(n):
                    for t, amount in slow_flow(edges, [d for d in path[1:] if d >= 0], h).items():
                        wanted[h, t] += value * amount
        if unit:
            wanted = np.log(1 + wanted / unit)
        everyone = np.arange(n)
        tails = scorer.scores("tail", everyone, np.full(n, relation))
        heads = scorer.scores("head", everyone, np.full(n, relation))
        np.testing.assert_allclose(tails, wanted, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(heads.T, wanted, rtol=1e-5, atol=1e-7)
        places, said = scorer.named_facts(everyone, relation)
        again = np.zeros((n, n))
        again[places[:, 0], places[:, 1]] = said
        np.testing.assert_allclose(again, wanted, rtol=1e-9)


def test_the_weights_of_paths_are_what_flows_between_facts():
    graph, rules, scorer = made(2)
    edges = {}
    for x, d, y in directed_facts(graph.train, len(graph.relations)):
        edges.setdefault((x, d), set()).add(y)
    facts = graph.train[graph.train[:, 1] == 1][:, [0, 2]]
    found = scorer.reliability(facts, 1)
    for i, path in enumerate(rules.paths):
        steps = [d for d in path[1:] if d >= 0]
        wanted = sum(slow_flow(edges, steps, h).get(t, 0) for h, t in facts if path[0] == 1)
        assert found[i] == pytest.approx(wanted)


def test_the_gradient_of_the_path_loss_is_that_of_finite_differences():
    _, rules, _ = made(3)
    random = np.random.default_rng(1)
    loss = PathLoss(rules, random.uniform(0, 2, len(rules.paths)))
    relations = random.normal(size=(2, 5))
    rows = np.arange(len(rules.paths))
    value, gradient = loss.gradient(relations, rows)
    assert value > 0
    for place in np.ndindex(relations.shape):
        step = np.zeros_like(relations)
        step[place] = 1e-5
        ends = [loss.gradient(relations + sign * step, rows)[0] for sign in (1, -1)]
        assert gradient[place] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4, abs=1e-6)


def test_paths_and_translations_are_trained_together(tmp_path):
    graph = bilink.load_graph("atlas")
    options = {"epochs": 5, "seed": 3, "threads": 1}
    run = bilink.train(graph, "ptranse", 16, options=options, out=tmp_path / "run")
    alone = bilink.train(graph, "transe", 16, options=options)
    assert run.evaluate("test").metrics()["mrr"] > alone.evaluate("test").metrics()["mrr"] + 0.1
    # The path loss has moved the relations: their paths agree with them more than before.
    rules = run.path_models["paths"].rules
    loss = PathLoss(rules, np.ones(len(rules.paths)))
    moved = loss.agreement(run.models["transe"].relations).mean()
    assert moved > loss.agreement(alone.model.relations).mean()
    again = bilink.load(tmp_path / "run")
    triples = graph.test[:50]
    np.testing.assert_array_equal(again.scorer.score(triples), run.scorer.score(triples))
    assert len(again.query(relation="borders", new=True)) > 0


def test_the_command(tmp_path):
    out = str(tmp_path / "run")
    words = ["train", "atlas", "--model", "ptranse", "--dim", "8", "--out", out]
    result = CliRunner().invoke(app, [*words, "--set", "epochs=1", "--set", "length=1"])
    assert result.exit_code == 0, result.output
    assert "next: bilink rules" in result.output
    with pytest.raises(ConfigError, match="path_rate must be a number of at least 0, not 'x'"):
        bilink.train("atlas", "ptranse", path_rate="x")
