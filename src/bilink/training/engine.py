"""What the training loop knows of an engine, and the state of an unfinished run on disk."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from bilink._documents import parse_json
from bilink.errors import BilinkError, RunError
from bilink.models.model import Model
from bilink.models.storage import load_tensors, save_tensors

FORMAT = "bilink-checkpoint"
VERSION = 1


@dataclass(frozen=True)
class EpochTotals:
    """The sums of one pass over the training triples, by either engine."""

    loss: float  # mean over pairs of a positive and a negative; with a softmax, over queries
    violated: float  # share of pairs within the margin; of answers that another candidate beats
    pairs: int  # that were compared; with a softmax, queries


class EpochPausedError(Exception):
    """An epoch was paused, as was asked for; it goes on when it is run again."""


# Asked now and then in an epoch, with the share that is done: whether to pause.
Pause = Callable[[float], bool]


@dataclass
class Position:
    """How far an engine has come in an epoch."""

    total: int  # triples, or queries
    done: np.ndarray  # int64: how many are done, by each thread that has a part of its own
    totals: np.ndarray  # float64, one row for each of these: what ``EpochTotals`` is made of
    # int64: states of random numbers; none where they can be drawn again
    random: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    seconds: np.ndarray = field(default_factory=lambda: np.zeros(1))

    @property
    def share(self) -> float:
        """The share that is done."""
        return float(self.done.sum()) / max(self.total, 1)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """What a checkpoint holds of it."""
        names = ("done", "totals", "random", "seconds")
        return {f"position_{name}": getattr(self, name) for name in names}


class EpochRunner(Protocol):
    """Passes over training triples, epoch by epoch."""

    triples: np.ndarray
    position: Position | None  # in an epoch that was paused

    def run_epoch(self, epoch: int, factor: float = 1.0, pause: Pause | None = None) -> EpochTotals:
        """Pass once over the training triples, with ``factor`` on the step size.

        Where ``pause`` says so, it ends with ``EpochPausedError``, and goes on from ``position``
        when it is called again, as if it had never stopped.
        """


class Engine(EpochRunner, Protocol):
    """Moves the parameters of a model, epoch by epoch."""

    model: Model
    threads: int

    @property
    def state(self) -> dict[str, np.ndarray]:
        """The optimizer's arrays, by name: what a checkpoint holds beside the parameters.

        The names of those with a row for each entity begin with "entity_".
        """

    def begin(self, epoch: int) -> Position:
        """The start of an epoch."""


@dataclass
class Progress:
    """How far a run has come, and how well it did on the way."""

    epoch: int = 0  # epochs that are done
    best_mrr: float = -1.0  # on the validation sample
    best_epoch: int = 0
    stale: int = 0  # validations since the best one
    seconds: float = 0.0  # of training and validation, where the time is limited
    rate: float = 1.0  # factor on the step size, lowered where validation stands still


def save_checkpoint(
    path: Path, engine: Engine, progress: Progress, best: Model | None, graph: str
) -> None:
    """Write parameters, optimizer state, progress and the best model so far, in one file.

    ``graph`` is the fingerprint of the graph.
    """
    tensors = _tensors(engine)
    if best is not None:
        tensors |= {"best_entities": best.entities, "best_relations": best.relations}
    header = {
        "format": FORMAT,
        "version": str(VERSION),
        "model": engine.model.family.name,
        "dim": str(engine.model.dim),
        "graph": graph,
        "progress": json.dumps(asdict(progress)),
    }
    save_tensors(tensors, header, path)


def load_checkpoint(path: Path, engine: Engine, graph: str) -> tuple[Progress, Model | None]:
    """Put the engine back where it was; return the progress and the best model so far.

    A checkpoint of another ``graph``, whose fingerprint is given, is refused.
    """
    tensors, header = load_tensors(path, FORMAT, VERSION, graph=graph)
    model = engine.model
    try:
        if (header["model"], header["dim"]) != (model.family.name, str(model.dim)):
            raise ValueError(f"it is of {header['model']}, dim {header['dim']}")
        progress = parse_json(header["progress"], Progress, "its progress")
        if progress.epoch < 0:
            raise ValueError(f"epoch {progress.epoch}")
        for name, target in _state(engine).items():
            if tensors[name].shape != target.shape:
                raise ValueError(f"{name} of shape {tensors[name].shape}, not {target.shape}")
            if not np.isfinite([tensors[name].min(initial=0), tensors[name].max(initial=0)]).all():
                raise ValueError(f"{name} has numbers that are not finite")
            target[:] = tensors[name]
        engine.position = _position(tensors, engine.begin(progress.epoch))
        best = None
        if "best_entities" in tensors:
            rows = tensors["best_entities"], tensors["best_relations"]
            best = Model(model.family, model.dim, *rows)
    except (KeyError, TypeError, ValueError, BilinkError) as error:
        raise RunError(f"{path} does not fit its run: {error}") from None
    return progress, best


def _position(tensors: dict[str, np.ndarray], start: Position) -> Position | None:
    """The position in an epoch that was paused; None for one that is to be run from its start.

    That of other threads than there are now is no position here.
    """
    found = {name: tensors[name] for name in start.arrays if name in tensors}
    if len(found) < len(start.arrays):
        return None
    for name, array in start.arrays.items():
        if found[name].dtype != array.dtype:
            raise ValueError(f"{name} of type {found[name].dtype}, not {array.dtype}")
        if found[name].shape != array.shape:
            return None
    done, totals, random, seconds = found.values()
    numbers = np.concatenate([totals.ravel(), seconds])
    if done.min(initial=0) < 0 or done.sum() > start.total or not np.isfinite(numbers).all():
        raise ValueError("its position in the epoch is none")
    return Position(start.total, done.copy(), totals.copy(), random.copy(), seconds.copy())


def _tensors(engine: Engine) -> dict[str, np.ndarray]:
    """All that is saved of an engine, by name."""
    return _state(engine) | (engine.position.arrays if engine.position else {})


def _state(engine: Engine) -> dict[str, np.ndarray]:
    """The parameters and the optimizer's arrays, by name."""
    model = engine.model
    return {"entities": model.entities, "relations": model.relations, **engine.state}
