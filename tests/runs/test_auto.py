"""The best of a graph in a given time."""

import time
from dataclasses import replace

import pytest

import bilink
from bilink.errors import ConfigError
from bilink.runs.auto import CANDIDATES, MOST, parse_minutes, train_auto


def test_the_best_on_validation_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("bilink.runs.auto.EPOCHS", 6)
    graph = bilink.load_graph("atlas")
    started = time.perf_counter()
    made = train_auto(graph, 3.0, out=tmp_path / "run")
    assert made.seconds <= time.perf_counter() - started
    models = {model for model, _, _ in CANDIDATES}
    again = {f"{CANDIDATES[0][0]} {i}" for i in range(2, MOST - len(models) + 2)}
    assert set(made.validation_mrr) == models | again | {"ensemble"}
    assert made.validation_mrr[made.name] == max(made.validation_mrr.values())
    again = bilink.load(tmp_path / "run")
    assert again.evaluate().metrics() == made.run.evaluate().metrics()


def test_without_validation_triples_the_first_model_gets_the_time():
    graph = bilink.load_graph("atlas")
    made = train_auto(replace(graph, valid=graph.valid[:0]), 0.02)
    assert made.name == CANDIDATES[0][0]


@pytest.mark.parametrize(("text", "minutes"), [("90s", 1.5), ("10m", 10), ("1.5h", 90), ("2", 2)])
def test_times(text, minutes):
    assert parse_minutes(text) == pytest.approx(minutes)


@pytest.mark.parametrize("text", ["", "soon", "-5m", "0", "nan", "1d"])
def test_what_is_no_time(text):
    with pytest.raises(ConfigError, match="is no time"):
        parse_minutes(text)
