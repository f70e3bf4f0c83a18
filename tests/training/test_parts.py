"""Training in parts: the same state after any interruption, and nothing that only parts have."""

import json
import os
import shutil
from dataclasses import replace

import numpy as np
import pytest

from bilink.errors import ConfigError, RunError, TrainingError
from bilink.models.model import Model
from bilink.models.registry import family
from bilink.training import loop, margin, parts
from bilink.training.buckets import bucket_order
from bilink.training.config import MarginConfig, SoftmaxConfig
from bilink.training.engine import EpochPausedError
from bilink.training.loop import INTERRUPTED, fit
from bilink.training.parts import OURS, PartFiles, PartsEngine, fit_in_parts
from conftest import random_graph

COMMON = {"epochs": 2, "threads": 1, "patience": 0, "parts": 3, "keep": "last"}
CONFIGS = {
    "margin": MarginConfig(**COMMON, negatives=2),
    "softmax": SoftmaxConfig(**COMMON, batch_size=16, optimizer="adam"),
    "sampled": SoftmaxConfig(**COMMON, batch_size=16, negatives=5, optimizer="row-adagrad"),
    "sgd": MarginConfig(**COMMON, optimizer="sgd", learning_rate=0.01),
}
GRAPH = random_graph(n_entities=31, n_relations=3, size=400)
COMPLEX = family("complex")


@pytest.fixture(scope="module", autouse=True)
def quick_disk():
    """Nobody waits for the disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


class Killed(Exception):
    """As if the process had died."""


def trained(folder, config, graph=GRAPH, **hooks):
    folder.mkdir(exist_ok=True)
    return fit_in_parts(COMPLEX, 3, graph, config, folder, **hooks)


def contents(folder):
    """All files; but the journal has times."""
    found = {path.name: path.read_bytes() for path in folder.iterdir()}
    found.pop("now.safetensors", None)
    lines = [json.loads(line) for line in found.pop("journal.jsonl").splitlines()]
    return {**found, "journal": [{**line, "seconds": 0} for line in lines]}


def same(first, second):
    return np.array_equal(first.entities, second.entities) and np.array_equal(
        first.relations, second.relations
    )


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A run of each config that was never stopped: its result, its folder, and what is in it."""
    found = {}
    for name, config in CONFIGS.items():
        folder = tmp_path_factory.mktemp(name)
        found[name] = trained(folder, config), contents(folder)
    return found


def killed_at(monkeypatch, number, before):
    """Let the process die at the n-th commit, before its line is written or after it."""
    commit, calls = PartFiles.commit, iter(range(100))

    def dying(self, *arguments):
        now = next(calls) == number
        if now and before:
            raise Killed
        commit(self, *arguments)
        if now:
            raise Killed

    monkeypatch.setattr(PartFiles, "commit", dying)


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("name", ["margin", "softmax"])
def test_a_run_killed_at_any_bucket_goes_on_to_the_same_bytes(
    name, number, before, tmp_path, monkeypatch, undisturbed
):
    with monkeypatch.context() as patch:
        killed_at(patch, number, before)
        with pytest.raises(Killed):
            trained(tmp_path, CONFIGS[name])
    lines = (tmp_path / "journal.jsonl").read_text().splitlines()
    # One bucket is lost at most: the one that was not committed.
    assert len(lines) - 1 == number % 3 + (not before)
    result = trained(tmp_path, CONFIGS[name])
    assert same(result.model, undisturbed[name][0].model)
    assert contents(tmp_path) == undisturbed[name][1]


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_files_that_were_cut_short_or_do_not_count_make_no_difference(
    name, tmp_path, monkeypatch, undisturbed
):
    with monkeypatch.context() as patch:
        killed_at(patch, 4, before=True)
        with pytest.raises(Killed):
            trained(tmp_path, CONFIGS[name])
    with open(tmp_path / "journal.jsonl", "a") as file:
        file.write('{"bucket": 1, "par')
    for strange in ("part-0-9-9.safetensors", "best.7.safetensors", ".journal.jsonl.ab.tmp"):
        (tmp_path / strange).write_bytes(b"half")
    assert same(trained(tmp_path, CONFIGS[name]).model, undisturbed[name][0].model)
    assert contents(tmp_path) == undisturbed[name][1]


def test_a_deal_that_was_killed_is_done_again(tmp_path, monkeypatch, undisturbed):
    for dying_at in (0, 1):  # the first deal, and the second
        save, calls = PartFiles.save, iter(range(100))

        def dying(self, state, done, save=save, calls=calls, dying_at=dying_at):
            if state.deal == dying_at and self.state.deal < dying_at:
                raise Killed
            save(self, state, done)

        with monkeypatch.context() as patch:
            patch.setattr(PartFiles, "save", dying)
            with pytest.raises(Killed):
                trained(tmp_path, CONFIGS["margin"])
    trained(tmp_path, CONFIGS["margin"])
    assert contents(tmp_path) == undisturbed["margin"][1]


