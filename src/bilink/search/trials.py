"""The trials of a search, kept by Optuna in a database that outlives any crash.

Only the process that hands out trials writes to it, so that nothing needs a lock and machines of a
cluster need no common disk.  A trial that was running when the search ended stays open, and is run
again, from its start and under its own number, when the search goes on.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bilink._extras import needs
from bilink.errors import RunError
from bilink.search.space import Range, Space, training_of

with needs("optuna", extra="search", purpose="a search"):
    import optuna
    from optuna.exceptions import StorageInternalError
    from optuna.pruners import BasePruner, NopPruner, SuccessiveHalvingPruner
    from optuna.samplers import BaseSampler, GridSampler, RandomSampler, TPESampler
    from optuna.trial import FrozenTrial, TrialState
    from sqlalchemy import URL
    from sqlalchemy.exc import SQLAlchemyError

FILE = "trials.db"
_STATES = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
}
_STATES_BY_NAME = {name: state for state, name in _STATES.items()}
# At 20, 40 and 80 % of its epochs, a trial goes on if it is in the better half of those so far.
_FIRST_RUNG, _REDUCTION = 20, 2


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A trial as it is reported."""

    number: int
    state: str  # complete, pruned, failed or open
    value: float | None  # of the metric that selects; only where complete
    chosen: Mapping[str, Any]  # what was drawn from the space
    settings: Mapping[str, Any]  # all that was told to training
    metrics: Mapping[str, float] | None = None  # on the validation split
    validation_mrr: float | None = None  # on the sample, where the trial was ended for it
    epochs: int = 0
    best_epoch: int | None = None
    seconds: float | None = None
    stopped: str | None = None  # why training ended
    cause: str | None = None  # of a failure
    same_as: int | None = None  # the former trial with the same settings that it takes after
    lost: tuple[str, ...] = ()  # what became of its former attempts

    def to_dict(self) -> dict[str, Any]:
        """As plain values, without what does not apply."""
        return {key: value for key, value in asdict(self).items() if value not in (None, ())}


class Trials:
    """Starts trials, learns what became of them, and knows all of them."""

    def __init__(self, folder: Path, space: Space):
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._space = space
        self._sign = 1 if space.maximise else -1
        self._live: dict[int, optuna.Trial] = {}
        self._reported: dict[int, int] = {}  # of each trial: last share of its epochs, in %
        self._study = optuna.create_study(
            storage=_storage(folder / FILE),
            study_name="bilink",
            direction="maximize" if space.maximise else "minimize",
            pruner=_pruner(space),
            load_if_exists=True,
        )
        self._open = self._study.get_trials(states=(TrialState.RUNNING,))
        for frozen in self._open:
            self._reported[frozen.number] = frozen.last_step or 0

    @property
    def study(self) -> "optuna.Study":
        """What Optuna's own tools understand."""
        return self._study

    # -- one trial after the other ---------------------------------------------------------------

    def start(self, threads: int) -> Trial | None:
        """The next trial to run: one that was cut short before, else a new one; none if enough."""
        while trial := self._next():
            settings = self._space.settings(self._draw(trial))
            settings["threads"] = settings.get("threads") or threads
            trial.set_user_attr("settings", settings)
            former = self._with_settings(settings)
            if former is None:
                self._live[trial.number] = trial
                self._reported.setdefault(trial.number, 0)
                return self.trial(trial.number)
            trial.set_user_attr("outcome", {**_outcome(former), "same_as": former.number})
            self._study.tell(trial, former.value, _STATES_BY_NAME[former.state])
        return None

    def _next(self) -> "optuna.Trial | None":
        self._study.sampler = _sampler(self._space)  # finds the point of a grid
        if self._open:
            return optuna.Trial(self._study, self._open.pop(0)._trial_id)
        if len(self._study.get_trials(deepcopy=False)) >= self._space.wanted:
            return None
        return self._study.ask()

    def _draw(self, trial: "optuna.Trial") -> dict[str, Any]:
        """What the space says of this trial; each value by a seed of its own.

        So a trial that a crash left half drawn is completed as it would have been.
        """
        chosen = {}
        for place, (key, values) in enumerate(self._space.choices.items()):
            self._study.sampler = _sampler(self._space, trial.number, place)
            chosen[key] = _suggest(trial, key, values)
        return chosen

    def _with_settings(self, settings: dict[str, Any]) -> Trial | None:
        """A trial of these settings that has ended: it need not be run twice."""
        return next((t for t in self.all() if t.settings == settings and t.state != "open"), None)

    def lags(self, number: int, record: Mapping[str, Any]) -> bool:
        """Note a validation; whether the trial should be ended for being worse than others."""
        trial = self._live[number]
        epochs = training_of(trial.user_attrs["settings"]).epochs
        share = max(1, round(100 * record["epoch"] / epochs))
        if share < self._reported[number]:
            return False  # it went on from here before it was cut short
        if share > self._reported[number]:
            self._reported[number] = share
            trial.report(self._sign * record["validation_mrr"], share)
        return trial.should_prune()

    def note_loss(self, number: int, cause: str) -> int:
        """Note that the trial's worker died; returns how often that has happened now."""
        losses = [*self._live[number].user_attrs.get("lost", []), cause]
        self._live[number].set_user_attr("lost", losses)
        return len(losses)

    def complete_one(self, number: int, outcome: Mapping[str, Any]) -> Trial:
        """The trial was trained to its end."""
        return self._tell(number, outcome, outcome["metrics"][self._space.metric])

    def prune_one(self, number: int, record: Mapping[str, Any]) -> Trial:
        """The trial was ended after the epoch of ``record``, because it lagged."""
        outcome = {"epochs": record["epoch"], "validation_mrr": record["validation_mrr"]}
        return self._tell(number, outcome, state=TrialState.PRUNED)

    def fail_one(self, number: int, cause: str, epochs: int) -> Trial:
        """The trial cannot be trained."""
        return self._tell(number, {"cause": cause, "epochs": epochs}, state=TrialState.FAIL)

    def _tell(
        self,
        number: int,
        outcome: Mapping[str, Any],
        value: float | None = None,
        state: TrialState | None = None,
    ) -> Trial:
        trial = self._live.pop(number)
        trial.set_user_attr("outcome", dict(outcome))
        self._study.tell(trial, value, state)
        return self.trial(number)

    # -- all of them -----------------------------------------------------------------------------

    def all(self) -> list[Trial]:
        """Every trial, in the order in which they were started."""
        return [_read(frozen, self._space) for frozen in self._study.get_trials(deepcopy=False)]

    def trial(self, number: int) -> Trial:
        """The trial of this number."""
        return _read(self._study.get_trials(deepcopy=False)[number], self._space)

    def complete(self) -> list[Trial]:
        """Those that were trained to their end, best first."""
        done = [trial for trial in self.all() if trial.state == "complete"]
        return sorted(done, key=lambda t: (-self._sign * (t.value or 0.0), t.number))

    def ended(self) -> int:
        """How many are complete, pruned or failed."""
        return sum(t.state.is_finished() for t in self._study.get_trials(deepcopy=False))


