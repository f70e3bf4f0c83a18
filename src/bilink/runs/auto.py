"""The best that a budget buys: rules first, then models by what they add, and all of it together.

    rules     counted in seconds; from then on the folder holds a run that answers
    trials    short trainings say how strong the penalty of the models should be (``tuning``)
    models    each has a share of the time that is left, and as many epochs as fit into it; it
              enters the ensemble if that gains by it on validation
    end       the ensemble is fitted on all of validation, and probabilities are learnt

The folder always holds the best so far, so that nothing is lost if the work is stopped.
"""

import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from bilink._text import counted, duration
from bilink.data.graph import Graph
from bilink.data.loading import load_graph
from bilink.ensembles.fitting import EnsembleConfig, fit_ensemble
from bilink.errors import ConfigError, TrainingError
from bilink.evaluation.entity_ranking import VALIDATION_FILTER, rank_entities
from bilink.models.scorer import Scorer
from bilink.paths.model import NAME as PATHS
from bilink.runs.combined import CombinedRun, combine
from bilink.runs.folder import RunFolder
from bilink.runs.job import Job, OnEpoch, ShouldStop, prepare
from bilink.runs.paths import PathRun, Say, leakage_sentence, train_paths
from bilink.runs.trained import TrainedRun
from bilink.runs.tuning import can_tune, tune
from bilink.training.presets import Tuning

# (model, dim, share of the time): the strongest first, then those that differ most from it.
CANDIDATES = (
    ("complex-reciprocal", 100, 0.5),
    ("rescal", 64, 0.3),
    ("transe-reciprocal", 100, 0.2),
)
MOST = 8  # models that are trained; after the candidates, those that added most from other seeds
TRAINING = 0.8  # share of the time; the rest is for the ensemble and for probabilities
TRIALS = 0.15  # share of the time of training that may go into trials
COMPARED = 2000  # validation triples by which an ensemble is held against the one before
FITTED, FITTED_LAST = 5000, 20_000  # validation triples that it is fitted on, and at the end
GAIN = 2e-4  # of validation MRR: a model that adds less stays out
LATE = 1.25  # a training that takes longer than planned by this factor is stopped
FEW_ENTITIES = 5_000  # with which an epoch over all of them takes hardly longer
NAME, ENSEMBLE = "auto", "ensemble"
MINUTE = 60.0
LARGE = 5_000_000  # training triples of a graph whose rules have one step only
TRIPLES_PER_MINUTE = 40_000  # of train, for the budget that a graph gets by default
MINUTES = (1, 2, 3, 5, 10, 15, 20, 30)

Made = TrainedRun | PathRun | CombinedRun


@dataclass(frozen=True)
class Outcome:
    """What was made, and the validation MRR of each model and of the ensembles on the way."""

    run: Made
    name: str  # of the model, or "ensemble"
    validation_mrr: dict[str, float]
    seconds: float


def is_auto(model: str | None, settings: bool) -> bool:
    """Whether to find out what is best; ``settings`` says whether any of a model are given."""
    if model is None:
        return not settings
    if model.lower() != NAME:
        return False
    if settings:
        raise ConfigError("auto chooses all options itself; name a model, or leave them out")
    return True


def default_minutes(graph: Graph) -> float:
    """The budget of a graph of this size."""
    wanted = len(graph.train) / TRIPLES_PER_MINUTE
    return next((minutes for minutes in MINUTES if minutes >= wanted), MINUTES[-1])


def train_auto(
    data: Graph | str | Path,
    minutes: float | None = None,
    *,
    out: str | Path | None = None,
    force: bool = False,
    seed: int = 0,
    say: Say = lambda text: None,
    on_epoch: OnEpoch | None = None,
    should_stop: ShouldStop = lambda: False,
    **reading: Any,
) -> Outcome:
    """The best run that ``minutes`` buy; without them, the size of the graph decides.

    With ``minutes=0``, rules are counted and nothing is trained.  ``reading`` says how
    ``load_graph`` should read ``data``.  With ``out``, the folder holds a run as soon as rules are
    counted, and always the best so far; ``should_stop`` ends the work with that.
    """
    if minutes is not None and not 0 <= minutes < float("inf"):
        raise ConfigError(f"the budget must be a time, not {minutes} minutes")
    started = time.perf_counter()
    source: dict[str, Any] = {"source": data.name if isinstance(data, Graph) else str(data)}
    source |= {key: value for key, value in reading.items() if value is not None}
    graph = data if isinstance(data, Graph) else load_graph(**source)
    say(repr(graph))
    if minutes is None:
        minutes = default_minutes(graph)
        say(f"budget: {duration(60 * minutes)}, by the size of the graph; --budget changes it")
    folder = RunFolder(out) if out is not None else None
    hooks = say, on_epoch, should_stop
    work = _Work(graph, source, started, 60 * minutes, folder, seed, *hooks)
    with folder.created(force) if folder else nullcontext():  # before the work is done in vain
        return work.do()


