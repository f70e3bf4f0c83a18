"""The training loop: epochs, validation, early stopping, checkpoints."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from bilink._random import Stream, generator
from bilink.data.graph import Graph
from bilink.errors import ConfigError, DataError, TrainingError
from bilink.models.model import Model
from bilink.models.registry import Family
from bilink.training.config import Config, MarginConfig, RgcnConfig
from bilink.training.engine import (
    Engine,
    EpochPausedError,
    EpochRunner,
    Progress,
    load_checkpoint,
    save_checkpoint,
)
from bilink.training.margin import MarginEngine
from bilink.training.rgcn import RgcnEngine, check_decoder, check_size
from bilink.training.softmax import SoftmaxEngine, check_fit

INTERRUPTED = "interrupted"
CHECKPOINT_SHARE = 20  # a checkpoint may take one part in so many of the time
PULSE = 1.0  # seconds between two looks at the clock in an epoch

# What is going on ("training" or "validating"), and the share of it that is done.
OnProgress = Callable[[str, float], None]


@dataclass
class TrainingResult:
    """The model that a run ends with, and how it came about."""

    model: Model
    progress: Progress
    stopped: str  # why training ended


def fit(
    model: Model,
    graph: Graph,
    config: Config,
    *,
    validate: Callable[[Model], float] | None = None,
    on_epoch: Callable[[dict[str, Any]], None] | None = None,
    on_progress: OnProgress | None = None,
    checkpoint: Path | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    wrap: Callable[[Engine], Engine] | None = None,
    start: int = 0,
    begin: Callable[[Model], None] | None = None,
) -> TrainingResult:
    """Train ``model`` in place; return the one that did best on validation, or the last one.

    ``validate`` gives the validation MRR of a model.  ``on_epoch`` receives one record per epoch,
    ``on_progress`` the share of a long epoch that is done.  With ``checkpoint``, the state is
    written there from time to time, also within a long epoch, and where the file exists already,
    training goes on from it.  ``should_stop`` is asked after each epoch, and within long ones.
    ``wrap`` may add to what an engine does in an epoch.  With ``start``, the model has been trained
    for as many epochs already, and training goes on from its present values.  ``begin`` may change
    random initial values.
    """
    keeper = _InMemory(model, graph, config, checkpoint, wrap, start, begin)
    hooks = validate, on_epoch, on_progress, should_stop
    return run_epochs(keeper, config, *hooks)


class Keeper(Protocol):
    """What is trained and what is kept of it: the state on disk, and the best model so far."""

    @property
    def engine(self) -> EpochRunner:
        """What runs epochs."""

    @property
    def saved(self) -> Path | None:
        """Where the last good state is, if there is one."""

    def restore(self) -> Progress:
        """Go to the start of training, or to where it stood."""

    @property
    def current(self) -> Model:
        """The model as it is now."""

    @property
    def best(self) -> Model | None:
        """The model that ``keep`` was last called for."""

    def keep(self) -> None:
        """The model of now is the best so far."""

    @property
    def is_due(self) -> bool:
        """Whether an epoch should be paused for the state to be saved."""

    def save(self, progress: Progress, *, now: bool = False) -> None:
        """Save the state, if it is time or ``now``."""


def run_epochs(
    keeper: Keeper,
    config: Config,
    validate: Callable[[Model], float] | None,
    on_epoch: Callable[[dict[str, Any]], None] | None,
    on_progress: OnProgress | None,
    should_stop: Callable[[], bool],
) -> TrainingResult:
    """Train what ``keeper`` keeps, to the end or until it is stopped; see ``fit``."""
    progress = keeper.restore()
    watch = _Watch(progress, config, keeper, should_stop, on_progress)
    while not (reason := _reason_to_stop(progress, config, keeper.engine)):
        record = _run_epoch(progress, watch)
        if record is None:  # the epoch was paused
            if watch.stopped:
                reason = INTERRUPTED
                break
            keeper.save(progress)
            continue
        due = progress.epoch % config.validation_period == 0 or progress.epoch == config.epochs
        if validate is not None and due:
            started = time.perf_counter()
            mrr = record["validation_mrr"] = validate(keeper.current)
            record["validation_seconds"] = round(time.perf_counter() - started, 6)
            if config.minutes:  # else not counted, so that the same run has the same checkpoint
                progress.seconds += record["validation_seconds"]
            if mrr > progress.best_mrr:
                progress.best_mrr, progress.best_epoch, progress.stale = mrr, progress.epoch, 0
                keeper.keep()
            else:
                progress.stale += 1
                progress.rate *= config.plateau
        if on_epoch:
            on_epoch(record)
        if should_stop() and not _reason_to_stop(progress, config, keeper.engine):
            reason = INTERRUPTED
            break
        keeper.save(progress)
    keeper.save(progress, now=True)
    best = keeper.best if config.keep == "best" else None
    return TrainingResult(keeper.current if best is None else best, progress, reason)


class _InMemory:
    """Keeps a model that is trained in memory, with checkpoints that are not written too often."""

    def __init__(
        self,
        model: Model,
        graph: Graph,
        config: Config,
        path: Path | None,
        wrap: Callable[[Engine], Engine] | None,
        start: int,
        begin: Callable[[Model], None] | None,
    ):
        if len(graph.train) == 0:
            raise DataError(f"graph {graph.name!r} has no training triples")
        self.engine: Engine = make_engine(model, graph, config)
        if wrap is not None:
            self.engine = wrap(self.engine)
        self.best: Model | None = None
        self._config, self._path, self._graph = config, path, graph
        self._start, self._begin = start, begin
        self._next = time.monotonic() + config.checkpoint_seconds

    @property
    def saved(self) -> Path | None:
        """The checkpoint, if there is one."""
        return self._path if self._path is not None and self._path.exists() else None

    def restore(self) -> Progress:
        """Read the checkpoint; else start from random values, or from those of the model."""
        if self.saved is not None:
            progress, self.best = load_checkpoint(self.saved, self.engine, self._graph.fingerprint)
            return progress
        if self._start:
            check_warm_start(self._config)
            return _warm_start(self.engine, self._config, self._start)
        initialise(self.current, self._config)
        if self._begin is not None:
            self._begin(self.current)
        return Progress()

    @property
    def current(self) -> Model:
        """The model that is trained."""
        return self.engine.model

    def keep(self) -> None:
        """Copy the model."""
        now = self.current
        self.best = Model(now.family, now.dim, now.entities.copy(), now.relations.copy())

    @property
    def is_due(self) -> bool:
        """Whether it is time to write."""
        return self._path is not None and time.monotonic() >= self._next

    def save(self, progress: Progress, *, now: bool = False) -> None:
        """Write a checkpoint, if it is time or ``now``."""
        started = time.monotonic()
        if self._path is None or not (now or self.is_due):
            return
        if not self.current.is_finite():
            raise _diverged(progress, self.saved)
        save_checkpoint(self._path, self.engine, progress, self.best, self._graph.fingerprint)
        ended = time.monotonic()
        pause = max(self._config.checkpoint_seconds, CHECKPOINT_SHARE * (ended - started))
        self._next = ended + pause


def _warm_start(engine: Engine, config: Config, epochs: int) -> Progress:
    """Go on from a trained model whose optimizer's state is gone.

    A pass with steps of no size fills the state with the gradients of today.  Adagrad's sums of
    squares are those of all epochs, so they are about as many times larger.
    """
    engine.run_epoch(epochs, 0.0)
    if config.optimizer in ("adagrad", "row-adagrad"):
        for array in engine.state.values():
            array *= epochs
    return Progress(epoch=epochs)


def check_engine(family: Family, dim: int, graph: Graph, config: Config) -> None:
    """Refuse, before anything is done, options that do not go with such a model and graph."""
    if isinstance(config, RgcnConfig):
        check_decoder(family, config)
        check_size(graph, dim, config)
    elif not isinstance(config, MarginConfig):
        check_fit(family, config)


def check_warm_start(config: Config) -> None:
    """Refuse to go on from trained rows where they are not what was trained."""
    if isinstance(config, RgcnConfig):
        raise ConfigError(
            "R-GCN leaves the rows of a DistMult behind, and not the convolution that made them, "
            "so there is nothing to go on with; leave the epochs out, or train it again"
        )


def make_engine(
    model: Model, graph: Graph, config: Config, candidates: int | None = None
) -> Engine:
    """The engine that the loss asks for; ``candidates`` are those that entities stand for."""
    if isinstance(config, MarginConfig):
        return MarginEngine(model, graph, config)
    if isinstance(config, RgcnConfig):
        return RgcnEngine(model, graph, config)
    return SoftmaxEngine(model, graph, config, candidates)


def initialise(model: Model, config: Config) -> None:
    """Fill the model's arrays with random values, the same for the same seed."""
    random = generator(config.seed, Stream.INITIAL)
    sizes = len(model.entities), len(model.relations)
    bounds = initial_bounds(model.family, model.dim, sizes, config)
    fill_entities(model.entities, config, random, model.family, bounds[0])
    fill_relations(model.relations, config, random, model.family, bounds[1])


