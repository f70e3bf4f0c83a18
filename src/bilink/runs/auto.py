"""The best that can be had of a graph in a given time: paths, a few models, and their ensemble."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bilink.data.graph import Graph
from bilink.ensembles.fitting import EnsembleConfig, fit_ensemble
from bilink.errors import ConfigError, TrainingError
from bilink.evaluation.entity_ranking import VALIDATION_FILTER, rank_entities
from bilink.models.scorer import Scorer
from bilink.paths.model import NAME as PATHS
from bilink.runs.combined import CombinedRun, combine
from bilink.runs.folder import RunFolder
from bilink.runs.job import Job, OnEpoch, ShouldStop, prepare
from bilink.runs.paths import PathRun, train_paths
from bilink.runs.trained import TrainedRun

# (model, dim, share of the time): the strongest first, then those that differ most from it.
CANDIDATES = (("complex", 100, 0.5), ("rescal", 50, 0.25), ("transe", 100, 0.25))
MOST = 7  # members: where time is left, the first one is trained again from other seeds
TRAINING = 0.8  # share of the time; the rest is for the ensemble
EPOCHS = 10_000  # more than there is time for: time and patience end a run
COMPARED = 2000  # validation triples by which the ensemble is held against its members
ENSEMBLE = "ensemble"
MINUTE = 60.0


Made = TrainedRun | PathRun | CombinedRun


@dataclass(frozen=True)
class Outcome:
    """What was made, and how the candidates did on the validation triples that compare them."""

    run: Made
    name: str
    validation_mrr: dict[str, float]
    seconds: float


def train_auto(
    data: Graph | str | Path,
    minutes: float,
    *,
    out: str | Path | None = None,
    force: bool = False,
    say: Callable[[str], None] = lambda text: None,
    on_epoch: OnEpoch | None = None,
    should_stop: ShouldStop = lambda: False,
    **reading: Any,
) -> Outcome:
    """Count paths, train, combine and compare; keep what is best on validation.

    Paths come first, since they take seconds; then models, until ``minutes`` are over.  Time that
    a model leaves goes to those after it, and then to more runs of the first one.  The ensemble is
    fitted on one half of the validation split and held against its members on the other; if it
    wins, it is fitted again on all of it.  ``reading`` says how ``load_graph`` should read
    ``data``.

    With ``out``, the folder holds a run as soon as paths are counted.
    """
    if not 0 < minutes < float("inf"):
        raise ConfigError(f"the budget must be a positive time, not {minutes} minutes")
    started = time.perf_counter()
    first = prepare(data, *CANDIDATES[0][:2], **reading)
    folder = RunFolder(out) if out is not None else None
    work = _Work(first, started, 60 * minutes, folder, say, on_epoch, should_stop)
    with folder.created(force) if folder else nullcontext():  # before the work is done in vain
        return work.do()


@dataclass(frozen=True)
class _Work:
    """What is to be done, and until when."""

    first: Job  # knows the graph and where it came from
    started: float
    seconds: float
    folder: RunFolder | None
    say: Callable[[str], None]
    on_epoch: OnEpoch | None
    should_stop: ShouldStop

    def do(self) -> Outcome:
        runs = self._train()
        name, found = _compare(self.first.graph, runs, self.say)
        best: Made
        best = combine(list(runs.values())) if name == ENSEMBLE else runs[name]
        if name != ENSEMBLE:
            best.calibrate_if_possible()
        self._keep(best)
        return Outcome(best, name, found, time.perf_counter() - self.started)

    def _keep(self, run: Made) -> None:
        if self.folder is not None:
            run.write(self.folder)

    def _count(self) -> PathRun:
        """Rules; those of three steps only where there is time."""
        graph = self.first.graph
        length = 3 if self.seconds >= MINUTE else 2
        run = train_paths(
            graph, {"length": length}, calibrate=False, source=self.first.config.data, say=self.say
        )
        self._keep(run)  # so that a crash does not lose all
        return run

    def _train(self) -> dict[str, TrainedRun | PathRun]:
        """The candidates, each with its share of the time that is left; at least one."""
        compared = len(self.first.graph.valid) > 1
        candidates = CANDIDATES if compared else CANDIDATES[:1]
        deadline = self.started + self.seconds * (TRAINING if compared else 1)
        runs: dict[str, TrainedRun | PathRun] = {}
        if compared:
            runs[PATHS] = self._count()
        spent = 0.0  # on the first
        for i, (model, dim, share) in enumerate(candidates):
            left = deadline - time.perf_counter()
            slot = left * share / sum(c[2] for c in candidates[i:])
            if runs and (slot <= 0 or self.should_stop()):
                return runs
            try:
                runs[model] = self._run(model, dim, slot)
            except TrainingError as error:
                if not runs:
                    raise
                self.say(f"{model} is left out: {error}")
                continue
            spent = spent or left - (deadline - time.perf_counter())
        model, dim, _ = candidates[0]
        for seed in range(1, 1 + MOST - len(runs) if compared else 1):
            left = deadline - time.perf_counter()
            if left < spent or self.should_stop():  # half a run is no member
                break
            runs[f"{model} {seed + 1}"] = self._run(model, dim, left, seed)
        return runs

    def _run(self, model: str, dim: int, seconds: float, seed: int = 0) -> TrainedRun:
        self.say(f"{model}, dim {dim}: at most {seconds:.0f} s")
        options = {
            "epochs": EPOCHS,
            "validate_every": 5,
            "minutes": max(seconds, 1) / 60,
            "seed": seed,
        }
        job = prepare(self.first.graph, model, dim, options)
        job = replace(job, config=replace(job.config, data=self.first.config.data))
        return job.run(on_epoch=self.on_epoch, should_stop=self.should_stop, calibrate=False)


def _compare(
    graph: Graph, runs: dict[str, TrainedRun | PathRun], say: Callable[[str], None]
) -> tuple[str, dict[str, float]]:
    """The best of the runs and their ensemble, with all their validation MRRs."""
    if len(graph.valid) < 2:
        return next(iter(runs)), {}
    order = np.random.default_rng(0).permutation(len(graph.valid))
    fitted, compared = graph.valid[order[::2]], graph.valid[order[1::2]][:COMPARED]
    scorers: dict[str, Scorer] = {name: run.scorer for name, run in runs.items()}
    if len(runs) > 1:
        half = replace(graph, valid=fitted)
        scorers[ENSEMBLE] = fit_ensemble(list(scorers.values()), half, EnsembleConfig())
    found = {name: _mrr(scorer, graph, compared) for name, scorer in scorers.items()}
    for name, mrr in found.items():
        say(f"{name}: validation MRR {mrr:.4f}")
    return max(found, key=lambda name: found[name]), found


def _mrr(scorer: Scorer, graph: Graph, triples: np.ndarray) -> float:
    ranking = rank_entities(scorer, graph, "valid", filter=VALIDATION_FILTER, triples=triples)
    return ranking.metrics()["mrr"]


def parse_minutes(text: str) -> float:
    """``90s``, ``10m`` or ``1.5h`` → minutes; a bare number is minutes."""
    units: dict[str, float] = {"s": 1 / 60, "m": 1, "h": 60}
    text = text.strip().lower()
    unit = text[-1:] if text[-1:] in units else "m"
    try:
        minutes = float(text.removesuffix(unit)) * units[unit]
    except ValueError:
        minutes = 0
    if not 0 < minutes < 1e6:
        raise ConfigError(f"{text!r} is no time; write for example 90s, 10m or 1h")
    return minutes
