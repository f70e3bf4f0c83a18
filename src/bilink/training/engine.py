"""What the training loop knows of an engine, and the state of an unfinished run on disk."""

import json
from dataclasses import asdict, dataclass
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


class Engine(Protocol):
    """Moves the parameters of a model, epoch by epoch."""

    model: Model
    triples: np.ndarray
    threads: int

    @property
    def state(self) -> dict[str, np.ndarray]:
        """The optimizer's arrays, by name: what a checkpoint holds beside the parameters."""

    def run_epoch(self, epoch: int, factor: float = 1.0) -> EpochTotals:
        """Pass once over the training triples, with ``factor`` on the step size."""


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
        for name, target in _tensors(engine).items():
            if tensors[name].shape != target.shape:
                raise ValueError(f"{name} of shape {tensors[name].shape}, not {target.shape}")
            if not np.isfinite([tensors[name].min(initial=0), tensors[name].max(initial=0)]).all():
                raise ValueError(f"{name} has numbers that are not finite")
            target[:] = tensors[name]
        best = None
        if "best_entities" in tensors:
            rows = tensors["best_entities"], tensors["best_relations"]
            best = Model(model.family, model.dim, *rows)
    except (KeyError, TypeError, ValueError, BilinkError) as error:
        raise RunError(f"{path} does not fit its run: {error}") from None
    return progress, best


def _tensors(engine: Engine) -> dict[str, np.ndarray]:
    """The parameters and the optimizer's arrays, by name."""
    model = engine.model
    return {"entities": model.entities, "relations": model.relations, **engine.state}
