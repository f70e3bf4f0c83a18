"""The per-triple engine: the paper's margin-based training, lock-free on several threads."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from bilink.data.graph import Graph
from bilink.models.model import Model
from bilink.training import kernels
from bilink.training.config import TrainingConfig
from bilink.training.negatives import head_chances, known_table, position_pools
from bilink.training.totals import EpochTotals

_LOSSES = {
    "margin": kernels.HINGE,
    "sigmoid-margin": kernels.SIGMOID_HINGE,
    "logistic": kernels.LOGISTIC,
}
_OPTIMIZERS = {"adagrad": kernels.ADAGRAD, "sgd": kernels.SGD}
_CONSTRAINTS = {"none": kernels.FREE, "ball": kernels.BALL, "sphere": kernels.SPHERE}


class TripleEngine:
    """Moves the parameters of a model, one training triple after the other.

    An epoch is determined by the parameters, the optimizer's state, the seed and the epoch's
    number, so that a run goes on from any epoch as if it had never stopped.  With one thread the
    result is the same bit for bit; with more, threads write to shared rows without locks, and the
    order of their writes is left to chance.
    """

    def __init__(self, model: Model, graph: Graph, config: TrainingConfig):
        self.model, self._config = model, config
        self.triples = graph.train
        self.threads = config.threads or os.cpu_count() or 1
        # SGD has no state, but the kernel still takes a row of it.
        share = slice(0) if config.optimizer == "sgd" else slice(None)
        self.entity_state = np.zeros_like(model.entities[:, share])
        self.relation_state = np.zeros_like(model.relations[:, share])
        self._known = known_table(graph) if config.filter_negatives else np.array([-1])
        self._pools = position_pools(graph)
        self._head_chances = head_chances(graph, config.corrupt)
        self._train = model.family.bind(kernels.train_chunk)

    @property
    def state(self) -> dict[str, np.ndarray]:
        """The optimizer's arrays, by name."""
        return {"entity_state": self.entity_state, "relation_state": self.relation_state}

    def run_epoch(self, epoch: int, factor: float = 1.0) -> EpochTotals:
        """Pass once over the training triples, in an order drawn from (seed, epoch).

        ``factor`` is on the step size.
        """
        rate = self._config.learning_rate * self._config.decay**epoch * factor
        seeds = np.random.SeedSequence([self._config.seed, 1, epoch])
        order = np.arange(len(self.triples), dtype=np.int32)
        np.random.default_rng(seeds).shuffle(order)
        chunk_seeds = seeds.spawn(1)[0].generate_state(self.threads, np.uint64)
        totals = np.zeros((self.threads, 3))
        chunks = np.array_split(order, self.threads)
        # Off the main thread even when there is one, so that signals are heard meanwhile.
        with ThreadPoolExecutor(self.threads) as pool:
            jobs = [
                pool.submit(self._train_chunk, rate, *job)
                for job in zip(chunks, chunk_seeds, totals, strict=True)
            ]
            for job in jobs:
                job.result()
        loss, violated, pairs = totals.sum(axis=0).tolist()
        return EpochTotals(loss / max(pairs, 1), violated / max(pairs, 1), int(pairs))

    def _train_chunk(
        self, rate: float, order: np.ndarray, seed: np.uint64, totals: np.ndarray
    ) -> None:
        config, number = self._config, self.model.entities.dtype.type
        self._train(
            self.model.entities,
            self.model.relations,
            self.entity_state,
            self.relation_state,
            self.triples,
            order,
            self._known,
            *self._pools,
            int(config.plausible * 2**31),
            self._head_chances,
            int(config.corrupt == "both"),
            config.negatives,
            number(config.margin),
            _LOSSES[config.loss],
            number(rate),
            number(config.regularization.entity),
            number(config.regularization.relation),
            _OPTIMIZERS[config.optimizer],
            _CONSTRAINTS[config.constraint],
            seed,
            totals,
        )