@pytest.mark.parametrize("name", ["margin", "sampled"])
def test_a_run_that_is_stopped_within_buckets_ends_like_one_that_was_not(
    name, tmp_path, monkeypatch, undisturbed
):
    monkeypatch.setattr(margin, "_PIECE", 7)
    monkeypatch.setattr(loop, "PULSE", 0)
    for asks in range(2, 200, 9):
        asked = iter(range(10**6))
        part = trained(tmp_path, CONFIGS[name], should_stop=lambda: next(asked) == asks)  # noqa: B023
        if part.stopped != INTERRUPTED:
            break
    assert asks > 20
    assert same(part.model, undisturbed[name][0].model)


@pytest.mark.parametrize("name", ["margin", "sampled"])
def test_a_bucket_that_was_paused_is_run_again_from_its_start(name, tmp_path, monkeypatch):
    monkeypatch.setattr(margin, "_PIECE", 7)
    models, pauses = [], 0
    for folder in (tmp_path / "paused", tmp_path / "whole"):
        folder.mkdir()
        engine, totals = PartsEngine(COMPLEX, 3, GRAPH, CONFIGS[name], folder, True), None
        engine.start()
        asked = iter(range(10**6))
        while totals is None:
            pause = (lambda share: next(asked) in (4, 9, 30)) if folder.name == "paused" else None  # noqa: B023
            try:
                totals = engine.run_epoch(0, pause=pause)
            except EpochPausedError:
                pauses += 1
                assert engine.position.share < 1
                # What is seen now is the state after the last bucket that was finished.
                relations = engine.assemble(folder / "now.safetensors").relations
                kept = parts.map_tensors(engine.files.relations(), parts.FORMAT, parts.VERSION)[0]
                np.testing.assert_array_equal(relations, kept["relations"])
        models.append((engine.assemble(folder / "now.safetensors"), totals))
    assert pauses >= 2
    assert models[0][1] == models[1][1]
    assert same(models[0][0], models[1][0])


def test_a_finished_run_can_be_made_longer(tmp_path, undisturbed):
    config = CONFIGS["margin"]
    trained(tmp_path, replace(config, epochs=1))
    trained(tmp_path, config)
    assert contents(tmp_path) == undisturbed["margin"][1]


def test_files_do_not_pile_up(undisturbed):
    for _, found in undisturbed.values():
        kinds = sorted(name.partition("-")[0] for name in found)
        assert kinds == ["journal", "part", "part", "part", "relations"]


def test_the_best_model_is_kept_with_its_relations(tmp_path):
    config = replace(CONFIGS["margin"], epochs=4, keep="best", validate_every=1)
    seen, values = [], iter([0.1, 0.5, 0.3, 0.2])

    def validate(model):
        seen.append(Model(model.family, model.dim, model.entities.copy(), model.relations.copy()))
        return next(values)

    result = trained(tmp_path, config, validate=validate)
    assert result.progress.best_epoch == 2
    assert same(result.model, seen[1])
    assert not same(seen[1], seen[3])


