"""Vectors whose inner product is the score, and their files."""

import json
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import bilink
from bilink.errors import ConfigError, DataError, RunError
from bilink.queries.answers import Question
from bilink.queries.export import export
from conftest import random_graph

MODELS = ("rescal", "distmult", "hole", "complex", "transe")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    place = tmp_path_factory.mktemp("vectors")
    graph = random_graph(n_entities=60, size=400)
    return [bilink.train(graph, name, 4, epochs=2, threads=1, out=place / name) for name in MODELS]


def check(run):
    vectors = run.vectors()
    assert vectors.candidates.shape[0] == len(vectors.names) == 60
    asked = [Question("e3", "r1", None), Question(None, "r0", "e5")]
    products = vectors.queries(asked) @ vectors.candidates.T
    for row, question in zip(products, asked, strict=True):
        answers = run.query(**question.given, k=60)
        for answer in answers:
            entity = answer.tail if question.tail is None else answer.head
            got = row[vectors.names.index(entity)]
            assert got == pytest.approx(answer.score, rel=1e-3, abs=1e-3)
    np.testing.assert_array_equal(
        vectors.query(tail="e5", relation="r0"), vectors.queries(asked)[1]
    )


def test_inner_products_are_the_scores_of_models_and_ensembles(runs):
    for run in runs:
        check(run)
    check(bilink.combine(runs))


def test_what_is_no_inner_product_is_refused(runs):
    manhattan = bilink.train(runs[0].graph, "transe-l1", 4, epochs=1, threads=1)
    with pytest.raises(ConfigError, match=r"no inner products \(they are a Manhattan"):
        manhattan.vectors()
    with pytest.raises(ConfigError, match="mean of probabilities"):
        bilink.combine(runs[:2], method="platt").vectors()


def test_files_hold_the_vectors(runs, tmp_path):
    vectors, asked = runs[4].vectors(), [Question("e3", "r1", None)]
    manifest = export(vectors, tmp_path / "numpy", questions=asked)
    assert manifest == json.loads((tmp_path / "numpy" / "manifest.json").read_text())
    assert sorted(manifest["files"]) == ["candidates.npy", "entities.json", "queries.npy"]
    np.testing.assert_array_equal(
        np.load(tmp_path / "numpy" / "candidates.npy"), vectors.candidates
    )
    names = json.loads((tmp_path / "numpy" / "entities.json").read_text())
    assert tuple(names) == vectors.names
    export(vectors, tmp_path / "parquet", "parquet", asked)
    frame = pl.read_parquet(tmp_path / "parquet" / "candidates.parquet")
    assert frame["entity"].to_list() == list(vectors.names)
    np.testing.assert_array_equal(np.stack(frame["vector"].to_list()), vectors.candidates)
    asked_frame = pl.read_parquet(tmp_path / "parquet" / "queries.parquet")
    assert asked_frame["tail"].to_list() == [None]


def test_wrong_wishes_are_refused_in_one_sentence(runs, tmp_path):
    vectors = runs[0].vectors()
    with pytest.raises(ConfigError, match="unknown format 'csv'"):
        export(vectors, tmp_path / "new", "csv")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(RunError, match="not empty"):
        export(vectors, tmp_path / "full")
    with pytest.raises(ConfigError, match="either a head or a tail"):
        vectors.queries([Question("e1", "r0", "e2")])
    with pytest.raises(DataError, match="unknown entity"):
        export(vectors, tmp_path / "new", questions=[Question("nobody", "r0", None)])
    assert not (tmp_path / "new").exists()


def test_the_index_finds_the_exact_answers(runs, tmp_path):
    faiss = pytest.importorskip("faiss")
    vectors = runs[3].vectors()
    manifest = export(vectors, tmp_path / "index", "faiss")
    assert manifest["recall@10"] > 0.9
    index = faiss.read_index(str(tmp_path / "index" / "index.faiss"))
    query = vectors.query(head="e3", relation="r1")
    scores, found = index.search(query[None], 5)
    exact = np.sort(vectors.candidates @ query)[::-1][:5]
    np.testing.assert_allclose(scores[0], exact, rtol=1e-4)
    assert len(set(found[0].tolist())) == 5


def test_without_faiss_the_message_says_what_to_install(runs, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ConfigError, match=r"bilink\[ann\]"):
        export(runs[0].vectors(), tmp_path / "index", "faiss")


def test_the_command_line_exports(runs, tmp_path):
    (tmp_path / "asked.tsv").write_text("e3\tr1\t?\n?\tr0\te5\n")
    words = ["export", runs[0].path, "--out", "out", "--questions", "asked.tsv", "--json"]
    command = [sys.executable, "-m", "bilink", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["queries"] == [["e3", "r1", None], [None, "r0", "e5"]]
    assert np.load(tmp_path / "out" / "queries.npy").shape[0] == 2
