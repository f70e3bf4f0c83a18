"""An ensemble is made of runs, kept in a folder, and then a run like any other."""

import json
import subprocess
import sys

import numpy as np
import pytest

import bilink
from bilink.ensembles.fitting import EnsembleConfig
from bilink.errors import ConfigError, DataError, RunError
from bilink.runs.made import convert_run
from conftest import random_graph

METHODS = ("stack", "paper", "best", "average", "platt")


@pytest.fixture(scope="module")
def members(tmp_path_factory):
    place = tmp_path_factory.mktemp("members")
    graph = random_graph(size=150)
    return [
        bilink.train(graph, name, 4, epochs=8, threads=1, preset="margin", out=place / name)
        for name in ("transe", "complex", "rescal")
    ]


@pytest.mark.parametrize("method", METHODS)
def test_a_saved_ensemble_answers_as_before(members, method, tmp_path):
    made = bilink.combine(members, method=method, out=tmp_path / "both")
    again = bilink.load(tmp_path / "both")
    assert list(again.members) == ["transe", "complex", "rescal"]
    triples = made.graph.test
    np.testing.assert_allclose(again.scorer.score(triples), made.scorer.score(triples), rtol=1e-5)
    ranks = [run.evaluate("test").values("tail") for run in (made, again)]
    np.testing.assert_array_equal(*ranks)
    assert len(again.query(head="e1", relation="r0", k=3)) == 3
    assert 0 <= again.classify("test").metrics()["accuracy"] <= 1
    for row in again.shares():
        for side in ("head", "tail"):
            shares = [row[f"{side} {name}"] for name in again.members]
            assert sum(shares) == pytest.approx(1)


def test_the_best_member_of_each_relation_ranks_as_it_does_alone(members):
    made = bilink.combine(members, method="best", fit="train")
    chosen = made.scorer.weights["tail"].argmax(axis=1)
    alone = [run.evaluate("test").values("tail") for run in members]
    relations = made.graph.test[:, 1]
    expected = np.array(alone)[chosen[relations], np.arange(len(relations))]
    np.testing.assert_array_equal(made.evaluate("test").values("tail"), expected)


def test_test_triples_are_never_looked_at(members):
    """Another test split, the same weights."""
    graph = members[0].graph
    other = bilink.Graph(
        graph.name, graph.entities, graph.relations, graph.train, graph.valid, graph.train[:1]
    )
    for method in METHODS:
        weights = []
        for known in (graph, other):
            runs = [bilink.load(run.path) for run in members]
            for run in runs:
                run.graph = known
            scorer = bilink.combine(runs, method=method).scorer
            few = [scorer.weights[side][:3] for side in ("head", "tail")]
            weights.append([*few, getattr(scorer, "offsets", 0)])
        for one, other_one in zip(*weights, strict=True):
            np.testing.assert_array_equal(one, other_one)


def test_members_must_fit_each_other(members, tmp_path):
    stranger = bilink.train(random_graph(seed=1), "complex", 4, epochs=1, threads=1)
    with pytest.raises(DataError, match="different graphs"):
        bilink.combine([*members, stranger])
    with pytest.raises(ConfigError, match="at least one"):
        bilink.combine([])
    both = bilink.combine(members, method="average", out=tmp_path / "both")
    with pytest.raises(ConfigError, match="an ensemble itself"):
        bilink.combine([both])
    with pytest.raises(ConfigError, match="unknown method 'stak'"):
        bilink.combine(members, method="stak")
    with pytest.raises(RunError, match="of an ensemble, which was fitted and not trained"):
        bilink.resume(tmp_path / "both")
    manhattan = bilink.train(members[0].graph, "transe-l1", 4, epochs=1, threads=1)
    with pytest.raises(ConfigError, match="platt takes bilinear models only"):
        bilink.combine([*members, manhattan], method="platt")


def test_an_ensemble_never_overwrites_its_member(members):
    with pytest.raises(RunError, match="is a member"):
        bilink.combine(members, out=members[0].path, force=True)
    assert bilink.load(members[0].path)


def test_the_papers_method_is_fitted_on_training_triples(members):
    assert bilink.combine(members, method="paper").config.fit == "train"
    assert bilink.combine(members, method="average").config.fit == "valid"


def test_an_ensemble_of_before_has_the_examples_of_before():
    """One false triple for each true one, as the paper says; its authors' code has more."""
    old = EnsembleConfig(method="paper", corruptions=0).to_dict()
    del old["corruptions"]
    assert EnsembleConfig.from_dict(old).corruptions == 0
    old["method"] = "stack"
    assert EnsembleConfig.from_dict({**old, "fit": "valid"}) == EnsembleConfig()


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("average", {"shrinkage": 1.0}),
        ("paper", {"sides": False}),
        ("best", {"hard_negatives": 3}),
        ("platt", {"triples": 10}),
        ("paper", {"non_negative": False}),
        ("stack", {"corruptions": 5}),
    ],
)
def test_an_option_of_another_method_is_refused(method, options):
    with pytest.raises(ConfigError, match=f"{method!r} has no option {next(iter(options))}; it"):
        EnsembleConfig(method=method, **options)
    other = "paper" if "corruptions" in options else "stack"
    EnsembleConfig(method=other, **options)
    EnsembleConfig(method="average", triples=10, random_negatives=5, seed=3, fit="train")


def test_the_order_of_members_makes_no_difference_even_of_mixed_precision(members, tmp_path):
    convert_run(members[1].path, "rescal", tmp_path / "double")
    runs = [members[0], bilink.load(tmp_path / "double")]
    one, other = (bilink.combine(order, shrinkage=1.0) for order in (runs, runs[::-1]))
    weights = one.scorer.weights["head"], other.scorer.weights["head"][:, ::-1]
    np.testing.assert_allclose(*weights, rtol=0.2)  # the members name their negatives in turn
    assert one.scorer.dtype == np.float64


def test_two_members_of_one_name_are_told_apart(members):
    made = bilink.combine([members[0], members[0]], method="average")
    assert list(made.members) == ["transe", "transe 2"]


@pytest.mark.parametrize("name", ["weights.safetensors", "member-1.safetensors"])
def test_a_damaged_ensemble_is_refused_in_one_sentence(members, name, tmp_path):
    bilink.combine(members, method="average", out=tmp_path / "both")
    (tmp_path / "both" / name).write_bytes(b"nonsense")
    with pytest.raises(RunError, match=name):
        bilink.load(tmp_path / "both")
    (tmp_path / "both" / name).unlink()
    with pytest.raises(RunError, match=name):
        bilink.load(tmp_path / "both")


def test_the_command_line_makes_one(members, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")

    def run(*words):
        command = [sys.executable, "-m", "bilink", *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    paths = [run.path for run in members]
    done = run(
        "ensemble", *paths, "--out", "both", "--csv", "w.csv", "--picture", "w.png", "--json"
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["members"] == ["transe", "complex", "rescal"]
    assert len(found["shares"]) == 3
    assert (tmp_path / "w.csv").read_text().startswith("relation,triples,head transe")
    assert (tmp_path / "w.png").read_bytes()[1:4] == b"PNG"
    done = run("evaluate", "both", "--json")
    assert json.loads(done.stdout)["both"]["mrr"] > 0
    done = run("ensemble", *paths, "--out", "both")
    assert done.returncode == 1
    assert "exists" in done.stderr
