"""Runs: a model with its graph, its options and its history, in memory and as a folder."""

from bilink._extras import lazy

_HOMES = {
    "CombinedRun": "combined",
    "Job": "job",
    "Run": "run",
    "RunConfig": "folder",
    "RunFolder": "folder",
    "TrainedRun": "trained",
    "combine": "combined",
    "construct_run": "made",
    "convert_run": "made",
    "fold_in_run": "made",
    "load": "loading",
    "prepare": "job",
    "resume": "job",
    "train": "job",
    "train_auto": "auto",
}
__all__ = list(_HOMES)
__getattr__ = lazy(__name__, _HOMES)
