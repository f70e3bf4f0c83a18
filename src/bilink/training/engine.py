"""What the training loop, checkpoints and estimates know of an engine."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bilink.models.model import Model


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
