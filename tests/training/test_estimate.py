"""What a run will take."""

from types import SimpleNamespace

import pytest

from bilink.data.loading import load_graph
from bilink.runs.job import prepare
from bilink.training import estimate
from bilink.training.batches import queries_of
from bilink.training.presets import preset


def test_full_epochs_are_counted_as_such(monkeypatch):
    """The engine is told which epoch to try: one over a sample, and one over all entities."""
    seconds = {0: (1.0, 10), 9: (100.0, 10)}  # of an epoch, and how many queries it has
    monkeypatch.setattr("bilink.training.estimate._seconds", lambda engine, epoch: seconds[epoch])
    atlas = load_graph("atlas")
    queries = len(queries_of(atlas, 0))
    told = {"loss": "softmax", "negatives": 20, "epochs": 10, "answers_per_query": 0}

    def estimate(full):
        job = prepare(atlas, "complex", 4, {**told, "full_epochs": full})
        return job.plan().seconds / (queries / 10)

    assert [estimate(full) for full in (0, 4, 10)] == pytest.approx([10, 6 + 400, 1000])


def test_what_else_runs_makes_no_difference(monkeypatch):
    """The processor time of an epoch is the same; its seconds are not."""
    ticks = {"perf_counter": 0.0, "process_time": 0.0}

    class Engine:
        threads = 2

        def run_epoch(self, epoch):
            ticks["perf_counter"] += 8.0
            ticks["process_time"] += 2.0
            return SimpleNamespace(pairs=5)

    clock = {name: (lambda name=name: ticks[name]) for name in ticks}
    monkeypatch.setattr(estimate, "time", SimpleNamespace(**clock))
    seconds, pairs = estimate._seconds(Engine(), 0)
    assert seconds == pytest.approx(2.0 / 2 * 1.2)
    assert pairs == 5


@pytest.mark.parametrize(
    ("seconds", "epochs", "full"),
    [
        (1000, 40, 10),  # 30 of 1 s and 10 of 5 s are 80 s
        (60, 40, 5),  # 35 + 25
        (40, 40, 0),
        (10, 10, 0),
        (0.1, 1, 0),
    ],
)
def test_epochs_over_all_entities_go_first(seconds, epochs, full, monkeypatch):
    monkeypatch.setattr(estimate, "epoch_seconds", lambda *arguments: (1.0, 5.0, 2))
    whole = preset("sampled", "complex")
    found = estimate.fitted_to(None, None, whole, seconds)
    assert (found.epochs, found.full_epochs) == (epochs, full)
    assert found.decay**epochs == pytest.approx(whole.decay**40)