@dataclass
class _Work:
    """What is to be done, until when, and what there is so far."""

    graph: Graph
    source: Mapping[str, Any]  # where the graph was read from
    started: float
    seconds: float
    folder: RunFolder | None
    seed: int
    say: Say
    on_epoch: OnEpoch | None
    should_stop: ShouldStop
    members: dict[str, TrainedRun | PathRun] = field(default_factory=dict)
    found: dict[str, float] = field(default_factory=dict)  # validation MRR
    best: float = -1.0  # of what the members are together

    def __post_init__(self) -> None:
        order = np.random.default_rng(0).permutation(len(self.graph.valid))
        self.fitted, self.compared = (self.graph.valid[order[i::2]] for i in range(2))
        self.compared = self.compared[:COMPARED]
        self.can_compare = len(self.graph.valid) > 1

    def do(self) -> Outcome:
        """All of it, in the order of the head of this file."""
        if self.can_compare or not self.seconds:
            self._count()
        if self.seconds and not self.should_stop():
            self._train(self.started + self.seconds * (TRAINING if self.can_compare else 1))
        run, name = self._finish()
        self._keep(run)
        return Outcome(run, name, self.found, time.perf_counter() - self.started)

    def _finish(self) -> tuple[Made, str]:
        """All members together, with probabilities; on all of the validation split."""
        paths = self.members.get(PATHS)
        if isinstance(paths, PathRun):
            self.members[PATHS] = paths.weighed_again()
        if len(self.members) > 1:
            self.say(f"fitting {', '.join(self.members)} together, and their probabilities")
            return combine(list(self.members.values()), triples=FITTED_LAST), ENSEMBLE
        ((name, run),) = self.members.items()
        run.calibrate_if_possible()
        return run, name

    def _keep(self, run: Made) -> None:
        if self.folder is not None:
            run.write(self.folder)

    # -- rules -----------------------------------------------------------------------------------

    def _count(self) -> None:
        """Rules; longer ones where there is time."""
        size = len(self.graph.train)
        length = 1 if size > LARGE else 3 if self.seconds >= 2 * MINUTE else 2
        run = train_paths(
            self.graph,
            {"length": length, "constants": size <= LARGE},
            calibrate=False,
            say=self.say,
            source=self.source,
            triples=self.fitted,
        )
        if sentence := leakage_sentence(run.model, self.graph):
            self.say(sentence)
        self.members[PATHS] = run
        self._keep(run)
        if self.can_compare:
            self.best = self.found[PATHS] = self._mrr(run.scorer)
            self.say(
                f"rules alone: validation MRR {self.best:.3f} (test facts count as wrong answers "
                "in validation, so that figures on test differ)"
            )
        if self.folder is not None:
            self.say(f"{self.folder.path} answers questions from now on, and better ones later")

    # -- models ----------------------------------------------------------------------------------

    def _train(self, deadline: float) -> None:
        """Train candidates until the deadline, and keep those that the ensemble gains by."""
        tuning = self._tuning(deadline)
        candidates = list(CANDIDATES if self.can_compare else CANDIDATES[:1])
        gains, costs = dict[str, float](), dict[str, float]()
        for number in range(MOST if self.can_compare else 1):
            left = deadline - time.perf_counter()
            if number < len(candidates):
                model, dim, share = candidates[number]
                slot = left * share / sum(share for _, _, share in candidates[number:])
            else:  # again what has added most
                model, dim, _ = max(candidates, key=lambda c: gains.get(c[0], 0.0))
                slot = left
                if gains.get(model, 0.0) < GAIN or left < costs[model]:  # half a run is no member
                    return
            if self.members and (slot <= 0 or self.should_stop()):
                if not costs and not self.should_stop():
                    self.say("no time is left to train a model; a larger --budget would")
                return
            began = time.perf_counter()
            run = self._run(model, dim, max(slot, 1.0), tuning, self.seed + number)
            if run is not None:
                costs[model] = time.perf_counter() - began
                gains[model] = self._enter(run)

    def _tuning(self, deadline: float) -> Tuning:
        """What does best in short trainings, if there is time for them."""
        job = self._job(*CANDIDATES[0][:2], self.seed)
        left = TRIALS * (deadline - time.perf_counter())
        found = None
        if can_tune(job) and left > 1:
            hooks: dict[str, Any] = {"say": self.say, "should_stop": self.should_stop}
            found = tune(job, seconds=left, **hooks)
        return found or Tuning()

    def _job(self, model: str, dim: int, seed: int) -> Job:
        """A softmax over samples of entities, unless all are few: about as good, and cheaper."""
        preset = "sampled" if len(self.graph.entities) > FEW_ENTITIES else "softmax"
        job = prepare(self.graph, model, dim, {"seed": seed}, preset=preset)
        return replace(job, config=replace(job.config, data=self.source))

    def _run(
        self, model: str, dim: int, seconds: float, tuning: Tuning, seed: int
    ) -> TrainedRun | None:
        """A model trained in about so many seconds; nothing if it diverges or is stopped."""
        job = self._job(model, dim, seed).with_tuning(tuning).fitted_to(seconds)
        epochs = job.config.training.epochs
        self.say(f"{model}, dim {dim}: {counted(epochs, 'epoch')}, at most {duration(seconds)}")
        end = time.perf_counter() + LATE * seconds
        try:
            run = job.run(
                on_epoch=self._on_epoch(epochs),
                should_stop=lambda: self.should_stop() or time.perf_counter() > end,
                calibrate=False,
            )
        except TrainingError as error:
            if not self.members:
                raise
            self.say(f"{model} is left out: {error}")
            return None
        return None if self.members and self.should_stop() else run

    def _on_epoch(self, epochs: int) -> OnEpoch | None:
        """Records with the number of epochs, which differs from model to model."""
        told = self.on_epoch
        return None if told is None else lambda record: told({**record, "epochs": epochs})

    def _enter(self, run: TrainedRun) -> float:
        """What the ensemble gains by a run, which becomes a member if that is enough."""
        name = run.config.model
        name = next(
            n for n in (name, *(f"{name} {i}" for i in range(2, MOST + 1))) if n not in self.found
        )
        if not self.can_compare:
            self.members[name] = run
            return 0.0
        alone = mrr = self.found[name] = self._mrr(run.scorer)
        trying = {**self.members, name: run}
        if self.members:
            config = EnsembleConfig(triples=FITTED)
            scorers = [member.scorer for member in trying.values()]
            scorer = fit_ensemble(scorers, self.graph, config, triples=self.fitted)
            mrr = self._mrr(scorer)
        gain = mrr - self.best
        told = f"{name}: validation MRR {alone:.3f} alone, {mrr:.3f} with the others"
        if gain < GAIN:
            self.say(f"{told}, which is no gain: left out")
            return gain
        self.say(f"{told} ({self.best:.3f} before)")
        self.members, self.best = trying, mrr
        if len(trying) > 1:
            self.found[ENSEMBLE] = mrr
            models = {key: member.model for key, member in trying.items()}
            self._keep(CombinedRun(self.graph, models, scorer, config, self.source))
        else:
            self._keep(run)
        return gain

    def _mrr(self, scorer: Scorer) -> float:
        options: dict[str, Any] = {"filter": VALIDATION_FILTER, "triples": self.compared}
        return rank_entities(scorer, self.graph, "valid", **options).metrics()["mrr"]


def minutes_of(budget: str | float | None) -> float | None:
    """A budget in minutes; None is none."""
    return parse_minutes(budget) if isinstance(budget, str) else budget


def parse_minutes(text: str) -> float:
    """``90s``, ``10m`` or ``1.5h`` → minutes; a bare number is minutes, and 0 is no time."""
    units: dict[str, float] = {"s": 1 / 60, "m": 1, "h": 60}
    text = text.strip().lower()
    unit = text[-1:] if text[-1:] in units else "m"
    try:
        minutes = float(text.removesuffix(unit)) * units[unit]
    except ValueError:
        minutes = -1
    if not 0 <= minutes < 1e6:
        raise ConfigError(f"{text!r} is no time; write for example 90s, 10m or 1h")
    return minutes
