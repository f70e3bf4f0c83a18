"""One trial of a search, and all of them, kept by Optuna in a database that survives a crash.

Only the process that hands out trials writes to the database, so no locks are needed, and the
machines of a cluster need no common disk.  A trial that was running when the search was interrupted
stays open; when the search goes on, it is run again from its start, under its own number.

Optuna is imported by the functions that need it: workers, which only call ``run_trial``, do not.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bilink._extras import needs
from bilink.data.graph import Graph
from bilink.errors import RunError
from bilink.evaluation.entity_ranking import VALIDATION_FILTER
from bilink.runs.job import Job, prepare
from bilink.runs.trained import TrainedRun
from bilink.search.space import Choices, Space, preset_of, split_settings, training_of
from bilink.training.loop import INTERRUPTED

if TYPE_CHECKING:
    import optuna

FILE = "trials.db"
_STATES = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}  # Optuna's names and ours
_COPIED = ("metrics", "validation_mrr", "epochs", "best_epoch", "stopped", "cause")
# At 20, 40 and 80 % of its epochs, a trial goes on if it is in the better half of those so far.
_FIRST_RUNG, _REDUCTION = 20, 2


# -- one trial -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A trial as it is reported."""

    number: int
    state: str  # complete, pruned, failed or open
    value: float | None  # of the metric that selects; only where complete
    chosen: Mapping[str, Any]  # what was drawn from the space
    settings: Mapping[str, Any]  # model, dim and all options given to training
    metrics: Mapping[str, float] | None = None  # on the validation split
    validation_mrr: float | None = None  # on a sample, where the trial was pruned
    epochs: int = 0
    best_epoch: int | None = None
    seconds: float | None = None
    stopped: str | None = None  # why training ended
    cause: str | None = None  # of a failure
    same_as: int | None = None  # an earlier trial with the same settings, whose outcome it has
    lost: tuple[str, ...] = ()  # why earlier attempts were lost

    def to_dict(self) -> dict[str, Any]:
        """As plain values, without what does not apply."""
        return {key: value for key, value in asdict(self).items() if value not in (None, ())}


