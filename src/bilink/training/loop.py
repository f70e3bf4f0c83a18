"""The training loop: epochs, validation, early stopping, checkpoints."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    if len(graph.train) == 0:
        raise DataError(f"graph {graph.name!r} has no training triples")
    engine = make_engine(model, graph, config)
    if wrap is not None:
        engine = wrap(engine)
    if checkpoint is not None and checkpoint.exists():
        progress, best = load_checkpoint(checkpoint, engine, graph.fingerprint)
    elif start:
        check_warm_start(config)
        progress, best = _warm_start(engine, config, start), None
    else:
        initialise(model, config)
        if begin is not None:
            begin(model)
        progress, best = Progress(), None
    saver = _Saver(checkpoint, config.checkpoint_seconds, graph)
    watch = _Watch(progress, config, saver, should_stop, on_progress)

    while not (reason := _reason_to_stop(progress, config, engine)):
        record = _run_epoch(engine, progress, watch, checkpoint)
        if record is None:  # the epoch was paused
            if watch.stopped:
                reason = INTERRUPTED
                break
            saver.save(engine, progress, best)
            continue
        due = progress.epoch % config.validation_period == 0 or progress.epoch == config.epochs
        if validate is not None and due:
            started = time.perf_counter()
            mrr = record["validation_mrr"] = validate(model)
            record["validation_seconds"] = round(time.perf_counter() - started, 6)
            if config.minutes:  # else not counted, so that the same run has the same checkpoint
                progress.seconds += record["validation_seconds"]
            if mrr > progress.best_mrr:
                progress.best_mrr, progress.best_epoch, progress.stale = mrr, progress.epoch, 0
                arrays = model.entities.copy(), model.relations.copy()
                best = Model(model.family, model.dim, *arrays)
            else:
                progress.stale += 1
                progress.rate *= config.plateau
        if on_epoch:
            on_epoch(record)
        if should_stop() and not _reason_to_stop(progress, config, engine):
            reason = INTERRUPTED
            break
        saver.save(engine, progress, best)
    saver.save(engine, progress, best, now=True)
    kept = best if config.keep == "best" and best is not None else model
    return TrainingResult(kept, progress, reason)


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


def make_engine(model: Model, graph: Graph, config: Config) -> Engine:
    """The engine that the loss asks for."""
    if isinstance(config, MarginConfig):
        return MarginEngine(model, graph, config)
    if isinstance(config, RgcnConfig):
        return RgcnEngine(model, graph, config)
    return SoftmaxEngine(model, graph, config)


def initialise(model: Model, config: Config) -> None:
    """Fill the model's arrays with random values, the same for the same seed."""
    random = generator(config.seed, Stream.INITIAL)
    for array in (model.entities, model.relations):
        if config.init == "normal":
            random.standard_normal(out=array, dtype=array.dtype)
            array *= config.init_scale
        else:
            bound = config.init_scale
            if config.init == "xavier":
                bound *= np.sqrt(6 / sum(array.shape))
            random.random(out=array, dtype=array.dtype)
            array -= 0.5
            array *= 2 * bound
    if model.family.begin is not None:
        model.family.begin(model.relations)
    if isinstance(config, MarginConfig) and config.constraint != "none":
        norms = np.linalg.norm(model.entities, axis=1, keepdims=True)
        if config.constraint == "ball":
            norms = np.maximum(norms, 1)
        model.entities[:] /= np.where(norms > 0, norms, 1)


def _reason_to_stop(progress: Progress, config: Config, engine: Engine) -> str:
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
    saver: "_Saver"
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
        return self.stopped or over or self.saver.is_due


def _run_epoch(
    engine: Engine, progress: Progress, watch: _Watch, checkpoint: Path | None
) -> dict[str, Any] | None:
    """The record of an epoch; None if it was paused."""
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
        raise _diverged(progress, checkpoint)
    progress.epoch += 1
    return {
        "epoch": progress.epoch,
        "seconds": round(seconds, 6),
        "triples_per_second": round(len(engine.triples) / max(seconds, 1e-9), 1),
        "loss": totals.loss,
        "violated": totals.violated,
    }


def _diverged(progress: Progress, checkpoint: Path | None) -> TrainingError:
    kept = ""
    if checkpoint is not None and checkpoint.exists():
        kept = f"; the last good checkpoint is kept in {checkpoint}"
    return TrainingError(
        f"training diverged in epoch {progress.epoch + 1}: the loss is not finite{kept}. "
        "Try a smaller learning_rate or some regularization."
    )


class _Saver:
    """Writes checkpoints, and not too often."""

    def __init__(self, path: Path | None, seconds: float, graph: Graph):
        self._path, self._pause, self._graph = path, seconds, graph
        self._next = time.monotonic() + seconds

    @property
    def is_due(self) -> bool:
        """Whether it is time to write."""
        return self._path is not None and time.monotonic() >= self._next

    def save(
        self, engine: Engine, progress: Progress, best: Model | None, *, now: bool = False
    ) -> None:
        started = time.monotonic()
        if self._path is None or not (now or self.is_due):
            return
        if not engine.model.is_finite():
            raise _diverged(progress, self._path)
        save_checkpoint(self._path, engine, progress, best, self._graph.fingerprint)
        ended = time.monotonic()
        self._next = ended + max(self._pause, CHECKPOINT_SHARE * (ended - started))