def initial_bounds(
    family: Family, dim: int, sizes: tuple[int, int], config: Config
) -> tuple[float, float | None]:
    """The half-widths of uniform values of so many entities and relations.

    None is for relations that are scaled to length one.
    """
    if config.init == "paper" and family.initial_bounds is not None:
        return family.initial_bounds(sizes[0], dim)
    scale = config.init_scale
    if config.init not in ("paper", "xavier"):
        return scale, scale
    glorot = [float(np.sqrt(6 / (n + w))) for n, w in zip(sizes, family.widths(dim), strict=True)]
    entities, relations = (b if config.init == "paper" else scale * b for b in glorot)
    return entities, relations


def fill_entities(
    rows: np.ndarray, config: Config, random: np.random.Generator, family: Family, bound: float
) -> None:
    """Fill some rows of the entities; one piece after the other gives the same as all."""
    _fill(rows, config, random, bound)
    if _is_of_the_paper(config):
        rows[:] = family.restore(rows, rows[:0])[0]
    if isinstance(config, MarginConfig) and config.constraint != "none":
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        if config.constraint != "sphere":
            norms = np.maximum(norms, 1)
        rows /= np.where(norms > 0, norms, 1)


def fill_relations(
    rows: np.ndarray,
    config: Config,
    random: np.random.Generator,
    family: Family,
    bound: float | None,
) -> None:
    """Fill the rows of the relations, after those of all entities."""
    _fill(rows, config, random, bound)
    if _is_of_the_paper(config):
        rows[:] = family.restore(rows[:0], rows)[1]
    if family.begin is not None:
        family.begin(rows)


