"""The search: hand out trials, record their outcomes, train the winner."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import tomli_w

from bilink._documents import read_toml
from bilink._files import write_error, write_text
from bilink.data.graph import Graph
from bilink.data.loading import load_graph
from bilink.distributed.executor import LOSSES, Event, Executor, Pool
from bilink.distributed.local import LocalExecutor
from bilink.errors import DataError, RunError, TrainingError
from bilink.runs.folder import RunFolder
from bilink.runs.trained import TrainedRun
from bilink.search import report
from bilink.search.space import Space
from bilink.search.trials import (
    Trial,
    Trials,
    job_of,
    require_optuna,
    run_trial,
    storage_errors,
    validation_metrics,
)
from bilink.training.loop import INTERRUPTED

VERSION = 1
BEST = "best"
HISTORIES = "histories"


@dataclass(frozen=True)
class SearchProgress:
    """How far a search has come."""

    ended: int  # trials that are complete, pruned or failed
    wanted: int  # trials in all
    best: Trial | None
    latest: Trial | None = None  # the trial that has just ended


@dataclass(frozen=True)
class SearchResult:
    """What a search found; ``run`` is the winner, trained again, or None if interrupted."""

    report: Mapping[str, Any]
    best: Trial | None
    run: TrainedRun | None


def search(
    data: Graph | str | Path,
    space: Space,
    out: str | Path,
    *,
    executor: Executor | None = None,
    source: Mapping[str, Any] | None = None,
    on_progress: Callable[[SearchProgress], None] = lambda progress: None,
    on_epoch: Callable[[dict[str, Any]], None] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> SearchResult:
    """Search ``space`` for the settings that are best on the validation split of ``data``.

    Everything is kept in the folder ``out``; the same call goes on with an interrupted search, and
    no trial that has ended is run again.

    Parameters
    ----------
    data
        A graph, a path, or a name of the catalogue.
    space
        What to choose from; see ``read_space``.
    out
        The folder of the search; the winner is the run ``out/best``.
    executor
        Where trials run; by default in one other process.
    source
        How ``data`` was read, for the winner's ``config.toml``.
    on_progress
        Called at the start, and after each trial.
    on_epoch
        Called with each epoch's record while the winner is trained.
    should_stop
        Called after each batch of events; once it returns True, trials end after their epoch.

    """
    require_optuna()
    graph = data if isinstance(data, Graph) else load_graph(data)
    if len(graph.valid) == 0:
        raise DataError(
            f"graph {graph.name!r} has no validation triples to choose by; "
            "make some with: bilink data split"
        )
    source = source or {"source": graph.name if isinstance(data, Graph) else str(data)}
    executor = executor or LocalExecutor(1, space.threads)
    folder = Path(out)
    with _opened(folder, graph, space, source), storage_errors(folder):
        trials = Trials(folder, space)
        on_progress(_progress(trials))
        with executor.start(partial(run_trial, graph)) as pool:
            _Loop(trials, pool, executor, folder, on_progress).run(should_stop)
        ranked = trials.complete()
        run: TrainedRun | None = None
        if ranked and trials.ended() == len(trials.all()) >= space.wanted:
            # The best settings are trained again; a run that is there already is gone on with.
            job = job_of(graph, ranked[0].settings)
            job = replace(job, config=replace(job.config, data=source))
            run = job.run_or_read(folder / BEST, on_epoch=on_epoch, should_stop=should_stop)
            if run.stopped == INTERRUPTED:
                run = None
            elif run.calibration is None:
                with RunFolder(folder / BEST).locked():  # what a killed process left goes
                    run.calibrate_if_possible()
        winner = validation_metrics(run) if run else None
        found = report.write(folder, graph, source, trials, winner)
    if not ranked and trials.ended() >= space.wanted:
        cause = next((f", the first being: {t.cause}" for t in trials.all() if t.cause), "")
        raise TrainingError(
            f"none of the {trials.ended()} trials was completed; {folder / 'report.md'} "
            f"lists the causes{cause}"
        )
    return SearchResult(found, ranked[0] if ranked else None, run)


@contextmanager
def _opened(folder: Path, graph: Graph, space: Space, source: Mapping[str, Any]) -> Iterator[None]:
    """Make and lock the folder; refuse one that holds anything but this search."""
    description = {
        "version": VERSION,
        "data": {**source, "fingerprint": graph.fingerprint},
        **space.to_dict(),
    }
    path = folder / "search.toml"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        foreign = not path.exists() and any(p.name[0] != "." for p in folder.iterdir())
    except OSError as error:
        raise write_error(folder, error) from error
    if foreign:
        raise RunError(f"{folder} holds something else than a search; choose another --out")
    with RunFolder(folder).locked():
        RunFolder(folder / HISTORIES).remove_rests()
        if not path.exists():
            write_text(path, tomli_w.dumps(description))
        if _identity(read_toml(path, dict[str, Any])) != _identity(description):
            raise RunError(
                f"{folder} holds another search: {path} has another graph or another space "
                "(only the number of trials may change); choose another --out"
            )
        yield


def _identity(description: Mapping[str, Any]) -> dict[str, Any]:
    """What two calls must have in common to be the same search; the graph may have moved."""
    data = description.get("data")
    return {**description, "data": data.get("fingerprint") if isinstance(data, Mapping) else None}


@dataclass
class _Running:
    trial: Trial
    history: list[dict[str, Any]] = field(default_factory=list)
    pruned: bool = False


@dataclass
class _Loop:
    """Keeps the workers busy and records what they report."""

    trials: Trials
    pool: Pool
    executor: Executor
    folder: Path
    on_progress: Callable[[SearchProgress], None]
    running: dict[int, _Running] = field(default_factory=dict)  # by the number of the pool's task

    def run(self, should_stop: Callable[[], bool]) -> None:
        """Run trials until there are enough; ``should_stop`` ends them after their epoch."""
        while True:
            if stopping := should_stop():
                for task in self.running:
                    self.pool.stop(task)
            else:
                while len(self.running) < self.executor.workers and (
                    trial := self.trials.start(self.executor.threads)
                ):
                    self.submit(trial)
            if not self.running:
                return
            for event in self.pool.events(timeout=0.5):
                if event.kind == "report":
                    self.note_epoch(event.task, event.value)
                else:
                    self.end(event, stopping)

    def submit(self, trial: Trial) -> None:
        self.running[self.pool.submit(dict(trial.settings))] = _Running(trial)

    def note_epoch(self, task: int, record: dict[str, Any]) -> None:
        running = self.running[task]
        if running.pruned:  # and its worker has not noticed yet
            return
        running.history.append(record)
        number = running.trial.number
        if "validation_mrr" in record and self.trials.should_prune(number, record):
            running.pruned = True
            self.pool.stop(task)

    def end(self, event: Event, stopping: bool) -> None:
        running = self.running.pop(event.task)
        number, history = running.trial.number, running.history
        if event.kind == "lost" and self.trials.note_loss(number, event.value) < LOSSES:
            if not stopping:
                self.submit(running.trial)
            return
        if event.value is None and not running.pruned:
            return  # interrupted: the trial stays open
        path = self.folder / HISTORIES / f"{number:04}.jsonl"
        path.parent.mkdir(exist_ok=True)
        write_text(path, "".join(json.dumps(record) + "\n" for record in history))
        if running.pruned:
            ended = self.trials.prune_one(number, history[-1])
        elif event.kind == "done":
            ended = self.trials.complete_one(number, event.value)
        else:
            ended = self.trials.fail_one(number, event.value, len(history))
        self.on_progress(_progress(self.trials, ended))


def _progress(trials: Trials, latest: Trial | None = None) -> SearchProgress:
    ranked = trials.complete()
    return SearchProgress(
        trials.ended(), trials.space.wanted, ranked[0] if ranked else None, latest
    )
