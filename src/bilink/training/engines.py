"""The two engines, and which of them trains."""

from typing import Protocol

import numpy as np

from bilink.data.graph import Graph
from bilink.models.model import Model
from bilink.models.registry import Family
from bilink.training.batch_engine import BatchEngine, check_fit
from bilink.training.config import TrainingConfig
from bilink.training.totals import EpochTotals
from bilink.training.triple_engine import TripleEngine


class Engine(Protocol):
    """What the training loop, checkpoints and estimates know of an engine."""

    model: Model
    triples: np.ndarray
    threads: int

    @property
    def state(self) -> dict[str, np.ndarray]:
        """The optimizer's arrays, by name: what a checkpoint holds beside the parameters."""

    def run_epoch(self, epoch: int, factor: float = 1.0) -> EpochTotals:
        """Pass once over the training triples, with ``factor`` on the step size."""


def check_engine(family: Family, config: TrainingConfig) -> None:
    """Refuse, before anything is done, options that no engine can follow with such a model."""
    if config.softmax:
        check_fit(family, config)


def make_engine(model: Model, graph: Graph, config: TrainingConfig) -> Engine:
    """The engine that the loss asks for."""
    kind = BatchEngine if config.softmax else TripleEngine
    return kind(model, graph, config)
