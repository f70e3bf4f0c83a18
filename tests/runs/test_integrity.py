"""A run knows what belongs to it: files of another model or graph, edits, links and odd numbers."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from safetensors import safe_open

import bilink
from bilink.errors import BilinkError, DataWarning, RunError, TrainingError
from bilink.models.storage import load_tensors, save_tensors
from bilink.runs.audit import kept_doubts
from bilink.runs.config import read_config_file
from bilink.runs.folder import RunFolder
from conftest import random_graph

OPTIONS = {"epochs": 3, "threads": 1, "patience": 0, "validate_every": 1}
ASK = {"head": "e1", "relation": "r0"}


def dense_graph(seed):
    """Enough validation facts to learn probabilities from."""
    return random_graph(seed, 20, 3, 600)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Runs of two graphs of the same size, an ensemble and rules; not to be changed."""
    folder = tmp_path_factory.mktemp("made")
    for seed in (1, 2):
        graph = dense_graph(seed)
        for model in ("distmult", "transe"):
            out = folder / f"{model}-{seed}"
            bilink.train(graph, model, 4, out=out, options=OPTIONS, preset="margin")
        bilink.train(graph, "paths", out=folder / f"paths-{seed}")
        names = [folder / f"{name}-{seed}" for name in ("distmult", "transe", "paths")]
        bilink.combine([bilink.load(name) for name in names], out=folder / f"ensemble-{seed}")
    bilink.audit(bilink.load(folder / "distmult-1"), folds=2, errors=0.3)
    return folder


@pytest.fixture
def runs(made, tmp_path):
    """A copy of the runs, to be damaged."""
    shutil.copytree(made, tmp_path / "runs")
    return tmp_path / "runs"


def header_of(path):
    with safe_open(path, framework="numpy") as file:
        return file.metadata()


# -- findings belong to a model ------------------------------------------------------------------


def test_a_model_is_named_by_its_content(runs, made):
    digests = {path.name: bilink.load(path).digest for path in sorted(made.iterdir())}
    assert len(set(digests.values())) == len(digests)
    run = bilink.load(runs / "distmult-1")
    assert run.digest == header_of(runs / "distmult-1" / "model.safetensors")["digest"]
    again = bilink.train(run.graph, "distmult", 4, options=OPTIONS, preset="margin")
    again.write(RunFolder(runs / "transe-1"))
    assert again.digest == run.digest
    assert bilink.resume(runs / "distmult-1", options={"epochs": 4}).digest != run.digest


@pytest.mark.parametrize("kind", ["distmult", "paths", "ensemble"])
def test_probabilities_of_another_model_are_not_used(runs, kind):
    run = bilink.load(runs / f"{kind}-1")
    assert run.calibration is not None
    shutil.copy(runs / "transe-1" / "probability.json", run.path)
    with pytest.warns(DataWarning, match="belongs to another model and is not used"):
        assert bilink.load(run.path).calibration is None
    bilink.load(run.path).calibrate()
    assert bilink.load(run.path).calibration is not None


def test_a_longer_run_that_was_killed_before_its_probabilities_has_none(runs):
    """As it stands after a kill between the model and what is learnt about it."""
    path = runs / "distmult-1"
    kept = {name: (path / name).read_bytes() for name in ("probability.json", "audit/doubts.json")}
    assert kept_doubts(bilink.load(path))
    bilink.resume(path, options={"epochs": 5})
    for name, content in kept.items():
        (path / name).write_bytes(content)
    run = bilink.load(path)
    with pytest.warns(DataWarning, match="belongs to another model"):
        assert run.calibration is None
    with pytest.warns(DataWarning, match="bilink audit"):
        assert kept_doubts(run) is None
    with pytest.warns(DataWarning, match="belongs to another model"):
        assert bilink.resume(path).calibration is not None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"doubts": 3}', 10_000 * "[", '{"mean": "a"}'])
def test_findings_that_cannot_be_read_are_not_used(runs, text):
    path = runs / "distmult-1"
    for name in ("probability.json", "audit/doubts.json"):
        (path / name).write_text(text)
    run = bilink.load(path)
    with pytest.warns(DataWarning, match="bilink calibrate"):
        assert run.calibration is None
    with pytest.warns(DataWarning, match="bilink audit"):
        assert kept_doubts(run) is None
    assert run.query(**ASK)


