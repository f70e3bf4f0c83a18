"""PTransE (Lin et al., 2015): translations that also agree with the paths of the graph.

A path p is the sum of the vectors of its relations, less those that it takes backwards.  Where the
facts of a relation r are joined by p, this sum should be near r and far from other relations:

    L = − Σ_{p, r} W(p, r) · log softmax_r(−‖p − r‖²)

W(p, r) is how much flows along p between the facts of r (``paths.flows``), so that the loss of all
facts is one over pairs of paths and relations, counted once.  Lin et al. compare r with one other
relation by a margin; all relations at once are cheap here.
"""

from dataclasses import dataclass

import numpy as np

from bilink._random import Stream, generator
from bilink.paths.rules import Rules
from bilink.training.engine import Engine, EpochTotals, Pause, Position

_BATCH = 1024
_EPSILON = 1e-24  # as in ``optimizers``


@dataclass(frozen=True, eq=False)
class PathLoss:
    """Pairs of paths and relations, and what they weigh."""

    rules: Rules
    weights: np.ndarray  # W(p, r) of each path of the rules, which belongs to one relation

    @classmethod
    def of(cls, rules: Rules, flows: np.ndarray) -> "PathLoss":
        """Weights that add up to the number of relations."""
        total = max(float(flows.sum()), 1e-12)
        return cls(rules, (flows * (rules.n_relations / total)).astype(np.float32))

    def steps(self, rows: np.ndarray) -> np.ndarray:
        """For each path, how often it takes each relation, forwards less backwards."""
        k = self.rules.n_relations
        taken = np.zeros((len(rows), k), dtype=np.float32)
        for column in range(1, self.rules.paths.shape[1]):
            directed = self.rules.paths[rows, column]
            there = np.flatnonzero(directed >= 0)
            sign = np.where(directed[there] < k, 1, -1)
            np.add.at(taken, (there, directed[there] % k), sign.astype(np.float32))
        return taken

    def gradient(self, relations: np.ndarray, rows: np.ndarray) -> tuple[float, np.ndarray]:
        """The loss of some paths, and its gradient in the relation vectors."""
        taken, own = self.steps(rows), self.rules.paths[rows, 0]
        paths = taken @ relations
        chances, losses = _softmax(paths, relations, own)
        weights = self.weights[rows]
        chances[np.arange(len(rows)), own] -= 1
        chances *= weights[:, None]  # now the gradient in the logits −‖p − r‖²
        gradient = 2 * (taken.T @ (chances @ relations))  # through the paths
        gradient += 2 * (chances.T @ paths) - 2 * chances.sum(axis=0)[:, None] * relations
        return float(losses @ weights), gradient

    def agreement(self, relations: np.ndarray) -> np.ndarray:
        """softmax_r(−‖p − r‖²) of each path and its relation: how well the two agree."""
        found = np.empty(len(self.rules.paths))
        for first in range(0, len(found), _BATCH):
            rows = np.arange(first, min(first + _BATCH, len(found)))
            own = self.rules.paths[rows, 0]
            found[rows] = np.exp(-_softmax(self.steps(rows) @ relations, relations, own)[1])
        return found


def _softmax(
    paths: np.ndarray, relations: np.ndarray, own: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The chances of all relations for each path, and −log of that of its own."""
    logits = 2 * paths @ relations.T - (relations * relations).sum(axis=1)
    logits -= logits.max(axis=1, keepdims=True)
    losses = -logits[np.arange(len(own)), own]
    np.exp(logits, out=logits)
    totals = logits.sum(axis=1)
    logits /= totals[:, None]
    return logits, losses + np.log(totals)


class PathEngine:
    """An engine whose epochs end with a pass over the paths, by Adagrad."""

    def __init__(self, engine: Engine, loss: PathLoss, rate: float, seed: int):
        self.engine, self._loss, self._rate, self._seed = engine, loss, rate, seed
        self.model, self.triples, self.threads = engine.model, engine.triples, engine.threads
        self._squares = np.zeros_like(engine.model.relations)

    @property
    def state(self) -> dict[str, np.ndarray]:
        """The arrays of both optimizers."""
        return {**self.engine.state, "path_state": self._squares}

    @property
    def position(self) -> Position | None:
        """In the pass over the training triples."""
        return self.engine.position

    @position.setter
    def position(self, position: Position | None) -> None:
        self.engine.position = position

    def begin(self, epoch: int) -> Position:
        """The start of an epoch."""
        return self.engine.begin(epoch)

    def run_epoch(self, epoch: int, factor: float = 1.0, pause: Pause | None = None) -> EpochTotals:
        """Pass over the training triples, then over the paths that weigh anything."""
        totals = self.engine.run_epoch(epoch, factor, pause)
        relations = self.model.relations
        order = generator(self._seed, Stream.PATH_ORDER, epoch).permutation(
            np.flatnonzero(self._loss.weights)
        )
        for first in range(0, len(order), _BATCH):
            _, gradient = self._loss.gradient(relations, order[first : first + _BATCH])
            self._squares += gradient * gradient
            relations -= self._rate * factor * gradient / np.sqrt(self._squares + _EPSILON)
        return totals
