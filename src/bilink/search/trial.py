"""One trial: train with the settings, see how good the model is on the validation split."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from bilink.data.graph import Graph
from bilink.evaluation.entity_ranking import VALIDATION_FILTER
from bilink.runs.job import train
from bilink.runs.trained import TrainedRun
from bilink.search.space import preset_of, split_settings
from bilink.training.loop import INTERRUPTED


def run_trial(
    graph: Graph, settings: Mapping[str, Any], report: Callable[[dict[str, Any]], bool]
) -> dict[str, Any] | None:
    """What became of the trial, or nothing if ``report`` wanted an end before it was over.

    Each epoch's record is reported.  The test split is not looked at.
    """
    started, going = time.perf_counter(), True

    def on_epoch(record: dict[str, Any]) -> None:
        nonlocal going
        going = report(record)

    model, dim, options = split_settings(settings)
    run = train(
        graph,
        model,
        dim,
        preset=preset_of(settings),
        options=options,
        on_epoch=on_epoch,
        should_stop=lambda: not going,
    )
    if run.stopped == INTERRUPTED:
        return None
    return {
        "metrics": validation_metrics(run),
        "stopped": run.stopped,
        "best_epoch": run.progress.best_epoch or run.progress.epoch,
        "epochs": run.progress.epoch,
        "seconds": round(time.perf_counter() - started, 3),
    }


def validation_metrics(run: TrainedRun) -> dict[str, float]:
    """Metrics on the whole validation split, filtered by train and valid alone."""
    threads = run.config.training.threads or None
    return run.evaluate("valid", filter=VALIDATION_FILTER, threads=threads).metrics()