def test_results_of_processes_that_evaluate_at_once_are_all_kept(runs):
    path, code = (
        runs / "distmult-1",
        """
import sys
from bilink.runs.folder import RunFolder
for i in range(20):
    RunFolder(sys.argv[1]).write_metrics({"protocol": f"{sys.argv[2]} {i}"}, "model")
""",
    )
    commands = [[sys.executable, "-c", code, path, str(i)] for i in range(4)]
    for process in [subprocess.Popen(command) for command in commands]:
        assert process.wait() == 0
    assert len(json.loads((path / "metrics.json").read_text())) == 80


# -- a run knows its graph -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "files"),
    [
        ("distmult", ["model.safetensors"]),
        ("paths", ["model.safetensors"]),
        ("ensemble", ["member-0.safetensors"]),
        ("ensemble", ["member-2.safetensors"]),
        ("ensemble", ["weights.safetensors"]),
        ("distmult", ["graph.safetensors", "vocabulary.json"]),
        ("ensemble", ["graph.safetensors"]),
        ("paths", ["graph.safetensors"]),
    ],
)
def test_files_of_another_graph_of_the_same_size_are_refused(runs, kind, files):
    for name in files:
        shutil.copy(runs / f"{kind}-2" / name, runs / f"{kind}-1" / name)
    with pytest.raises(RunError, match="belongs to another graph"):
        bilink.load(runs / f"{kind}-1")


@pytest.mark.parametrize("file", ["checkpoint.safetensors", "graph.safetensors"])
def test_a_run_does_not_go_on_with_another_graph(runs, file):
    shutil.copy(runs / "distmult-2" / file, runs / "distmult-1" / file)
    with pytest.raises(RunError, match="belongs to another graph"):
        bilink.resume(runs / "distmult-1", options={"epochs": 9})


def test_weights_of_other_members_are_refused(runs):
    ensemble = runs / "ensemble-1"
    bilink.train(dense_graph(1), "distmult", 4, out=runs / "other", seed=5, options=OPTIONS)
    shutil.copy(runs / "other" / "model.safetensors", ensemble / "member-0.safetensors")
    with pytest.raises(RunError, match="its weights are of other members"):
        bilink.load(ensemble)


def test_settings_that_were_edited_are_refused(runs):
    path = runs / "distmult-1" / "config.toml"
    before = path.read_text()
    for edited in (
        before.replace("learning_rate = 0.1", "learning_rate = 0.2"),
        before.replace("epochs = 3", "epochs = 30"),
        before.replace("dim = 4", "dim = 5"),
        before + '\n[more]\nwhat = "this"\n',
    ):
        assert edited != before
        path.write_text(edited)
        for read in (bilink.load, bilink.resume):
            with pytest.raises(RunError, match=r"was edited.*undo the edit"):
                read(runs / "distmult-1")
    path.write_text("# a note\n" + before.replace('source = "random"', 'source = "moved"'))
    assert bilink.load(runs / "distmult-1").config.training.epochs == 3
    path.write_text(before.replace("epochs = 3", "epochs = 30"))
    assert read_config_file(path).training.epochs == 30  # to begin another run with


# -- no file of the user is touched ----------------------------------------------------------------


def test_links_in_a_folder_from_elsewhere_lead_to_nothing_that_is_changed(runs, tmp_path):
    path, names = runs / "distmult-1", ("history.jsonl", "checkpoint.safetensors", "config.toml")
    victims = {name: (path / name).read_bytes() for name in (*names, "probability.json")}
    for name, content in victims.items():
        (tmp_path / name).write_bytes(content)
        (path / name).unlink()
        (path / name).symlink_to(tmp_path / name)
    bilink.resume(path, options={"epochs": 4})
    (path / ".lock").unlink()
    (path / ".lock").symlink_to(tmp_path / "config.toml")
    with pytest.raises(RunError, match="is a link to another file, which is not touched"):
        bilink.resume(path, options={"epochs": 9})
    assert {name: (tmp_path / name).read_bytes() for name in victims} == victims


def test_an_audit_neither_writes_nor_removes_behind_a_link(runs, tmp_path):
    outside, path = tmp_path / "outside", runs / "distmult-1"
    (outside / "fold-0").mkdir(parents=True)
    (outside / "fold-0" / "mine").write_text("mine")
    shutil.rmtree(path / "audit")
    (path / "audit").symlink_to(outside)
    run = bilink.load(path)
    with pytest.raises(RunError, match="is a link"):
        bilink.audit(run, folds=2)
    with pytest.raises(RunError, match="is a link"):
        bilink.train(run.graph, "distmult", 2, out=path, force=True, options=OPTIONS)
    assert (outside / "fold-0" / "mine").read_text() == "mine"
    (path / "audit").unlink()
    (path / "audit").mkdir()
    (path / "audit" / "fold-0").symlink_to(outside / "fold-0")
    with pytest.raises(RunError, match="is a link"):
        bilink.audit(run, folds=2)


