"""Validation takes a bounded share of the time: of a large graph, fewer triples."""

import pytest
from typer.testing import CliRunner

import bilink
from bilink.cli import app
from bilink.data.loading import write_graph_files
from bilink.errors import DataWarning
from bilink.runs import job, run
from bilink.runs.job import prepare, validation_size
from conftest import random_graph

GRAPH = random_graph(n_entities=100, n_relations=3, size=2_000)


def expensive(monkeypatch, triples, width=2 * 4):
    """As if so many triples were all that the time allows."""
    monkeypatch.setattr(job, "VALIDATION_PRODUCTS", 2 * len(GRAPH.entities) * width * triples)
    monkeypatch.setattr(job, "PRODUCTS_PER_TRIPLE", 0)


def test_of_a_usual_graph_all_that_is_asked_for_is_ranked():
    made = prepare(GRAPH, "complex", 4, {"validation_triples": 150})
    assert made.validation_triples == 150
    assert prepare(GRAPH, "complex", 4).validation_triples == len(GRAPH.valid)
    # As large as WN18, FB15K and YAGO3-10, of 200 numbers.
    for entities, triples in ((40_943, 141_442), (14_951, 483_142), (123_182, 1_079_040)):
        sizes = type("Sizes", (), {"entities": range(entities), "train": range(triples)})
        assert validation_size(sizes, 200) >= 1_000


def test_a_large_graph_has_a_smaller_sample_that_options_do_not_change(monkeypatch):
    expensive(monkeypatch, 120)
    for options in ({}, {"epochs": 3}, {"loss": "margin"}, {"validate_every": 2}, {"threads": 1}):
        assert prepare(GRAPH, "complex", 4, options).validation_triples == 120
    assert prepare(GRAPH, "complex", 8).validation_triples == job.FEWEST  # twice as expensive
    assert prepare(GRAPH, "complex", 4, {"validation_triples": 7}).validation_triples == 7
    assert prepare(GRAPH, "complex", 4, {"validation_triples": 0}).validation_triples == 0


def test_a_long_training_allows_a_long_validation(monkeypatch):
    expensive(monkeypatch, 1)
    before = prepare(GRAPH, "complex", 4).validation_triples
    monkeypatch.setattr(job, "PRODUCTS_PER_TRIPLE", 25)
    assert before == job.FEWEST
    assert prepare(GRAPH, "complex", 4).validation_triples == 25 * len(GRAPH.train) // 200


def test_what_is_ranked_is_shown_and_a_resumed_run_ranks_the_same(monkeypatch, tmp_path):
    expensive(monkeypatch, 130)
    options = {"epochs": 4, "validate_every": 1, "patience": 0, "threads": 1}
    seen = []
    wanted = prepare(GRAPH, "complex", 4, options)
    whole = wanted.run(on_progress=lambda what, share: seen.append((what, share)))
    assert ("validating", 1.0) in seen
    stopped = prepare(GRAPH, "complex", 4, options).run(
        out=tmp_path / "run", on_epoch=seen.append, should_stop=lambda: True
    )
    assert stopped.stopped == "interrupted"
    rest = bilink.resume(tmp_path / "run")
    mrr = [record["validation_mrr"] for record in whole.history]
    assert [record["validation_mrr"] for record in rest.history] == mrr


def test_the_command_says_how_many_triples_are_ranked(monkeypatch, tmp_path):
    write_graph_files(GRAPH, tmp_path / "g")
    expensive(monkeypatch, 110)
    call = ["train", str(tmp_path / "g"), "--dim", "4", "--set", "epochs=1", "--dry-run"]
    assert "validation ranks 110 triples" in CliRunner().invoke(app, call).stderr
    monkeypatch.undo()
    assert "validation ranks" not in CliRunner().invoke(app, call).stderr


def test_probabilities_are_left_out_where_they_take_long(monkeypatch, tmp_path):
    made = prepare("atlas", "complex", 4, {"epochs": 1})
    assert made.run(out=tmp_path / "small").calibration is not None
    monkeypatch.setattr(run, "CALIBRATION_PRODUCTS", 1e6)
    with pytest.warns(DataWarning, match="left out: bilink calibrate"):
        large = made.run(out=tmp_path / "large")
    assert large.calibration is None
    large.calibrate()  # as long as it takes
    assert bilink.load(tmp_path / "large").calibration is not None