def test_validation_sees_all_entities_in_their_order(tmp_path):
    seen = []
    config = replace(CONFIGS["margin"], epochs=1, learning_rate=1e-30)

    def validate(model):
        seen.append(model.entities.copy())
        return 0.1

    trained(tmp_path, config, validate=validate)
    whole = Model.empty("complex", 3, len(GRAPH.entities), len(GRAPH.relations))
    loop.initialise(whole, config)
    np.testing.assert_array_equal(seen[0], whole.entities)  # the same start as in one piece


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "row-adagrad", "adam"])
def test_two_parts_are_the_whole_graph_in_another_order(optimizer, tmp_path):
    """With one bucket and no negatives to draw, training in parts is as usual: but for the order.

    So the optimizer's state follows its rows from deal to deal.
    """
    config = SoftmaxConfig(epochs=3, threads=1, parts=2, batch_size=10**6, optimizer=optimizer)
    in_parts = trained(tmp_path, config).model
    whole = Model.empty("complex", 3, len(GRAPH.entities), len(GRAPH.relations))
    in_one = fit(whole, GRAPH, replace(config, parts=1)).model
    np.testing.assert_allclose(in_parts.entities, in_one.entities, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(in_parts.relations, in_one.relations, rtol=1e-3, atol=1e-6)


def test_the_softmax_of_a_bucket_stands_for_that_over_all_entities(tmp_path):
    """Of entities that all score 0, the loss is the logarithm of how many there are in all."""
    config = replace(CONFIGS["softmax"], epochs=1, learning_rate=1e-30, init_scale=1e-9)
    for name, negatives in (("all", 0), ("some", 5)):
        records = []
        config = replace(config, negatives=negatives)
        trained(tmp_path / name, config, on_epoch=records.append)
        assert records[0]["loss"] == pytest.approx(np.log(len(GRAPH.entities)), rel=1e-5)


def test_entities_that_were_learnt_in_parts_rank_about_as_well(tmp_path):
    """A graph with something to learn: each entity precedes the next."""
    n = 60
    triples = np.array([(i, r, (i + r + 1) % n) for i in range(n) for r in range(3)])
    graph = replace(GRAPH_OF(n), train=triples)
    config = SoftmaxConfig(**{**COMMON, "epochs": 15, "parts": 4}, batch_size=32)
    losses = {}
    for count in (1, 4):
        records = []
        if count == 1:
            model = Model.empty("complex", 8, n, 3)
            fit(model, graph, replace(config, parts=1), on_epoch=records.append)
        else:
            fit_in_parts(COMPLEX, 8, graph, config, tmp_path, on_epoch=records.append)
        losses[count] = records[-1]["loss"]
    assert losses[4] < max(2 * losses[1], 0.1)


def GRAPH_OF(n):
    return random_graph(n_entities=n, n_relations=3, size=100)


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_buckets_may_be_empty(name, tmp_path):
    graph = random_graph(n_entities=31, n_relations=3, size=12)
    result = trained(tmp_path, replace(CONFIGS[name], parts=10), graph)
    assert result.model.is_finite()


def test_a_model_outlives_the_next_one(tmp_path):
    """Its file is mapped, and must not change below it."""
    models = []

    def validate(model):
        models.append((model, model.entities.copy()))
        return 0.1

    trained(tmp_path, replace(CONFIGS["margin"], epochs=3, validate_every=1), validate=validate)
    assert len(models) == 3
    for model, entities in models:
        np.testing.assert_array_equal(model.entities, entities)


def test_training_that_diverges_keeps_the_last_good_bucket(tmp_path):
    config = replace(CONFIGS["margin"], optimizer="sgd", learning_rate=1e30)
    with pytest.raises(TrainingError, match=r"diverged in epoch 1.*is kept in"):
        trained(tmp_path, config)
    for path in tmp_path.glob("part-*"):
        arrays = parts.map_tensors(path, parts.FORMAT, parts.VERSION)[0]
        assert np.isfinite(arrays["entities"]).all()


def test_a_journal_of_another_run_is_refused(tmp_path):
    trained(tmp_path, CONFIGS["margin"])
    with pytest.raises(RunError, match="another parts"):
        trained(tmp_path, replace(CONFIGS["margin"], parts=4))
    other = random_graph(seed=1, n_entities=31, n_relations=3, size=400)
    with pytest.raises(RunError, match="another graph"):
        trained(tmp_path, CONFIGS["margin"], graph=other)


@pytest.mark.parametrize("name", ["part-1", "relations", "journal"])
def test_damage_is_a_sentence(name, tmp_path):
    trained(tmp_path, replace(CONFIGS["margin"], epochs=1))
    (path,) = tmp_path.glob(f"{name}*")
    for data in (b"", b"junk", path.read_bytes()[:-9]):
        copied = tmp_path.parent / f"damaged-{name}"
        shutil.rmtree(copied, ignore_errors=True)
        shutil.copytree(tmp_path, copied)
        (copied / path.name).write_bytes(data)
        if name == "journal" and len(data) > 10:
            continue  # a line that was cut short is no damage
        with pytest.raises(RunError, match=path.name.partition(".")[0]):
            trained(copied, CONFIGS["margin"])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"parts": 40}, "parts cannot be 40: there are 31 entities"),
        ({"start": "elsewhere"}, "start does not go with parts"),
        ({"loss": "softmax", "label_smoothing": 0.1}, "label_smoothing goes with all entities"),
    ],
)
def test_what_does_not_go_with_parts_is_refused(options, sentence, tmp_path):
    with pytest.raises(ConfigError, match=sentence):
        trained(tmp_path, CONFIGS["margin"].with_options(options))


def test_only_two_parts_are_in_memory(tmp_path):
    config = replace(CONFIGS["margin"], parts=7)
    engine = PartsEngine(COMPLEX, 3, GRAPH, config, tmp_path, True)
    assert len(engine._rows["entities"]) == 2 * 5  # of 31
    assert engine._rows["entities"].nbytes == engine._rows["entity_state"].nbytes


def test_names_of_files_are_known(tmp_path):
    trained(tmp_path, replace(CONFIGS["margin"], keep="best"), validate=lambda model: 0.1)
    assert all(OURS.fullmatch(path.name) for path in tmp_path.iterdir())
    assert not OURS.fullmatch("notes.txt")


def test_each_read_brings_one_part(tmp_path, monkeypatch):
    engine = PartsEngine(COMPLEX, 3, GRAPH, replace(CONFIGS["margin"], parts=6), tmp_path, True)
    engine.start()
    read = []
    original = PartsEngine._read
    monkeypatch.setattr(
        PartsEngine,
        "_read",
        lambda self, path, into: read.append(path) or original(self, path, into),
    )
    engine.run_epoch(0)
    assert len(read) == len(bucket_order(6)) + 1