@pytest.mark.parametrize(
    "name", ["config.toml", "model.safetensors", "history.jsonl", "vocabulary.json"]
)
def test_a_pipe_in_place_of_a_file_is_refused_at_once(runs, name):
    path = runs / "distmult-1"
    (path / name).unlink()
    os.mkfifo(path / name)
    with pytest.raises(RunError, match="no regular file"):
        bilink.load(path)


# -- numbers are finite or an error ----------------------------------------------------------------


def spoil(path, name, value):
    """Put one number into an array of a file, with the header as it was."""
    header = header_of(path)
    tensors, _ = load_tensors(path, header["format"], 1)
    tensors[name] = tensors[name].copy()
    tensors[name].flat[1] = value
    save_tensors(tensors, header, path)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    ("run", "file", "name"),
    [
        ("distmult-1", "model.safetensors", "entities"),
        ("transe-1", "model.safetensors", "relations"),
        ("ensemble-1", "member-0.safetensors", "entities"),
        ("ensemble-1", "weights.safetensors", "tail"),
        ("paths-1", "model.safetensors", "head_weights"),
    ],
)
def test_a_number_in_a_file_that_is_not_finite_is_refused(runs, run, file, name, value):
    spoil(runs / run / file, name, value)
    with pytest.raises(RunError, match="not finite"):
        bilink.load(runs / run)


def test_a_checkpoint_that_is_not_finite_is_refused(runs):
    spoil(runs / "distmult-1" / "checkpoint.safetensors", "entities", np.nan)
    with pytest.raises(RunError, match="not finite"):
        bilink.resume(runs / "distmult-1", options={"epochs": 9})


@pytest.mark.parametrize("run", ["distmult-1", "transe-1", "ensemble-1"])
def test_scores_that_overflow_are_an_error_wherever_they_are_asked_for(runs, run):
    file = "member-0.safetensors" if run == "ensemble-1" else "model.safetensors"
    for name in ("entities", "relations"):
        header = header_of(runs / run / file)
        tensors, _ = load_tensors(runs / run / file, header["format"], 1)
        tensors[name] = np.full_like(tensors[name], 3e38)
        save_tensors(tensors, header, runs / run / file)
    made = bilink.load(runs / run)
    asked = {
        "score": lambda: made.score([("e1", "r0", "e2")]),
        "tails": lambda: made.query(**ASK),
        "relations": lambda: made.query(head="e1", tail="e2"),
        "pairs": lambda: made.query(relation="r0"),
        "new facts": lambda: made.query(new=True),
        "probability": lambda: made.probability([("e1", "r0", "e2")]),
        "explain": lambda: made.explain("e1", "r0", "e2"),
        "evaluate": made.evaluate,
        "classify": made.classify,
    }
    for ask in asked.values():
        with pytest.raises(TrainingError, match="not finite"):
            ask()


def test_a_model_that_is_not_finite_is_not_written(runs):
    run = bilink.load(runs / "distmult-1")
    model = replace(run.model, entities=np.full_like(run.model.entities, np.nan))
    before = (run.path / "model.safetensors").read_bytes()
    with pytest.raises(RunError, match="is not written: it has parameters that are not finite"):
        RunFolder(run.path).write_model(model, run.graph)
    assert (run.path / "model.safetensors").read_bytes() == before


# -- anything in any file --------------------------------------------------------------------------

ODD = ["", "3", "null", "[]", "{}", "\0", "[[]]", 10_000 * "[", "9" * 5000, '{"a":' * 5000]


@pytest.mark.parametrize("text", ODD)
@pytest.mark.parametrize("run", ["distmult-1", "ensemble-1", "paths-1"])
def test_any_text_in_any_file_is_a_sentence_or_does_no_harm(runs, run, text):
    for file in sorted((runs / run).iterdir()):
        if file.is_dir():
            continue
        kept = file.read_bytes()
        file.write_text(text)
        with suppress(BilinkError, DataWarning):
            bilink.load(runs / run).query(**ASK)
        file.write_bytes(kept)
