"""What a run will take."""

from bilink.data.loading import load_graph
from bilink.runs.job import prepare


def test_full_epochs_are_counted_as_such(monkeypatch):
    """The engine is told which epoch to try: one over a sample, and one over all entities."""
    seconds = {0: 1.0, 9: 100.0}
    monkeypatch.setattr("bilink.training.estimate._seconds", lambda engine, epoch: seconds[epoch])
    atlas = load_graph("atlas")
    told = {"loss": "softmax", "negatives": 20, "epochs": 10, "batch_size": 10**9}

    def estimate(full):
        return prepare(atlas, "complex", 4, {**told, "full_epochs": full}).plan().seconds

    assert [estimate(full) for full in (0, 4, 10)] == [10, 6 + 400, 1000]