@contextmanager
def storage_errors(folder: Path) -> Iterator[None]:
    """Turn what the database complains about into a sentence."""
    try:
        yield
    except (StorageInternalError, SQLAlchemyError) as error:
        reason = str(error.__cause__ or error).partition("\n")[0]
        raise RunError(f"{folder / FILE} cannot be read or written: {reason}") from None


def _storage(path: Path) -> "optuna.storages.RDBStorage":
    url = URL.create("sqlite", database=str(path.absolute()))
    return optuna.storages.RDBStorage(url.render_as_string())


def _pruner(space: Space) -> "BasePruner":
    if not space.prunes:
        return NopPruner()
    return SuccessiveHalvingPruner(min_resource=_FIRST_RUNG, reduction_factor=_REDUCTION)


class _Grid(GridSampler):
    """The grid for a loop that asks and tells, and that knows itself when all has been tried."""

    def after_trial(self, *arguments: Any) -> None:
        """Do not stop a loop of Optuna's that is not there."""


def _sampler(space: Space, *place: int) -> "BaseSampler":
    """Draws what is at ``place``: the same, whether or not the search was interrupted before."""
    if space.method == "grid":
        lists: Any = dict(space.choices)
        return _Grid(lists, seed=space.seed)
    seed = int(np.random.SeedSequence([space.seed, *place]).generate_state(1)[0])
    if space.method == "random":
        return RandomSampler(seed)
    return TPESampler(seed=seed, constant_liar=True)  # trials run side by side


def _suggest(trial: "optuna.Trial", key: str, values: tuple[Any, ...] | Range) -> Any:
    if isinstance(values, tuple):
        return trial.suggest_categorical(key, values)
    if values.whole:
        low, high, step = int(values.low), int(values.high), int(values.step or 1)
        return trial.suggest_int(key, low, high, step=step, log=values.log)
    return trial.suggest_float(key, values.low, values.high, step=values.step, log=values.log)


def _outcome(trial: Trial) -> dict[str, Any]:
    names = ("metrics", "validation_mrr", "epochs", "best_epoch", "stopped", "cause")
    return {name: getattr(trial, name) for name in names}


def _read(frozen: "FrozenTrial", space: Space) -> Trial:
    state = _STATES.get(frozen.state, "open")
    return Trial(
        number=frozen.number,
        state=state,
        value=frozen.value if state == "complete" else None,
        chosen={key: frozen.params[key] for key in space.choices if key in frozen.params},
        settings=frozen.user_attrs.get("settings", space.settings(frozen.params)),
        lost=tuple(frozen.user_attrs.get("lost", ())),
        **frozen.user_attrs.get("outcome", {}),
    )