def run_trial(
    graph: Graph, settings: Mapping[str, Any], report: Callable[[dict[str, Any]], bool]
) -> dict[str, Any] | None:
    """Train with ``settings`` and measure on the validation split; None if it was stopped.

    The record of each epoch is given to ``report``, which returns False to stop the trial.  The
    test split is not used.
    """
    started, going = time.perf_counter(), True

    def on_epoch(record: dict[str, Any]) -> None:
        nonlocal going
        going = report(record)

    run = job_of(graph, settings).run(
        on_epoch=on_epoch, should_stop=lambda: not going, calibrate=False
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


def job_of(graph: Graph, settings: Mapping[str, Any]) -> Job:
    """The training job of a trial's settings."""
    return prepare(graph, *split_settings(settings), preset=preset_of(settings))


def validation_metrics(run: TrainedRun) -> dict[str, float]:
    """Metrics on the whole validation split, filtered by train and valid alone."""
    threads = run.config.training.threads or None
    return run.evaluate("valid", filter=VALIDATION_FILTER, threads=threads).metrics()


# -- all trials ----------------------------------------------------------------------------------


def require_optuna() -> None:
    """Say what to install where Optuna is missing."""
    with needs("optuna", extra="search", purpose="a search"):
        import optuna  # noqa: F401


class Trials:
    """Starts trials, records their outcomes, and lists them."""

    def __init__(self, folder: Path, space: Space):
        import optuna
        from sqlalchemy import URL

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.space = space
        self._sign = 1 if space.maximise else -1
        self._live: dict[int, optuna.Trial] = {}
        pruner: optuna.pruners.BasePruner = optuna.pruners.NopPruner()
        if space.prunes:
            pruner = optuna.pruners.SuccessiveHalvingPruner(
                min_resource=_FIRST_RUNG, reduction_factor=_REDUCTION
            )
        url = URL.create("sqlite", database=str((folder / FILE).absolute()))
        self.study = optuna.create_study(
            storage=url.render_as_string(),
            study_name="bilink",
            direction="maximize" if space.maximise else "minimize",
            pruner=pruner,
            load_if_exists=True,
        )
        self._open = self.study.get_trials(states=(optuna.trial.TrialState.RUNNING,))

    def start(self, threads: int) -> Trial | None:
        """The next trial to run: an interrupted one, else a new one; None if there are enough."""
        while trial := self._next():
            settings = self.space.settings(self._draw(trial))
            settings["threads"] = settings.get("threads") or threads
            trial.set_user_attr("settings", settings)
            # What was tried is not tried again: its outcome is copied.
            done = (t for t in self.all() if t.settings == settings and t.state != "open")
            if (former := next(done, None)) is None:
                self._live[trial.number] = trial
                return self.trial(trial.number)
            outcome = {name: getattr(former, name) for name in _COPIED}
            trial.set_user_attr("outcome", {**outcome, "same_as": former.number})
            self._tell(trial, former.value, former.state)
        return None

    def _next(self) -> "optuna.Trial | None":
        import optuna

        self.study.sampler = _sampler(self.space)  # finds the point of a grid
        if self._open:
            return optuna.Trial(self.study, self._open.pop(0)._trial_id)
        if len(self.study.get_trials(deepcopy=False)) >= self.space.wanted:
            return None
        return self.study.ask()

    def _draw(self, trial: "optuna.Trial") -> dict[str, Any]:
        """Choose a value for each key of the space, each by a seed of its own.

        So a trial that was interrupted while its values were drawn gets the same values again.
        """
        chosen = {}
        for position, (key, choices) in enumerate(self.space.choices.items()):
            self.study.sampler = _sampler(self.space, trial.number, position)
            chosen[key] = _suggest(trial, key, choices)
        return chosen

    def should_prune(self, number: int, record: Mapping[str, Any]) -> bool:
        """Note a validation; whether the trial should be ended for being worse than others."""
        trial = self._live[number]
        epochs = training_of(trial.user_attrs["settings"]).epochs
        share = max(1, round(100 * record["epoch"] / epochs))
        reported = self.study.get_trials(deepcopy=False)[number].last_step or 0
        if share < reported:
            return False  # it got further than this before it was interrupted
        pruned_at = trial.user_attrs.get("pruned_at")  # the pruner decides once for each step
        if share == reported and pruned_at == share:
            return True
        if share > reported:
            trial.report(self._sign * record["validation_mrr"], share)
        if pruned := trial.should_prune():
            trial.set_user_attr("pruned_at", share)
        return pruned

    def note_loss(self, number: int, cause: str) -> int:
        """Note that the trial's worker died; returns how often that has happened now."""
        losses = [*self._live[number].user_attrs.get("lost", []), cause]
        self._live[number].set_user_attr("lost", losses)
        return len(losses)

    def complete_one(self, number: int, outcome: Mapping[str, Any]) -> Trial:
        """The trial was trained to its end."""
        return self._end(number, outcome, value=outcome["metrics"][self.space.metric])

    def prune_one(self, number: int, record: Mapping[str, Any]) -> Trial:
        """The trial was ended after the epoch of ``record``, since others were better."""
        outcome = {"epochs": record["epoch"], "validation_mrr": record["validation_mrr"]}
        return self._end(number, outcome, state="pruned")

    def fail_one(self, number: int, cause: str, epochs: int) -> Trial:
        """The trial cannot be trained."""
        return self._end(number, {"cause": cause, "epochs": epochs}, state="failed")

    def _end(self, number: int, outcome: Mapping[str, Any], **told: Any) -> Trial:
        trial = self._live.pop(number)
        trial.set_user_attr("outcome", dict(outcome))
        self._tell(trial, **told)
        return self.trial(number)

    def _tell(
        self, trial: "optuna.Trial", value: float | None = None, state: str | None = None
    ) -> None:
        from optuna.trial import TrialState

        names = {ours: name for name, ours in _STATES.items()}
        self.study.tell(trial, value, TrialState[names[state]] if state else None)

    def all(self) -> list[Trial]:
        """Every trial, in the order in which they were started."""
        return [self._read(frozen) for frozen in self.study.get_trials(deepcopy=False)]

    def trial(self, number: int) -> Trial:
        """The trial of this number."""
        return self._read(self.study.get_trials(deepcopy=False)[number])

    def _read(self, frozen: "optuna.trial.FrozenTrial") -> Trial:
        state = _STATES.get(frozen.state.name, "open")
        return Trial(
            number=frozen.number,
            state=state,
            value=frozen.value if state == "complete" else None,
            chosen={key: frozen.params[key] for key in self.space.choices if key in frozen.params},
            settings=frozen.user_attrs.get("settings", self.space.settings(frozen.params)),
            lost=tuple(frozen.user_attrs.get("lost", ())),
            **frozen.user_attrs.get("outcome", {}),
        )

    def complete(self) -> list[Trial]:
        """Those that were trained to their end, best first."""
        done = [trial for trial in self.all() if trial.state == "complete"]
        return sorted(done, key=lambda t: (-self._sign * (t.value or 0.0), t.number))

    def ended(self) -> int:
        """How many are complete, pruned or failed."""
        return sum(t.state.is_finished() for t in self.study.get_trials(deepcopy=False))


@contextmanager
def storage_errors(folder: Path) -> Iterator[None]:
    """Turn an error of the database into a sentence."""
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (StorageInternalError, SQLAlchemyError) as error:
        reason = str(error.__cause__ or error).partition("\n")[0]
        raise RunError(f"{folder / FILE} cannot be read or written: {reason}") from None


def _sampler(space: Space, *position: int) -> "optuna.samplers.BaseSampler":
    """The sampler of the value at ``position``; its seed does not depend on interruptions."""
    from optuna.samplers import GridSampler, RandomSampler, TPESampler

    if space.method == "grid":
        lists: Any = dict(space.choices)
        grid: Any = GridSampler(lists, seed=space.seed)
        # After the last point it would stop Optuna's own loop, which is not used here.
        grid.after_trial = lambda *arguments: None
        return grid
    seed = int(np.random.SeedSequence([space.seed, *position]).generate_state(1)[0])
    if space.method == "random":
        return RandomSampler(seed)
    return TPESampler(seed=seed, constant_liar=True)  # trials run side by side


def _suggest(trial: "optuna.Trial", key: str, choices: Choices) -> Any:
    if isinstance(choices, tuple):
        return trial.suggest_categorical(key, choices)
    if choices.whole:
        low, high, step = int(choices.low), int(choices.high), int(choices.step or 1)
        return trial.suggest_int(key, low, high, step=step, log=choices.log)
    return trial.suggest_float(key, choices.low, choices.high, step=choices.step, log=choices.log)
