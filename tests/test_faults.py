"""Crashes, full disks and odd graphs: nothing is lost, and there is one clear sentence."""

import os
import random
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import bilink
from bilink.data.graph import Graph
from bilink.data.vocabulary import Vocabulary
from bilink.errors import DataWarning, RunError
from bilink.models.registry import FAMILIES

TRAIN = [sys.executable, "-m", "bilink", "train", "atlas", "--dim", "30", "--preset", "margin"]
RESUME = [sys.executable, "-m", "bilink", "resume"]
SETTINGS = ("epochs=60", "threads=1", "checkpoint_seconds=0", "validate_every=7", "patience=0")
OPTIONS = [part for setting in SETTINGS for part in ("--set", setting)]


def epochs_done(run):
    path = run / "history.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.slow
def test_a_run_killed_at_random_moments_ends_as_if_it_had_not_been(tmp_path):
    whole, hurt = tmp_path / "whole", tmp_path / "hurt"
    subprocess.run([*TRAIN, *OPTIONS, "--out", whole], check=True, capture_output=True)
    chance = random.Random(0)
    command, kills = [*TRAIN, *OPTIONS, "--out", hurt], 0
    for target in (0, 2, 11, 25, 44, 999):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        while process.poll() is None and epochs_done(hurt) < target:
            time.sleep(0.002)
        time.sleep(chance.uniform(0, 0.05))  # a checkpoint is written after each epoch
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        error = process.communicate()[1].decode()
        assert process.returncode in (0, -signal.SIGKILL), error
        if (hurt / "config.toml").exists():
            command = [*RESUME, str(hurt)]
        else:
            command = [*TRAIN, *OPTIONS, "--out", hurt, "--force"]
    assert kills >= 3
    for name in ("model.safetensors", "checkpoint.safetensors"):
        assert (hurt / name).read_bytes() == (whole / name).read_bytes()
    epochs = [record["epoch"] for record in bilink.load(hurt).history]
    assert epochs == list(range(1, 61))


def limited(command, size):
    """Run ``command`` where no file may grow beyond ``size`` bytes, as on a disk that is full."""

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return subprocess.run(command, capture_output=True, text=True, preexec_fn=limit)


def test_a_full_disk_leaves_the_last_good_state(tmp_path):
    run = tmp_path / "run"
    # Numba writes its cache too: compile before the limit is set.
    subprocess.run([*TRAIN, *OPTIONS, "--out", run, "--set", "epochs=3"], check=True)
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    done = limited([*RESUME, str(run), "--set", "epochs=6"], 400_000)
    assert done.returncode == 1
    assert "no space left while writing" in done.stderr
    assert "Traceback" not in done.stderr
    assert (run / "checkpoint.safetensors").read_bytes() == before["checkpoint.safetensors"]
    assert (run / "model.safetensors").read_bytes() == before["model.safetensors"]
    assert not [path for path in run.iterdir() if path.name.endswith(".tmp")]
    with pytest.warns(DataWarning, match="its model is the one from before"):
        assert bilink.load(run).stopped == "interrupted"
    assert bilink.resume(run, options={"epochs": 6}).progress.epoch == 6
    assert bilink.load(run).stopped == "finished"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_really_full_disk_is_a_sentence(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", disk], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("mounting a small disk is not allowed here")
    try:
        command = [*TRAIN, *OPTIONS, "--out", disk / "run"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 1
        assert "no space left while writing" in done.stderr
        assert "Traceback" not in done.stderr
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"cannot write|is a file"):
        bilink.train("atlas", "transe", 2, out=tmp_path / "file" / "run", epochs=1)
    with pytest.raises(RunError, match="is a file"):
        bilink.train("atlas", "transe", 2, out=tmp_path / "file", epochs=1)


def test_ctrl_c_ends_after_the_epoch_and_can_be_resumed(tmp_path):
    run = tmp_path / "run"
    command = [*TRAIN, *OPTIONS, "--set", "epochs=100000", "--out", run]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for _ in range(600):
        time.sleep(0.1)
        if (run / "history.jsonl").exists():
            break
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert "bilink resume" in out
    assert "Traceback" not in error
    epochs = len((run / "history.jsonl").read_text().splitlines())
    again = bilink.resume(run, options={"epochs": epochs + 2})
    assert again.progress.epoch == epochs + 2


@pytest.mark.parametrize("pause", [0, 0.003])
def test_two_quick_ctrl_c_end_it_at_once_without_a_traceback(tmp_path, pause):
    run = tmp_path / "run"
    command = [*TRAIN, *OPTIONS, "--set", "epochs=100000", "--out", run]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (run / "history.jsonl").exists() and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    time.sleep(pause)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert "Traceback" not in error
    assert bilink.resume(run, options={"epochs": 3}).progress.epoch >= 1


def tiny(triples, n_entities, n_relations):
    none = np.empty((0, 3))
    return Graph(
        "tiny",
        Vocabulary("entity", tuple(f"e{i}" for i in range(n_entities))),
        Vocabulary("relation", tuple(f"r{i}" for i in range(n_relations))),
        np.array(triples),
        none,
        np.array(triples)[:1],
    )


@pytest.mark.parametrize("model", sorted(FAMILIES))
def test_a_graph_of_two_entities_and_one_triple_trains_and_is_ranked(model):
    run = bilink.train(tiny([(0, 0, 1)], 2, 1), model, 1, epochs=3)
    metrics = run.evaluate().metrics()
    assert 0 < metrics["mrr"] <= 1
    assert [answer.tail for answer in run.query(head="e0", relation="r0")] == ["e1"]


def test_a_hundred_thousand_relations_with_one_triple_each():
    n = 100_000
    chance = np.random.default_rng(0)
    triples = np.stack([chance.integers(0, 500, n), np.arange(n), chance.integers(0, 500, n)], 1)
    run = bilink.train(tiny(triples, 500, n), "transe", 4, epochs=1)
    result = run.evaluate()
    assert result.metrics()["mrr"] > 0
    assert len(bilink.describe(run.graph).relation_statistics) == n
