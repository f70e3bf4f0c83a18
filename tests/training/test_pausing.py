"""An epoch can be paused: for a checkpoint, at a time limit, at Ctrl-C; it goes on exactly."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from bilink.errors import RunError
from bilink.models.model import Model
from bilink.models.storage import load_tensors, save_tensors
from bilink.training import loop, margin
from bilink.training.config import MarginConfig, SoftmaxConfig
from bilink.training.engine import FORMAT, VERSION, EpochPausedError
from bilink.training.loop import INTERRUPTED, fit, make_engine
from conftest import random_graph

COMMON = {"epochs": 3, "threads": 1, "patience": 0, "checkpoint_seconds": 0}
CONFIGS = {
    "margin": MarginConfig(**COMMON),
    "more negatives": MarginConfig(**COMMON, negatives=3, corrupt="both"),
    "softmax": SoftmaxConfig(**COMMON, batch_size=16),
    "sampled": SoftmaxConfig(**COMMON, batch_size=16, negatives=5),
    "dropout": SoftmaxConfig(**COMMON, batch_size=16).with_options({"dropout.entity": 0.2}),
}
GRAPH = random_graph(n_entities=30, n_relations=3, size=400)


@pytest.fixture(autouse=True)
def short_pieces(monkeypatch):
    """As if epochs were long: they are looked at after each piece of a few triples."""
    monkeypatch.setattr(margin, "_PIECE", 7)
    monkeypatch.setattr(loop, "PULSE", 0)


def empty():
    return Model.empty("complex", 3, len(GRAPH.entities), len(GRAPH.relations))


def same(first, second):
    return np.array_equal(first.entities, second.entities) and np.array_equal(
        first.relations, second.relations
    )


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_a_paused_epoch_goes_on_as_if_it_had_never_stopped(name):
    engines, found = [], {False: [], True: []}
    for pausing, totals in found.items():
        model = empty()
        loop.initialise(model, CONFIGS[name])
        engine, pauses = make_engine(model, GRAPH, CONFIGS[name]), 0
        while len(totals) < 2:
            try:
                totals.append(engine.run_epoch(len(totals), pause=bool if pausing else None))
            except EpochPausedError:
                pauses += 1
                assert 0 < engine.position.share < 1
        assert (pauses > 10) == pausing
        assert engine.position is None
        engines.append(engine)
    assert found[False] == found[True]  # also in the last digit
    assert same(engines[0].model, engines[1].model)
    for key, array in engines[0].state.items():
        np.testing.assert_array_equal(engines[1].state[key], array)


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_a_run_that_was_interrupted_inside_epochs_ends_like_one_that_was_not(name, tmp_path):
    config, path = CONFIGS[name], tmp_path / "checkpoint.safetensors"
    whole, records = fit(empty(), GRAPH, config), []
    for _ in range(100):
        asked = iter(range(10**6))
        part = fit(
            empty(),
            GRAPH,
            config,
            checkpoint=path,
            on_epoch=records.append,
            should_stop=lambda: next(asked) >= 2,  # noqa: B023
        )
        if part.stopped != INTERRUPTED:
            break
    assert part.stopped == whole.stopped
    assert same(part.model, whole.model)
    assert part.progress == whole.progress
    assert [record["epoch"] for record in records] == [1, 2, 3]


def test_the_loss_of_an_interrupted_epoch_is_that_of_all_its_triples(tmp_path):
    records = [[], []]
    path = tmp_path / "checkpoint.safetensors"
    fit(empty(), GRAPH, CONFIGS["margin"], on_epoch=records[0].append)
    for asked in (iter([True]), iter([False] * 10**6)):
        fit(
            empty(),
            GRAPH,
            CONFIGS["margin"],
            checkpoint=path,
            on_epoch=records[1].append,
            should_stop=lambda: next(asked),  # noqa: B023
        )
    for key in ("epoch", "loss", "violated"):
        assert [r[key] for r in records[0]] == [r[key] for r in records[1]]


@pytest.mark.parametrize("name", ["margin", "softmax"])
def test_a_time_limit_is_heard_inside_an_epoch(name, tmp_path):
    path, seen = tmp_path / "checkpoint.safetensors", []
    config = replace(CONFIGS[name], minutes=1e-9)
    result = fit(empty(), GRAPH, config, on_epoch=seen.append, checkpoint=path)
    assert (result.progress.epoch, seen) == (0, [])
    assert "1e-09 minutes are over, after 0 epochs and" in result.stopped
    assert result.stopped.endswith("% of the next")
    assert result.progress.seconds > 0
    again = fit(empty(), GRAPH, config, checkpoint=path)
    assert again.stopped == result.stopped
    more = fit(empty(), GRAPH, replace(config, minutes=60.0), on_epoch=seen.append, checkpoint=path)
    assert len(seen) == 3
    assert same(more.model, fit(empty(), GRAPH, CONFIGS[name]).model)


@pytest.mark.parametrize("name", ["margin", "softmax"])
def test_progress_is_shown_within_an_epoch(name):
    seen = []
    fit(empty(), GRAPH, CONFIGS[name], on_progress=lambda *told: seen.append(told))
    assert {what for what, _ in seen} == {"training"}
    shares = [share for _, share in seen]
    assert all(0 < share < 1 for share in shares)
    assert any(a < b for a, b in pairwise(shares))


def paused(path, config):
    """A checkpoint inside an epoch."""
    asked = iter([False, True])
    fit(empty(), GRAPH, config, checkpoint=path, should_stop=lambda: next(asked))
    tensors, header = load_tensors(path, FORMAT, VERSION)
    assert 0 < tensors["position_done"].sum() < len(GRAPH.train)
    return tensors, header


def test_with_other_threads_a_paused_epoch_begins_anew(tmp_path):
    path, seen = tmp_path / "checkpoint.safetensors", []
    paused(path, CONFIGS["margin"])
    config = replace(CONFIGS["margin"], threads=3)
    fit(empty(), GRAPH, config, checkpoint=path, on_epoch=seen.append)
    assert len(seen) == 3
    assert all(np.isfinite(record["loss"]) for record in seen)


@pytest.mark.parametrize("threads", [2, 3])
def test_several_threads_go_on_where_each_of_them_was(threads, tmp_path):
    config, path, seen = replace(CONFIGS["margin"], threads=threads), tmp_path / "c.safetensors", []
    for _ in range(200):
        asked = iter([False, False, True])
        result = fit(
            empty(),
            GRAPH,
            config,
            checkpoint=path,
            on_epoch=seen.append,
            should_stop=lambda: next(asked, True),  # noqa: B023
        )
        if result.stopped != INTERRUPTED:
            break
    assert [record["epoch"] for record in seen] == [1, 2, 3]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("position_done", np.array([-1])),
        ("position_done", np.array([10**9])),
        ("position_done", np.array([1.0])),
        ("position_totals", np.full((1, 3), np.nan)),
        ("position_seconds", np.array([np.inf])),
    ],
)
def test_a_position_that_cannot_be_is_refused(name, value, tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    tensors, header = paused(path, CONFIGS["margin"])
    save_tensors({**tensors, name: value}, json.loads(json.dumps(header)), path)
    with pytest.raises(RunError, match="does not fit its run"):
        fit(empty(), GRAPH, CONFIGS["margin"], checkpoint=path)
