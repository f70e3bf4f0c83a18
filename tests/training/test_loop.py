from dataclasses import replace

import numpy as np
import pytest

from bilink.errors import DataError, RunError, TrainingError
from bilink.models.model import Model
from bilink.models.registry import FAMILIES
from bilink.training.config import MarginConfig
from bilink.training.loop import fit, initialise
from bilink.training.presets import preset
from conftest import random_graph

CONFIG = MarginConfig(epochs=12, threads=1, patience=0, validate_every=2, checkpoint_seconds=0)


def empty(graph, name="complex", dim=3):
    return Model.empty(name, dim, len(graph.entities), len(graph.relations))


def falling(values):
    """A validation that returns the given values, one after the other."""
    iterator = iter(values)
    return lambda model: next(iterator)


def same(first, second):
    return np.array_equal(first.entities, second.entities) and np.array_equal(
        first.relations, second.relations
    )


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_one_thread_is_exactly_repeatable(graph, name):
    runs = [fit(empty(graph, name), graph, CONFIG).model for _ in range(2)]
    assert same(*runs)
    other = fit(empty(graph, name), graph, CONFIG.with_options({"seed": 1})).model
    assert not same(runs[0], other)


@pytest.mark.parametrize("optimizer", ["adagrad", "sgd"])
@pytest.mark.parametrize("stop_at", [1, 5, 11])
def test_a_resumed_run_ends_bit_for_bit_like_one_that_never_stopped(
    graph, tmp_path, stop_at, optimizer
):
    config = CONFIG.with_options({"optimizer": optimizer, "decay": 0.9})
    values = [0.1, 0.5, 0.3, 0.6, 0.2, 0.4]
    whole = fit(empty(graph), graph, config, validate=falling(values))
    path = tmp_path / "checkpoint.safetensors"
    asked = iter(range(1, 100))
    first = fit(
        empty(graph),
        graph,
        config,
        validate=falling(values),
        checkpoint=path,
        should_stop=lambda: next(asked) == stop_at,
    )
    assert (first.stopped, first.progress.epoch) == ("interrupted", stop_at)
    rest = fit(
        empty(graph), graph, config, validate=falling(values[stop_at // 2 :]), checkpoint=path
    )
    assert same(whole.model, rest.model)
    assert whole.progress == rest.progress


@pytest.mark.parametrize(("keep", "place"), [("best", 1), ("last", -1)])
@pytest.mark.parametrize("validations", [4, 6])
def test_the_best_model_on_validation_is_returned_or_the_last(graph, keep, place, validations):
    """Of a run that came to its end, and of one that was stopped."""
    seen = []

    def validate(model):
        seen.append(model.entities.copy())
        return [0.1, 0.7, 0.3, 0.2, 0.1, 0.0][len(seen) - 1]

    result = fit(
        empty(graph),
        graph,
        replace(CONFIG, keep=keep),
        validate=validate,
        should_stop=lambda: len(seen) == validations,
    )
    np.testing.assert_array_equal(result.model.entities, seen[place])
    assert (result.progress.best_mrr, result.progress.best_epoch) == (0.7, 4)


def test_early_stopping_says_why(graph):
    config = CONFIG.with_options({"patience": 2})
    result = fit(empty(graph), graph, config, validate=falling([0.5, 0.4, 0.3, 0.9]))
    assert result.progress.epoch == 6
    assert "no better validation MRR in 2 validations" in result.stopped
    assert "0.5000, was at epoch 2" in result.stopped


def test_a_run_that_stopped_early_stays_stopped_when_resumed(graph, tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    config = CONFIG.with_options({"patience": 2})
    first = fit(empty(graph), graph, config, validate=falling([0.5, 0.4, 0.3]), checkpoint=path)
    again = fit(empty(graph), graph, config, validate=falling([]), checkpoint=path)
    assert (again.progress, again.stopped) == (first.progress, first.stopped)
    assert same(first.model, again.model)
    patient = config.with_options({"patience": 3})
    more = fit(empty(graph), graph, patient, validate=falling([0.2, 0.1]), checkpoint=path)
    assert more.progress.epoch == 8


def test_an_interruption_in_the_last_epoch_is_an_ordinary_end(graph):
    config = CONFIG.with_options({"patience": 1})
    result = fit(
        empty(graph), graph, config, validate=falling([0.5, 0.4]), should_stop=lambda: False
    )
    asked = iter([False, False, False, True])
    other = fit(
        empty(graph), graph, config, validate=falling([0.5, 0.4]), should_stop=lambda: next(asked)
    )
    assert other.stopped == result.stopped


def test_records_have_what_scripts_rely_on(graph):
    records = []
    fit(empty(graph), graph, CONFIG, on_epoch=records.append)
    assert [record["epoch"] for record in records] == list(range(1, 13))
    assert {"epoch", "seconds", "triples_per_second", "loss", "violated"} <= set(records[0])


def test_divergence_stops_with_a_sentence_and_keeps_the_checkpoint(graph, tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    fit(empty(graph, "rescal"), graph, CONFIG.with_options({"epochs": 2}), checkpoint=path)
    good = path.read_bytes()
    wild = CONFIG.with_options({"optimizer": "sgd", "learning_rate": 1e18, "epochs": 200})
    with pytest.raises(TrainingError, match=r"diverged in epoch \d+"):
        fit(empty(graph, "rescal"), graph, wild.with_options({"checkpoint_seconds": 1e6}))
    with pytest.raises(TrainingError, match="last good checkpoint is kept"):
        fit(
            empty(graph, "rescal"),
            graph,
            CONFIG.with_options({"learning_rate": 1e30, "epochs": 200, "checkpoint_seconds": 1e6}),
            checkpoint=path,
        )
    assert path.read_bytes() == good


def test_training_learns_a_pattern_that_can_be_seen_by_eye():
    """A cycle e0 → e1 → … → e0 for all but TransE, whose translations cannot close one."""
    from bilink.data.graph import Graph
    from bilink.data.vocabulary import Vocabulary

    n = 12
    cycle = np.array([(i, 0, (i + 1) % n) for i in range(n)])
    names = tuple(map(str, range(n)))
    none = np.empty((0, 3))
    graph = Graph(
        "cycle", Vocabulary("entity", names), Vocabulary("relation", ("next",)), cycle, none, none
    )
    for name in ("rescal", "hole", "complex", "transe"):
        if name == "transe":
            object.__setattr__(graph, "train", graph.train[:-1])  # a path
        config = MarginConfig(epochs=3000, threads=1, patience=0)
        model = fit(empty(graph, name, 10), graph, config).model
        scores = model.score(np.array([(i, 0, j) for i in range(n) for j in range(n)]))
        best = scores.reshape(n, n).argmax(axis=1)
        expected = (np.arange(n) + 1) % n
        last = n - 1 if name == "transe" else n
        assert (best == expected)[:last].all(), name


def test_a_checkpoint_of_another_size_is_refused(graph, tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    fit(empty(graph), graph, CONFIG, checkpoint=path)
    for other in (empty(graph, dim=4), empty(graph, "distmult", 6)):
        with pytest.raises(RunError, match="does not fit its run"):
            fit(other, graph, CONFIG, checkpoint=path)


def test_a_graph_without_training_triples_is_refused():
    graph = random_graph()
    object.__setattr__(graph, "train", graph.train[:0])
    with pytest.raises(DataError, match="no training triples"):
        fit(empty(graph), graph, CONFIG)


def test_initial_values_are_those_of_the_papers_authors():
    n, dim, k = 300, 20, 8
    found = {}
    for name in ("rescal", "hole", "transe", "distmult"):
        model = Model.empty(name, dim, n, k)
        initialise(model, preset("paper", name))
        found[name] = model.family.export(model.entities, model.relations)
    glorot, translations = np.sqrt(6 / (n + dim)), 0.6 / np.sqrt(dim)
    of_entities = {"rescal": glorot, "hole": glorot, "transe": translations, "distmult": glorot}
    of_relations = {"rescal": np.sqrt(6 / (2 * dim)), "hole": glorot, "distmult": np.sqrt(6 / 28)}
    for i, bounds in enumerate((of_entities, of_relations)):
        for name, bound in bounds.items():
            assert 0.95 * bound < np.abs(found[name][i]).max() < 1.001 * bound, name
            assert found[name][i].std() == pytest.approx(bound / np.sqrt(3), rel=0.15)
    np.testing.assert_allclose(np.linalg.norm(found["transe"][1], axis=1), 1, rtol=1e-5)


def test_initial_values_in_the_coordinates_of_the_paper():
    found = []
    for coordinates in ("training", "paper"):
        model = Model.empty("hole", 20, 50, 30)
        initialise(model, CONFIG.with_options({"coordinates": coordinates, "init_scale": 0.5}))
        found.append([x.std() for x in model.family.export(model.entities, model.relations)])
    assert found[0] == pytest.approx([0.5, 0.5 / np.sqrt(10)], rel=0.1)  # 10 = dim / 2
    assert found[1] == pytest.approx([0.5, 0.5], rel=0.1)
