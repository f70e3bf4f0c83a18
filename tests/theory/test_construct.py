"""Consistent models: all facts above all non-facts, as scored, stored and ranked."""

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bilink
from bilink.data.graph import Graph
from bilink.data.vocabulary import Vocabulary
from bilink.errors import BilinkError
from bilink.models.storage import load_model, save_model
from bilink.runs.made import construct_run
from bilink.theory.consistent_models import _stored, consistent_model, construct, sizes
from bilink.theory.rounding.certificates import Factors, model_margin
from conftest import random_graph

FAMILIES = ("rescal", "complex", "hole")
EFFORT = 0.02


def all_scores(model, k):
    n = len(model.entities)
    heads, tails = np.divmod(np.arange(n * n), n)
    triples = np.stack([heads, np.full(n * n, k), tails], axis=1)
    return model.score(triples).reshape(n, n)


def truth_of(triples, n, k):
    truth = np.zeros((n, n), dtype=bool)
    mine = triples[triples[:, 1] == k]
    truth[mine[:, 0], mine[:, 2]] = True
    return truth


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=4),
    st.sampled_from(FAMILIES),
    st.integers(0, 1000),
)
def test_a_model_of_factors_scores_as_their_product(ranks, name, seed):
    random = np.random.default_rng(seed)
    factors = [
        Factors(random.normal(size=(40, r)), random.normal(size=(40, r)), 0.5) for r in ranks
    ]
    factors.append(Factors(factors[0].right, factors[0].left, 0.5))  # an inverse costs nothing
    factors.append(factors[0])  # nor does a copy
    model = consistent_model(factors, name)
    assert model.dim == sizes(ranks, 40)[name]
    assert model.entities.dtype == np.float64
    for k, factor in enumerate(factors):
        assert np.allclose(all_scores(model, k), factor.left @ factor.right.T, atol=1e-12)


def test_rescal_is_never_larger_than_the_entities():
    random = np.random.default_rng(0)
    factors = [Factors(random.normal(size=(5, 4)), random.normal(size=(5, 4)), 0.5)] * 1
    model = consistent_model(factors, "rescal")
    assert model.dim == 5
    assert np.array_equal(all_scores(model, 0) > 0.5, factors[0].left @ factors[0].right.T > 0.5)


@settings(max_examples=10)
@given(st.integers(0, 1000), st.sampled_from(FAMILIES))
def test_constructed_models_put_all_facts_above_all_others(seed, name):
    graph = random_graph(seed, n_entities=9, n_relations=2, size=40)
    made = construct(graph, name, effort=EFFORT)
    assert made.certified
    for k in range(2):
        truth, scores = truth_of(graph.triples, 9, k), all_scores(made.model, k)
        assert scores[truth].min() > 0.5 > scores[~truth].max()
        heads, tails = np.nonzero(truth)
        i, j = np.random.default_rng(seed).integers(0, 9, 2)
        truth[i, j] = not truth[i, j]
        stored = _stored(made.model)
        assert model_margin(made.model, stored, k, heads, tails) > 1
        assert model_margin(made.model, stored, k, *np.nonzero(truth)) == 0


@pytest.mark.parametrize("name", FAMILIES)
def test_a_file_keeps_every_bit_that_the_certificate_speaks_of(name, tmp_path):
    graph = random_graph(3, n_entities=14, n_relations=3, size=60)
    model = construct(graph, name, effort=EFFORT).model
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.entities.dtype == np.float64
    assert np.array_equal(loaded.entities, _stored(model).entities)
    assert np.array_equal(loaded.relations, _stored(model).relations)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_constructed_run_ranks_its_own_facts_first(name, tmp_path):
    graph = random_graph(5, n_entities=20, n_relations=3, size=120)
    made = construct_run(graph, name, tmp_path / "run", effort=EFFORT)
    assert made.certified
    run = bilink.load(tmp_path / "run")
    for split in ("train", "valid", "test"):
        assert run.evaluate(split).metrics()["mrr"] == 1
    with pytest.raises(BilinkError, match="cannot go on"):
        bilink.resume(tmp_path / "run")