def _is_of_the_paper(config: Config) -> bool:
    """Whether values are drawn as the parameters in the paper; trained in others, perhaps."""
    return config.init == "paper" or getattr(config, "coordinates", "") == "paper"


def _fill(
    rows: np.ndarray, config: Config, random: np.random.Generator, bound: float | None
) -> None:
    """Random values; without a bound, rows of length one."""
    if config.init == "normal":
        random.standard_normal(out=rows, dtype=rows.dtype)
        rows *= config.init_scale
        return
    random.random(out=rows, dtype=rows.dtype)
    rows -= 0.5
    rows *= 2 * (1 if bound is None else bound)
    if bound is None:
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)


def _reason_to_stop(progress: Progress, config: Config, engine: EpochRunner) -> str:
    """Why there is nothing left to do, or nothing; the same whether or not a run was resumed."""
    if progress.epoch >= config.epochs:
        return f"all {config.epochs} epochs are done"
    if config.minutes and progress.seconds >= 60 * config.minutes:
        more = f" and {engine.position.share:.0%} of the next" if engine.position else ""
        return f"{config.minutes:g} minutes are over, after {progress.epoch} epochs{more}"
    if config.stops_early and progress.stale >= config.patience:
        return (
            f"no better validation MRR in {progress.stale} validations; "
            f"the best, {progress.best_mrr:.4f}, was at epoch {progress.best_epoch}"
        )
    return ""


@dataclass
class _Watch:
    """Looks at the clock during an epoch: shows how far it is, and says when it should pause."""

    progress: Progress
    config: Config
    keeper: Keeper
    should_stop: Callable[[], bool]
    on_progress: OnProgress | None
    stopped: bool = False
    _started: float = 0.0
    _last: float | None = None

    def start(self) -> None:
        """An epoch begins, or goes on."""
        self._started, self._last = time.perf_counter(), None

    def __call__(self, share: float) -> bool:
        """Whether to pause; not before there was time to see the first steps done."""
        now = time.perf_counter()
        if self._last is None:
            self._last = now
        if now - self._last < PULSE:
            return False
        self._last = now
        if self.on_progress:
            self.on_progress("training", share)
        self.stopped = self.should_stop()
        seconds = self.progress.seconds + now - self._started
        over = bool(self.config.minutes) and seconds >= 60 * self.config.minutes
        return self.stopped or over or self.keeper.is_due


def _run_epoch(progress: Progress, watch: _Watch) -> dict[str, Any] | None:
    """The record of an epoch; None if it was paused."""
    engine = watch.keeper.engine
    watch.start()
    started = time.perf_counter()
    before = float(engine.position.seconds[0]) if engine.position else 0.0
    try:
        totals = engine.run_epoch(progress.epoch, progress.rate, watch)
    except EpochPausedError:
        totals = None
    elapsed = time.perf_counter() - started
    if watch.config.minutes:  # else not counted, so that the same run has the same checkpoint
        progress.seconds += round(elapsed, 6)
    seconds = before + elapsed
    if totals is None:
        if engine.position:
            engine.position.seconds[0] = seconds
        return None
    if not abs(totals.loss) < float("inf"):
        raise _diverged(progress, watch.keeper.saved)
    progress.epoch += 1
    return {
        "epoch": progress.epoch,
        "seconds": round(seconds, 6),
        "triples_per_second": round(len(engine.triples) / max(seconds, 1e-9), 1),
        "loss": totals.loss,
        "violated": totals.violated,
    }


def _diverged(progress: Progress, saved: Path | None) -> TrainingError:
    kept = "" if saved is None else f"; the last good checkpoint is kept in {saved}"
    return TrainingError(
        f"training diverged in epoch {progress.epoch + 1}: the loss is not finite{kept}. "
        "Try a smaller learning_rate or some regularization."
    )
