"""The best of a graph in a given time."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

import bilink
from bilink.errors import ConfigError, TrainingError
from bilink.runs.auto import CANDIDATES, MOST, parse_minutes, train_auto
from bilink.runs.job import Job


def test_the_best_on_validation_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("bilink.runs.auto.EPOCHS", 6)
    graph = bilink.load_graph("atlas")
    made = train_auto(graph, 3.0, out=tmp_path / "run")
    models = {"paths", *(model for model, _, _ in CANDIDATES)}
    again = {f"{CANDIDATES[0][0]} {i}" for i in range(2, MOST - len(models) + 2)}
    assert set(made.validation_mrr) == models | again | {"ensemble"}
    assert made.validation_mrr[made.name] == max(made.validation_mrr.values())
    again = bilink.load(tmp_path / "run")
    assert again.evaluate().metrics() == made.run.evaluate().metrics()


@pytest.mark.parametrize(
    ("used", "minutes"),  # the share of its time that each run takes, and the time that it is given
    [
        (1.0, [24, 12, 12]),  # shares of the 48 minutes for training: 1/2, 1/4, 1/4
        (0.5, [24, 18, 27, 13.5]),  # time left over goes to the next run
        (0.0, [24, 24, 48, 48, 48, 48]),
    ],
)
def test_each_model_gets_its_share_of_the_time(used, minutes, monkeypatch):
    seconds, given = [0.0], []
    clock = SimpleNamespace(perf_counter=lambda: seconds[0])
    run = Job.run

    def takes_its_time(self, **hooks):
        given.append(self.config.training.minutes)
        seconds[0] += 60 * used * given[-1]
        return run(self, **hooks)

    monkeypatch.setattr("bilink.runs.auto.EPOCHS", 1)
    monkeypatch.setattr("bilink.runs.auto.time", clock)
    monkeypatch.setattr(Job, "run", takes_its_time)
    made = train_auto(bilink.load_graph("atlas"), 60)
    assert given == pytest.approx(minutes)
    assert made.seconds == pytest.approx(60 * used * sum(minutes))


def test_a_model_that_diverges_is_left_out_and_paths_are_kept_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("bilink.runs.auto.EPOCHS", 1)
    run, held = Job.run, []

    def diverges(self, **hooks):
        if self.config.model != "complex":
            held.append(bilink.load(tmp_path / "run").config.model)
            raise TrainingError("training diverged")
        return run(self, **hooks)

    monkeypatch.setattr(Job, "run", diverges)
    made = train_auto(bilink.load_graph("atlas"), 60, out=tmp_path / "run")
    assert held == ["paths", "paths"]
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
