"""Runs that are trained in parts: one piece is as before, and all commands work on them."""

import hashlib
import os

import numpy as np
import pytest
from typer.testing import CliRunner

import bilink
from bilink.cli import app
from bilink.errors import ConfigError, RunError
from bilink.models import storage
from bilink.models.registry import family
from bilink.runs.folder import RunFolder
from bilink.runs.job import prepare
from bilink.training.estimate import memory_of, within
from conftest import random_graph

GRAPH = random_graph(n_entities=31, n_relations=3, size=400)
OPTIONS = {"epochs": 2, "threads": 1, "loss": "margin", "patience": 0, "validate_every": 1}


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    """Nobody waits for the disk."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def trained(out, **options):
    return bilink.train(GRAPH, "complex", 3, out=out, options={**OPTIONS, **options})


def digests(folder):
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    del found["history.jsonl"]  # has times
    return found


def test_one_part_is_training_as_usual_bit_for_bit(tmp_path):
    trained(tmp_path / "usual")
    trained(tmp_path / "one", parts=1)
    assert digests(tmp_path / "usual") == digests(tmp_path / "one")
    assert "checkpoint.safetensors" in digests(tmp_path / "one")


def test_a_run_in_parts_is_loaded_evaluated_asked_and_made_longer(tmp_path):
    run = trained(tmp_path / "run", parts=3)
    assert run.stopped == "all 2 epochs are done"
    assert [record["epoch"] for record in run.history] == [1, 2]
    assert all(0 < record["validation_mrr"] < 1 for record in run.history)
    assert not run.model.entities.flags.writeable  # in its file, and not in memory
    loaded = bilink.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.model.entities, run.model.entities)
    assert loaded.evaluate().metrics() == run.evaluate().metrics()
    assert len(loaded.query(head="e1", relation="r0", k=3)) == 3
    longer = bilink.resume(tmp_path / "run", options={"epochs": 3})
    whole = trained(tmp_path / "whole", parts=3, epochs=3)
    np.testing.assert_array_equal(longer.model.entities, whole.model.entities)
    assert not (tmp_path / "run" / "parts" / "now.safetensors").exists()


def test_without_parts_on_disk_a_finished_run_answers_but_does_not_go_on(tmp_path):
    trained(tmp_path / "run", parts=3)
    RunFolder(tmp_path / "run").remove_parts()
    assert not (tmp_path / "run" / "parts").exists()
    bilink.load(tmp_path / "run")
    with pytest.raises(RunError, match="its checkpoint is gone"):
        bilink.resume(tmp_path / "run", options={"epochs": 3})


def test_force_removes_the_parts_of_a_former_run_and_nothing_else(tmp_path):
    trained(tmp_path / "run", parts=3)
    bilink.train(GRAPH, "complex", 3, out=tmp_path / "run", options=OPTIONS, force=True)
    assert not (tmp_path / "run" / "parts").exists()
    trained(tmp_path / "other", parts=3)
    (tmp_path / "other" / "parts" / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match=r"'parts/notes\.txt', which is no file of a run"):
        bilink.train(GRAPH, "complex", 3, out=tmp_path / "other", options=OPTIONS, force=True)
    assert bilink.load(tmp_path / "other").stopped == "finished"


def test_parts_need_a_folder_and_cannot_change(tmp_path):
    with pytest.raises(ConfigError, match="name out"):
        trained(None, parts=3)
    trained(tmp_path / "run", parts=3)
    with pytest.raises(ConfigError, match="parts cannot change"):
        bilink.resume(tmp_path / "run", options={"parts": 4})


@pytest.mark.parametrize("name", ["transe", "hole"])
def test_other_models_train_in_parts(name, tmp_path):
    run = bilink.train(GRAPH, name, 4, out=tmp_path / name, options={**OPTIONS, "parts": 4})
    again = bilink.load(tmp_path / name)
    np.testing.assert_array_equal(run.model.entities, again.model.entities)


def test_a_large_model_stays_in_its_file(tmp_path, monkeypatch):
    run = trained(tmp_path / "run")
    monkeypatch.setattr(storage, "MAPPED", 100)
    mapped = bilink.load(tmp_path / "run")
    assert not mapped.model.entities.flags.writeable
    np.testing.assert_array_equal(mapped.model.entities, run.model.entities)
    assert mapped.evaluate().metrics() == run.evaluate().metrics()
    assert mapped.digest == run.digest


# -- memory ----------------------------------------------------------------------------------------


def of_size(memory, **options):
    return prepare(GRAPH, "complex", 10_000, {**OPTIONS, **options}, memory=memory).config.training


def test_memory_chooses_as_few_parts_as_fit():
    config = of_size("10GB")
    needed = {
        parts: memory_of(GRAPH, family("complex"), 10_000, config.with_options({"parts": parts}))
        for parts in (1, 3, 4, 5, 31)
    }
    assert sorted(needed.values(), reverse=True) == list(needed.values())
    assert of_size(needed[1]).parts == 1
    assert of_size(needed[1] - 1).parts == 3
    assert of_size(needed[3] - 1).parts == 4
    assert of_size(needed[5]).parts == 5
    with pytest.raises(ConfigError, match=r"takes at least 0\.2 GB in 31 parts, more than 0\.1 GB"):
        of_size("100MB")


def test_given_parts_have_to_fit():
    config = of_size("10GB")
    needed = memory_of(GRAPH, family("complex"), 10_000, config.with_options({"parts": 4}))
    assert of_size(needed, parts=4).parts == 4
    with pytest.raises(ConfigError, match="in 4 parts, more than"):
        of_size(needed - 1, parts=4)
    assert within(GRAPH, family("complex"), 3, config, 10**10).parts == 1


def test_the_estimate_names_what_is_in_memory():
    job = prepare(GRAPH, "complex", 10_000, {**OPTIONS, "parts": 31})
    plan = job.plan()
    assert plan.parameters == (31 + 3) * 20_000
    assert plan.memory == memory_of(GRAPH, family("complex"), 10_000, job.config.training)


# -- the command line ------------------------------------------------------------------------------


def test_the_command_line_trains_in_parts_and_goes_on(tmp_path):
    runner, out = CliRunner(), str(tmp_path / "run")
    quick = ["--set", "epochs=1", "--set", "negatives=1", "--set", "margin=1"]
    how = ["train", "atlas", "--model", "distmult", "--dim", "2", "--parts", "3", "--out", out]
    done = runner.invoke(app, [*how, *quick])
    assert done.exit_code == 0, done.output
    assert "in 3 parts, two of which are in memory at a time" in done.stderr
    done = runner.invoke(app, ["resume", out, "--set", "epochs=2"])
    assert done.exit_code == 0, done.output
    assert "all 2 epochs are done" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--model", "complex", "--memory", "1MB"], "takes at least"),
        (["--model", "complex", "--memory", "lots"], "is no size of memory"),
        (["--model", "complex", "--parts", "0"], "parts must be at least 1"),
        (["--model", "paths", "--memory", "1GB"], "takes no --memory"),
        (["--model", "auto", "--memory", "1GB"], "auto chooses all options itself"),
    ],
)
def test_what_cannot_be_is_a_sentence(arguments, sentence):
    with pytest.raises(ConfigError, match=sentence):
        CliRunner().invoke(app, ["train", "atlas", *arguments], catch_exceptions=False)
