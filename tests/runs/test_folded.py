"""A run with new entities: asked at once, kept in a folder, made by the command line."""

import json
import subprocess
import sys

import numpy as np
import pytest

import bilink
from bilink.errors import DataError, RunError
from conftest import random_graph

TRIPLES = [("new", "r0", "e1"), ("e2", "r1", "new"), ("other", "r0", "new"), ("e3", "r0", "e4")]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    graph = random_graph(size=150)
    return [
        bilink.train(graph, name, 4, epochs=4, threads=1, out=place / name)
        for name in ("transe", "complex")
    ]


def test_a_new_entity_is_asked_at_once_and_kept(runs, tmp_path):
    more = runs[0].fold_in(TRIPLES, out=tmp_path / "more")
    assert more.graph.entities.names[12:] == ("new", "other")
    assert len(more.graph.train) == len(runs[0].graph.train) + 3  # the last one is no new entity's
    assert more.query(head="e2", relation="r1", k=13)
    assert len(more.query(head="new", relation="r0", k=3)) == 3
    again = bilink.load(tmp_path / "more")
    np.testing.assert_array_equal(again.model.entities, more.model.entities)
    assert again.graph.fingerprint == more.graph.fingerprint
    assert again.config.made["by"] == "fold-in"
    assert again.fold_in([("third", "r0", "new")]).graph.entities.names[-1] == "third"
    with pytest.raises(RunError, match="not trained"):
        bilink.resume(tmp_path / "more")


@pytest.mark.parametrize("method", ["stack", "platt"])
def test_each_member_of_an_ensemble_gets_the_entity(runs, method, tmp_path):
    both = bilink.combine(runs, method=method)
    more = both.fold_in(TRIPLES, out=tmp_path / "more")
    again = bilink.load(tmp_path / "more")
    triples = [("new", "r0", "e5"), ("e1", "r1", "other")]
    np.testing.assert_allclose(again.score(triples), more.score(triples), rtol=1e-5)
    alone = runs[0].fold_in(TRIPLES).model.entities
    np.testing.assert_array_equal(more.members["transe"].entities, alone)


def test_names_say_what_may_be_new(runs):
    assert len(runs[0].fold_in(TRIPLES, ["new", "other"]).graph.entities) == 14
    with pytest.raises(DataError, match="unknown entity 'other'"):
        runs[0].fold_in(TRIPLES, ["new"])
    with pytest.raises(DataError, match="has an entity 'e1' already"):
        runs[0].fold_in(TRIPLES, ["e1"])
    with pytest.raises(DataError, match="no triple mentions"):
        runs[0].fold_in(TRIPLES, ["absent"])
    with pytest.raises(DataError, match="none is new"):
        runs[0].fold_in(TRIPLES[3:])
    with pytest.raises(DataError, match="unknown relation 'r9'"):
        runs[0].fold_in([("new", "r9", "e1")])
    with pytest.raises(DataError, match="head, relation and tail"):
        runs[0].fold_in([("new", "r0")])
    with pytest.raises(RunError, match="choose another"):
        runs[0].fold_in(TRIPLES, out=runs[0].path, force=True)


def test_the_command_line_adds_entities(runs, tmp_path):
    rows = [*((*row, "1") for row in TRIPLES), ("new", "r0", "e0", "-1")]
    (tmp_path / "new.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))

    def run(*words):
        command = [sys.executable, "-m", "bilink", *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    done = run("fold-in", runs[1].path, "--triples", "new.tsv", "--out", "more", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"entities": ["new", "other"], "triples": 3, "run": "more"}
    assert "set aside 1 triple labelled -1" in done.stderr
    done = run("query", "more", "--head", "new", "--relation", "r2")
    assert "e1" in done.stdout
    done = run("fold-in", runs[1].path, "--triples", "new.tsv", "--out", "more")
    assert done.returncode == 1
    assert "exists" in done.stderr