@pytest.mark.parametrize("name", FAMILIES)
def test_relations_without_facts_are_no_trouble_but_a_single_entity_is_refused(name):
    none = np.empty((0, 3), dtype=np.int32)
    relations = Vocabulary("relation", ("r", "empty"))
    alone = Graph("g", Vocabulary("entity", ("e",)), relations, [[0, 0, 0]], none, none)
    with pytest.raises(BilinkError, match="at least two entities"):
        construct(alone, name)
    for triples, n in (([[0, 0, 1], [1, 0, 2]], 3), (none, 2)):
        entities = Vocabulary("entity", tuple(f"e{i}" for i in range(n)))
        made = construct(Graph("g", entities, relations, triples, none, none), name, effort=EFFORT)
        assert made.certified
        for k in range(2):
            truth = truth_of(np.array(triples, dtype=int).reshape(-1, 3), n, k)
            assert np.array_equal(all_scores(made.model, k) > 0.5, truth)


def test_facts_that_were_left_out_are_not_above_the_rest():
    """Consistency with training says nothing about facts that training lacks."""
    graph = random_graph(7, n_entities=20, n_relations=2, size=120)
    made = construct(graph, "rescal", splits=("train",), effort=EFFORT)
    known = set(map(tuple, graph.train.tolist()))
    unknown = np.array([t for t in graph.test.tolist() if tuple(t) not in known])
    assert (made.model.score(unknown) < 0.5).all()
    assert (made.model.score(graph.train) > 0.5).all()


def test_what_cannot_be_made_is_refused_with_a_sentence(tmp_path):
    for name in ("distmult", "transe"):
        with pytest.raises(BilinkError, match="at any size; there are rescal, complex, hole"):
            construct(random_graph(), name)
    with pytest.raises(BilinkError, match="K ≥ 1"):
        consistent_model([], "rescal")
    nan = Factors(np.full((2, 1), np.nan), np.ones((2, 1)), 0.5)
    with pytest.raises(BilinkError, match="not finite"):
        consistent_model([nan], "complex")
    with pytest.raises(BilinkError, match="one row for each"):
        consistent_model([Factors(np.ones((2, 1)), np.ones((3, 1)), 0.5)], "complex")
    with pytest.raises(BilinkError, match="there are rescal"):
        construct_run(random_graph(), "transe", tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()
    for effort in (0, -1, float("nan"), float("inf")):
        with pytest.raises(BilinkError, match="effort"):
            construct(random_graph(), "rescal", effort=effort)
    with pytest.raises(BilinkError, match="threads"):
        construct(random_graph(), "rescal", threads=0)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("")
    with pytest.raises(BilinkError, match="exists"):
        construct_run(random_graph(), "rescal", tmp_path / "run")


def test_the_commands_print_the_agreed_json_alone(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")

    def run(*arguments):
        command = [sys.executable, "-m", "bilink", "theory", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=200)

    data = tmp_path / "mine.tsv"
    data.write_text("".join(f"a{i}\tr{i % 2}\tb{i * i % 7}\n" for i in range(24)))
    options = ("--effort", EFFORT, "--json")
    done = run(
        "describe", data, *options, "--out", tmp_path / "theory", "--picture", tmp_path / "p.png"
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found["sizes"]) == {"rescal", "complex", "hole"}
    assert {"relation", "category", "symmetric", "rounding_rank"} <= set(found["relations"][0])
    assert {"lower", "upper"} <= set(found["relations"][0]["rounding_rank"])
    assert json.loads((tmp_path / "theory" / "theory.json").read_text()) == found
    assert (tmp_path / "p.png").read_bytes()[:4] == b"\x89PNG"
    done = run("construct", data, "--model", "complex", "--out", tmp_path / "run", *options)
    assert done.returncode == 0, done.stderr
    assert {"model", "size", "certified", "margin_over_error"} <= set(json.loads(done.stdout))
    for wrong in (
        ("describe", data, "--splits", "dev"),
        ("describe", tmp_path / "nothing.tsv"),
        ("construct", data, "--model", "transe", "--out", tmp_path / "other"),
    ):
        done = run(*wrong)
        assert done.returncode == 1
        assert "error: " in done.stderr
        assert "Traceback" not in done.stderr
