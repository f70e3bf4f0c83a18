"""What differs from graph to graph is settled by short trainings."""

from dataclasses import replace

import pytest

import bilink
from bilink.runs import tuning
from bilink.runs.job import Job, prepare
from bilink.runs.tuning import can_tune, tune, tuned
from bilink.training.presets import Tuning


@pytest.fixture
def job():
    return prepare("atlas", "complex", 8, {"threads": 1})


@pytest.fixture
def tried(monkeypatch):
    """The trials; each has the validation MRR that stands here for its penalty."""
    found = {0.003: 0.30, 0.01: 0.33, 0.03: 0.315, 0.1: 0.40}
    jobs, run = [], Job.run

    def trial(self, **hooks):
        jobs.append(self)
        training = self.config.training
        short = replace(training, epochs=1)
        made = run(replace(self, config=replace(self.config, training=short)), **hooks)
        mrr = found[training.regularization.entity] + 0.02 * training.relation_prediction
        made.history[-1]["validation_mrr"] = mrr
        return made

    monkeypatch.setattr(Job, "run", trial)
    return jobs


def test_stronger_penalties_are_tried_until_they_are_worse(job, tried):
    told = []
    assert tune(job, say=told.append) == (0.01, 1.0)
    weights = [each.config.training.regularization.relation for each in tried]
    assert weights == [0.003, 0.01, 0.03, 0.01]
    assert [each.config.training.relation_prediction for each in tried] == [0, 0, 0, 1]
    assert told == [
        "penalty 0.01; validation MRR of short trainings with each: "
        "0.003: 0.300, 0.01: 0.330, 0.03: 0.315; with relation prediction 0.350"
    ]


def test_a_trial_is_short_and_its_learning_rate_falls_as_far(job, tried):
    tune(job)
    trial, whole = tried[0].config.training, job.config.training
    assert trial.epochs == tuning.EPOCHS
    assert trial.decay**trial.epochs == pytest.approx(whole.decay**whole.epochs, rel=1e-6)


def test_what_is_given_is_not_tried(job, tried):
    for given in ({"epochs": 3}, {"regularization": {"entity": 0.1}}, {"minutes": 1}):
        assert tuned(job, given) is job
    assert not tried
    assert tuned(job, {"seed": 3}).config.training.regularization.entity == 0.01
    bilink.train("atlas", "complex", 4)
    assert tried[-1].config.training.relation_prediction == 1.0
    count = len(tried)
    bilink.train("atlas", "complex", 4, preset="softmax")
    assert len(tried) == count + 1


def test_only_what_is_there_is_tuned(job):
    assert can_tune(job)
    assert not can_tune(prepare("atlas", "transe", 8))
    assert not can_tune(prepare("atlas", "complex", 8, preset="margin"))
    atlas = bilink.load_graph("atlas")
    assert not can_tune(prepare(replace(atlas, valid=atlas.valid[:0]), "complex", 8))


def test_a_real_trial_tells_a_penalty_that_is_too_strong(job, monkeypatch):
    monkeypatch.setattr(tuning, "PENALTIES", (0.01, 10.0))
    monkeypatch.setattr(tuning, "WORSE", 1.0)
    told = []
    assert tune(job, say=told.append).penalty == 0.01
    assert ", 10: " in told[0]


def test_rescal_has_dura_and_predicts_no_relations():
    job = prepare("atlas", "rescal", 4).with_tuning(Tuning(0.03, 1.0))
    found = job.config.training
    assert (found.regularization.kind, found.regularization.entity) == ("dura", 0.06)
    assert found.relation_prediction == 0
    transe = prepare("atlas", "transe", 4)
    assert transe.with_tuning(Tuning(0.03, 1.0)).config == transe.config
