"""The best of a graph in a given time."""

from dataclasses import replace

import pytest

import bilink
from bilink.errors import ConfigError, TrainingError
from bilink.runs.auto import CANDIDATES, MOST, parse_minutes, train_auto
from bilink.runs.job import Job


def test_the_best_on_validation_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("bilink.runs.auto.EPOCHS", 6)
    graph = bilink.load_graph("atlas")
    made = train_auto(graph, 3.0, out=tmp_path / "run")
    models = {model for model, _, _ in CANDIDATES}
    again = {f"{CANDIDATES[0][0]} {i}" for i in range(2, MOST - len(models) + 2)}
    assert set(made.validation_mrr) == models | again | {"ensemble"}
    assert made.validation_mrr[made.name] == max(made.validation_mrr.values())
    again = bilink.load(tmp_path / "run")
    assert again.evaluate().metrics() == made.run.evaluate().metrics()


def test_each_model_gets_its_share_of_the_time(monkeypatch):
    """The runs themselves take no time here, so that each share is of nearly all that there is."""
    monkeypatch.setattr("bilink.runs.auto.EPOCHS", 1)
    told = []
    run = Job.run
    monkeypatch.setattr(
        Job, "run", lambda self, **k: told.append(self.config.training) or run(self, **k)
    )
    train_auto(bilink.load_graph("atlas"), 60)
    shares = [share for _, _, share in CANDIDATES]
    for i, training in enumerate(told[: len(shares)]):
        assert training.minutes <= 60 * 0.8 * shares[i] / sum(shares[i:])
    assert all(training.minutes <= 60 * 0.8 for training in told)


def test_a_model_that_diverges_is_left_out_and_the_first_one_is_kept_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("bilink.runs.auto.EPOCHS", 1)
    run, held = Job.run, []

    def diverges(self, **hooks):
        if self.config.model != "complex":
            held.append(bilink.load(tmp_path / "run").config.model)
            raise TrainingError("training diverged")
        return run(self, **hooks)

    monkeypatch.setattr(Job, "run", diverges)
    made = train_auto(bilink.load_graph("atlas"), 60, out=tmp_path / "run")
    assert held == ["complex", "complex"]
    assert not made.validation_mrr.keys() & {"rescal", "transe"}


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
