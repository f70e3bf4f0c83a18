"""Runs: a model with its graph, its options and its history, in memory and as a folder."""

from bilink._extras import lazy

_NAMES = {
    "auto": ("train_auto",),
    "combined": ("CombinedRun", "combine"),
    "config": ("RunConfig",),
    "folder": ("RunFolder",),
    "job": ("Job", "prepare", "resume", "train"),
    "loading": ("load",),
    "made": ("construct_run", "convert_run"),
    "paths": ("PathRun", "train_paths"),
    "run": ("Run",),
    "trained": ("TrainedRun",),
}
__all__, __getattr__ = lazy(__name__, _NAMES)
