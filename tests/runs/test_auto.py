"""The best of a graph in a given time."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import bilink
from bilink.errors import ConfigError, TrainingError
from bilink.models.registry import family
from bilink.runs import auto
from bilink.runs.auto import CANDIDATES, default_minutes, is_auto, parse_minutes, train_auto
from bilink.runs.job import Job
from bilink.training.presets import USUAL_PENALTY

MODELS = [model for model, _, _ in CANDIDATES]


@pytest.fixture
def atlas():
    return bilink.load_graph("atlas")


@pytest.fixture
def short(monkeypatch):
    """Trainings of two epochs, without trials; yields the jobs that were run."""
    run, jobs = Job.run, []

    def two_epochs(self, **hooks):
        jobs.append(self)
        training = replace(self.config.training, epochs=2)
        return run(replace(self, config=replace(self.config, training=training)), **hooks)

    monkeypatch.setattr(Job, "run", two_epochs)
    monkeypatch.setattr(auto, "tune", lambda job, **hooks: None)
    monkeypatch.setattr(auto, "MOST", 4)
    return jobs


def test_what_the_ensemble_gains_by_becomes_a_member(tmp_path, short, atlas):
    told = []
    made = train_auto(atlas, 3.0, out=tmp_path / "run", say=told.append)
    assert {"paths", *MODELS} <= set(made.validation_mrr)
    kept = bilink.load(tmp_path / "run")
    assert kept.evaluate().metrics() == made.run.evaluate().metrics()
    assert kept.calibration is not None
    left_out = {line.split(":")[0] for line in told if "left out" in line}
    tried = {line.split(":")[0] for line in told if "with the others" in line}
    assert set(made.run.member_names or ["paths"]) == {"paths", *tried - left_out}


def test_paths_are_judged_by_triples_that_they_were_not_weighed_on(short, atlas, monkeypatch):
    weighed, judged = [], []
    fit, rank = auto.train_paths, auto.rank_entities

    def train_paths(*arguments, **options):
        weighed.append(options["triples"])
        return fit(*arguments, **options)

    def rank_entities(*arguments, **options):
        judged.append(options["triples"])
        return rank(*arguments, **options)

    monkeypatch.setattr(auto, "train_paths", train_paths)
    monkeypatch.setattr(auto, "rank_entities", rank_entities)
    train_auto(atlas, 3.0)
    first, second = ({tuple(row) for row in part[0].tolist()} for part in (weighed, judged))
    assert first
    assert second
    assert not first & second
    assert first | second == {tuple(row) for row in atlas.valid.tolist()}
    assert all(np.array_equal(part, judged[0]) for part in judged)


def test_without_time_there_are_only_rules(tmp_path, atlas):
    made = train_auto(atlas, 0, out=tmp_path / "run")
    assert made.name == "paths"
    answers = bilink.load(tmp_path / "run").query(head="Monaco", relation="uses currency", k=1)
    assert answers[0].tail == "Euro"
    assert answers[0].probability is not None


@pytest.mark.parametrize(
    ("used", "seconds"),  # the share of its time that each run takes, and the time it is given
    [
        (1.0, [1440, 864, 576]),  # shares of 48 minutes
        (0.5, [1440, 1296, 1512]),  # time left over goes to the next run
    ],
)
def test_each_model_gets_its_share_of_the_time(used, seconds, short, atlas, monkeypatch):
    now, given = [0.0], []
    run = Job.run

    def fitted_to(self, seconds):
        given.append(seconds)
        return self

    def takes_its_time(self, **hooks):
        now[0] += used * given[-1]
        return run(self, **hooks)

    monkeypatch.setattr(auto, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setattr(auto, "GAIN", 1.0)  # nothing is trained again
    monkeypatch.setattr(Job, "fitted_to", fitted_to)
    monkeypatch.setattr(Job, "run", takes_its_time)
    train_auto(atlas, 60)
    assert given == pytest.approx(seconds)


def test_what_added_most_is_trained_again_from_another_seed(short, atlas, monkeypatch):
    added = dict(zip(MODELS, (0.01, 0.03, 0.02), strict=True))
    monkeypatch.setattr(auto._Work, "_enter", lambda self, run: added[run.config.model])
    monkeypatch.setattr(auto, "MOST", 5)
    train_auto(atlas, 60)
    assert [job.config.model for job in short] == [*MODELS, MODELS[1], MODELS[1]]
    assert [job.config.training.seed for job in short] == [0, 1, 2, 3, 4]


def test_a_model_that_diverges_is_left_out_and_the_best_so_far_is_kept(
    tmp_path, short, atlas, monkeypatch
):
    run, held = Job.run, []

    def diverges(self, **hooks):
        held.append(type(bilink.load(tmp_path / "run")).__name__)
        if self.config.model == MODELS[0]:
            raise TrainingError("training diverged")
        return run(self, **hooks)

    monkeypatch.setattr(Job, "run", diverges)
    monkeypatch.setattr(auto, "GAIN", -1.0)  # whatever is trained becomes a member
    made = train_auto(atlas, 60, out=tmp_path / "run")
    assert held[:3] == ["PathRun", "PathRun", "CombinedRun"]
    assert MODELS[0] not in made.validation_mrr


def test_who_stops_it_gets_the_best_so_far(tmp_path, short, atlas):
    asked = []

    def should_stop():
        return len(asked) > 0

    made = train_auto(
        atlas, 60, out=tmp_path / "run", should_stop=should_stop, on_epoch=asked.append
    )
    assert made.name == "paths"
    assert asked[0]["epochs"] >= asked[0]["epoch"]
    assert bilink.load(tmp_path / "run").calibration is not None


def test_without_validation_triples_the_first_model_gets_the_time(short, atlas):
    made = train_auto(replace(atlas, valid=atlas.valid[:0]), 0.02)
    assert made.name == MODELS[0]
    assert made.run.config.training.regularization.entity == USUAL_PENALTY


def test_a_model_is_named_or_found(atlas):
    assert is_auto(None, False)
    assert is_auto("AUTO", False)
    assert not is_auto(None, True)  # options are those of a model: of ComplEx
    assert not is_auto("paths", False)
    with pytest.raises(ConfigError, match="auto chooses all options itself"):
        is_auto("auto", True)
    run = bilink.train(atlas, dim=4, epochs=1)
    assert run.model.family is family("complex")
    assert bilink.train(atlas, budget="0").config.model == "paths"
    with pytest.raises(ConfigError, match="paths takes no budget"):
        bilink.train(atlas, "paths", budget="5m")


def test_a_model_alone_fits_into_its_budget(atlas):
    run = bilink.train(atlas, "complex", 200, budget="1s")
    whole = bilink.train(atlas, "complex", 200, epochs=1).config.training
    assert len(run.history) < 60
    final = run.config.training.decay ** len(run.history)
    assert final == pytest.approx(0.15, rel=0.05)  # the learning rate falls as far
    assert run.config.training.learning_rate == whole.learning_rate


def test_large_graphs_get_more_time(atlas):
    assert default_minutes(atlas) == 1
    many = SimpleNamespace(train=np.empty((100_000, 3)))
    assert default_minutes(many) == 3
    assert default_minutes(SimpleNamespace(train=np.empty((10**8, 0)))) == 30


@pytest.mark.parametrize(("text", "minutes"), [("90s", 1.5), ("10m", 10), ("1.5h", 90), ("0", 0)])
def test_times(text, minutes):
    assert parse_minutes(text) == pytest.approx(minutes)


@pytest.mark.parametrize("text", ["", "soon", "-5m", "nan", "1d"])
def test_what_is_no_time(text):
    with pytest.raises(ConfigError, match="is no time"):
        parse_minutes(text)
