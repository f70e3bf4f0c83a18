"""A run whose graph has grown: all triples accounted for, asked at once, kept in a folder."""

import json
import subprocess
import sys

import numpy as np
import pytest

import bilink
from bilink.errors import ConfigError, DataError, RunError
from conftest import random_graph

TRIPLES = [("new", "r0", "e1"), ("e2", "r1", "new"), ("other", "r0", "new"), ("e3", "r9", "e4")]


@pytest.fixture(scope="module")
def graph():
    return random_graph(size=150)


@pytest.fixture(scope="module")
def runs(graph, tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    return [
        bilink.train(graph, name, 4, epochs=4, threads=1, out=place / name)
        for name in ("transe", "complex")
    ]


def names_of(graph, facts):
    entities, relations = graph.entities.names, graph.relations.names
    return [(entities[h], relations[r], entities[t]) for h, r, t in np.asarray(facts).tolist()]


def absent_facts(graph, count):
    """Triples of known names that no split holds."""
    held = set(map(tuple, graph.triples.tolist()))
    grid = np.stack(np.meshgrid(range(12), range(3), range(12)), axis=-1).reshape(-1, 3).tolist()
    return [triple for triple in grid if tuple(triple) not in held and triple[0] != triple[2]][
        :count
    ]


def test_every_triple_is_accounted_for(runs, graph):
    known = names_of(graph, [graph.train[0], graph.valid[0], graph.test[0]])
    between = names_of(graph, absent_facts(graph, 5))
    found = runs[0].update([*known, *between, *TRIPLES, TRIPLES[0], between[0]])
    counts = {"given": 14, "repeated": 2, "known": 3, "facts": 9, "between_known": 5, "of_new": 4}
    assert {name: getattr(found, name) for name in counts} == counts
    assert (found.entities, found.relations) == (("new", "other"), ("r9",))
    after = found.run.graph
    assert after.entities.names == (*graph.entities.names, "new", "other")
    assert after.relations.names == (*graph.relations.names, "r9")
    np.testing.assert_array_equal(after.train[: len(graph.train)], graph.train)
    added = names_of(after, after.train[len(graph.train) :])
    assert added == [*between, *TRIPLES]
    for split in ("valid", "test"):
        np.testing.assert_array_equal(after.split(split), graph.split(split))
    assert "9 new facts, 3 known already, 2 given more than once" in found.sentences()[0]


def test_what_is_between_known_entities_moves_no_parameter(runs, graph):
    between = names_of(graph, absent_facts(graph, 5))
    after = runs[1].update(between).run
    np.testing.assert_array_equal(after.model.entities, runs[1].model.entities)
    np.testing.assert_array_equal(after.model.relations, runs[1].model.relations)
    head, relation, tail = between[0]
    answers = after.query(head=head, relation=relation, k=12)
    assert tail in [answer.tail for answer in answers if answer.known]
    assert tail not in [a.tail for a in after.query(head=head, relation=relation, k=12, new=True)]


def test_new_names_are_asked_at_once_and_kept(runs, tmp_path):
    more = runs[0].update(TRIPLES, out=tmp_path / "more").run
    np.testing.assert_array_equal(more.model.entities[:12], runs[0].model.entities)
    np.testing.assert_array_equal(more.model.relations[:3], runs[0].model.relations)
    assert len(more.query(head="new", relation="r9", k=3, any_entity=True)) == 3
    again = bilink.load(tmp_path / "more")
    np.testing.assert_array_equal(again.model.entities, more.model.entities)
    np.testing.assert_array_equal(again.model.relations, more.model.relations)
    assert again.graph.fingerprint == more.graph.fingerprint
    assert again.config.made["by"] == "update"
    assert again.update([("third", "r0", "new")]).run.graph.entities.names[-1] == "third"
    with pytest.raises(RunError, match="not trained"):
        bilink.resume(tmp_path / "more")


def test_a_relation_between_new_entities_alone_is_found_last(runs):
    more = runs[1].update([("x", "r0", "e1"), ("e2", "r1", "y"), ("x", "r9", "y")]).run
    mean = runs[1].model.relations.mean(axis=0)
    assert np.abs(more.model.relations[3] - mean).max() > 1e-6
    assert np.isfinite(more.model.relations).all()


@pytest.mark.parametrize("method", ["stack", "platt"])
def test_each_member_of_an_ensemble_learns_the_names(runs, method, tmp_path):
    both = bilink.combine(runs, method=method)
    more = both.update(TRIPLES, out=tmp_path / "more").run
    again = bilink.load(tmp_path / "more")
    triples = [("new", "r0", "e5"), ("e1", "r1", "other"), ("e1", "r9", "e2")]
    np.testing.assert_allclose(again.score(triples), more.score(triples), rtol=1e-5)
    alone = runs[0].update(TRIPLES).run.model
    np.testing.assert_array_equal(more.members["transe"].entities, alone.entities)
    for side in ("head", "tail"):
        weights = more.scorer.weights[side]
        np.testing.assert_allclose(weights[3], both.scorer.weights[side].mean(axis=0), rtol=1e-6)


def test_rules_are_counted_anew_on_the_grown_graph(graph, runs, tmp_path):
    paths = bilink.train(graph, "paths")
    more = paths.update(TRIPLES, out=tmp_path / "paths").run
    straight = bilink.train(more.graph, "paths")
    np.testing.assert_array_equal(more.model.rules.paths, straight.model.rules.paths)
    np.testing.assert_array_equal(more.model.rules.path_counts, straight.model.rules.path_counts)
    triples = [("new", "r0", "e5"), ("e1", "r9", "other")]
    again = bilink.load(tmp_path / "paths")
    np.testing.assert_allclose(again.score(triples), more.score(triples))
    both = bilink.combine([runs[1], paths]).update(TRIPLES).run
    assert np.isfinite(both.score(triples)).all()


def test_paths_that_resource_flows_along_keep_their_meaning(graph):
    """Inverse relations are numbered behind all others, so a new relation moves them."""
    before = bilink.train(graph, "ptranse", 4, epochs=2, threads=1)
    after = before.update([("e3", "r9", "e4")]).run
    (old,), (new,) = before.path_models.values(), after.path_models.values()
    triples = absent_facts(graph, 20)
    np.testing.assert_allclose(new.scorer.score(triples), old.on(graph).scorer.score(triples))


@pytest.mark.parametrize("loss", ["margin", "softmax"])
def test_epochs_go_on_from_where_the_parameters_are(graph, loss):
    options = {"epochs": 30, "threads": 1, "loss": loss, "validation_triples": 0}
    before = bilink.train(graph, "complex", 4, options=options)
    facts = names_of(graph, absent_facts(graph, 5))
    after = before.update(facts, epochs=2).run
    assert [record["epoch"] for record in after.history] == list(range(1, 33))
    moved = np.abs(after.model.entities - before.model.entities).mean()
    assert 0 < moved < 0.2 * np.abs(before.model.entities).mean()
    assert after.score(facts).mean() > before.score(facts).mean()


def test_a_few_facts_leave_what_evidence_is_worth_and_many_or_a_relation_renew_it():
    run = bilink.train("atlas", "paths", length=1, constants=False)
    few = run.update([("Austria", "borders", "Freedonia")]).run
    np.testing.assert_array_equal(few.calibration.weights, run.calibration.weights)
    assert few.calibration.fingerprint == few.graph.fingerprint
    assert few.probability([("Freedonia", "borders", "Austria")])[0] > 0.5
    for facts in (
        [("Austria", "likes", "Italy")],
        [(f"Town {i}", "in country", "Austria") for i in range(200)],
    ):
        renewed = run.update(facts).run
        assert not np.array_equal(renewed.calibration.weights, run.calibration.weights)


def test_mistakes_get_a_sentence(runs, graph):
    with pytest.raises(DataError, match="nothing is new"):
        runs[0].update(names_of(graph, graph.train[:3]))
    with pytest.raises(DataError, match="head, relation and tail"):
        runs[0].update([("new", "r0")])
    with pytest.raises(DataError, match="three names"):
        runs[0].update([("new", "r0", 3)])
    with pytest.raises(RunError, match="choose another"):
        runs[0].update(TRIPLES, out=runs[0].path, force=True)
    with pytest.raises(ConfigError, match="at least 0"):
        runs[0].update(TRIPLES, epochs=-1)
    with pytest.raises(ConfigError, match="no epochs"):
        bilink.combine(runs).update(TRIPLES, epochs=1)
    made = bilink.load(runs[0].path)
    made.history.clear()  # as in a run that was constructed
    with pytest.raises(ConfigError, match="made and not trained"):
        made.update(TRIPLES, epochs=1)
    reciprocal = bilink.train(graph, "complex-reciprocal", 4, epochs=2, threads=1)
    with pytest.raises(ConfigError, match="different forms"):
        reciprocal.update(TRIPLES)
    assert reciprocal.update([("e3", "r9", "e4")]).relations == ("r9",)


def test_a_misspelt_name_is_pointed_out():
    run = bilink.train("atlas", "distmult", 4, epochs=1, threads=1, validation_triples=0)
    found = run.update([("Austira", "borders", "Freedonia")])
    assert found.near_misses() == ["'Austira' is new, but looks like 'Austria'; misspelt?"]


def test_the_command_line_updates(runs, tmp_path):
    rows = [*((*row, "1") for row in TRIPLES), ("new", "r0", "e0", "-1")]
    (tmp_path / "new.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))

    def run(*words):
        command = [sys.executable, "-m", "bilink", *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    done = run("update", runs[1].path, "--triples", "new.tsv", "--out", "more", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "run": "more",
        "given": 4,
        "repeated": 0,
        "known": 0,
        "facts": 4,
        "between_known": 0,
        "of_new": 4,
        "rejected": 1,
        "removed": 0,
        "entities": ["new", "other"],
        "relations": ["r9"],
    }
    done = run("query", "more", "--head", "new", "--relation", "r2")
    assert "e1" in done.stdout
    done = run("update", runs[1].path, "--triples", "new.tsv", "--out", "more")
    assert done.returncode == 1
    assert "exists" in done.stderr
    done = run("update", runs[1].path, "--triples", "new.tsv", "--out", "two", "--epochs", "1")
    assert done.returncode == 0, done.stderr
    assert "4 new facts" in done.stdout
