"""Softmax training: cross-entropy over all entities or a shared sample of them, in batches on BLAS.

A step, from top to bottom (``SoftmaxEngine._take_step``):

    batch               some queries "which tail?" or "which head?" with their answers
    queries             rows made of the given entities and the relations
    compare             scores of the candidates, their softmax, the gradients of the queries
    backward            gradients of the given entities and of the relations
    penalties, steps    regularization and the optimizer

The comparison is in ``tables``, with the matrix products; all else is a pass over rows
(``query_kernels``).
"""

from collections.abc import Mapping

import numpy as np

from bilink._random import Stream, generator
from bilink._threads import ThreadPool, cores
from bilink.data.graph import Graph
from bilink.errors import ConfigError
from bilink.models.model import Model
from bilink.models.registry import Family
from bilink.training import query_kernels as kernels
from bilink.training.batches import Batch, queries_of
from bilink.training.config import SoftmaxConfig
from bilink.training.engine import EpochPausedError, EpochTotals, Pause, Position
from bilink.training.optimizers import Optimizer
from bilink.training.softmax_kernels import Targets, softmax_gradients
from bilink.training.tables import EntityTable


class SoftmaxEngine:
    """Moves the parameters of a model, one batch of queries after the other.

    An epoch is determined by the parameters, the optimizer's state, the seed, the epoch's number
    and the number of threads.  With ``candidates``, the graph is a part of one with so many
    entities: those at hand stand for all.
    """

    def __init__(
        self, model: Model, graph: Graph, config: SoftmaxConfig, candidates: int | None = None
    ):
        check_fit(model.family, config)
        self.model, self._config = model, config
        self.triples = graph.train
        self.threads = config.threads or cores()
        self._queries = queries_of(
            graph, 1 if config.queries == "per-fact" else config.answers_per_query
        )
        self._pool = ThreadPool(self.threads)
        self._is_part = candidates is not None
        self._entities = EntityTable(
            model.entities, model.family.form, config, self._pool, candidates
        )
        self._relations = Optimizer(model.relations, config.optimizer, self._pool)
        self._step = np.zeros(1, dtype=np.int64)
        regularization = config.regularization
        self._penalty = kernels.PENALTIES[regularization.kind]
        self._penalties = np.array([regularization.entity, regularization.relation], np.float32)
        if self._penalty == kernels.DURA:
            self._penalties *= 2  # the derivative of x² is 2x
        self._dropout = np.array([config.dropout.entity, config.dropout.relation])
        self.position: Position | None = None

    @property
    def state(self) -> dict[str, np.ndarray]:
        """The optimizer's arrays, by name."""
        entities, relations = self._entities.optimizer.state, self._relations.state
        found = {f"entity_{name}": array for name, array in entities.items()}
        found |= {f"relation_{name}": array for name, array in relations.items()}
        return {**found, "step": self._step}

    def adopt(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on with the optimizer's arrays of another engine, in place."""
        for optimizer, kind in (self._entities.optimizer, "entity"), (self._relations, "relation"):
            optimizer.adopt(state[f"{kind}_state"], state[f"{kind}_second_state"])
        self._step = state["step"]

    def begin(self, epoch: int) -> Position:
        """The start of an epoch."""
        return Position(len(self._queries), np.zeros(1, dtype=np.int64), np.zeros((1, 2)))

    def run_epoch(self, epoch: int, factor: float = 1.0, pause: Pause | None = None) -> EpochTotals:
        """Ask each query once, in an order drawn from (seed, epoch).

        ``factor`` is on the step size.  ``pause`` is asked after each batch.
        """
        config = self._config
        random = generator(config.seed, Stream.EPOCH, epoch)
        order = random.permutation(len(self._queries))
        sampled = config.negatives and epoch < config.epochs - config.full_epochs
        rate = np.float32(config.learning_rate * config.decay**epoch * factor)
        at = self.position or self.begin(epoch)
        # A loss that is not finite says so; NumPy need not.
        with self._pool.running(), np.errstate(invalid="ignore", over="ignore"):
            for start in range(0, len(order), config.batch_size):
                seed, negatives = random.integers(2**63, dtype=np.uint64), None
                if sampled:  # wrong candidates for the whole batch, in ascending order
                    n = len(self.model.entities)
                    drawn = random.choice(n, min(config.negatives, n), replace=False, shuffle=False)
                    negatives = np.sort(drawn)
                elif self._is_part:
                    negatives = np.arange(len(self.model.entities))
                if start < at.done[0]:  # before the pause; but its random numbers were drawn
                    continue
                batch = self._batch(order[start : start + config.batch_size], seed)
                self._take_step(batch, negatives, rate)
                means = np.stack([batch.losses, batch.beaten]) @ batch.weights
                at.totals[0] += len(batch.losses) * means
                at.done[0] = min(start + config.batch_size, len(order))
                if at.done[0] < len(order) and pause is not None and pause(at.share):
                    self.position = at
                    raise EpochPausedError
        self.position = None
        loss, beaten = (at.totals[0] / max(len(order), 1)).tolist()
        if not self.model.is_finite():  # the loss is that before the last step
            loss = float("nan")
        return EpochTotals(loss, beaten, len(order))

    def _batch(self, chosen: np.ndarray, seed: np.uint64) -> Batch:
        queries = self._queries.take(chosen)
        size = len(queries)
        weights = np.full(size, 1 / size)
        if self._config.queries == "weighted":
            weights = np.diff(queries.starts) / len(queries.answers)
        return Batch(
            queries,
            weights.astype(np.float32),
            groups=np.flatnonzero(np.diff(queries.relations, prepend=-1, append=-1)),
            seed=seed,
            losses=np.empty(size),
            beaten=np.empty(size),
        )

    # -- a step and its parts --------------------------------------------------------------------

    def _take_step(self, batch: Batch, negatives: np.ndarray | None, rate: np.float32) -> None:
        asking = batch.queries
        rows = self.model.entities[asking.given], self.model.relations
        asked = kernels.Asked(*rows, asking.relations, asking.heads, self._dropout, batch.seed)
        queries = np.empty_like(asked.given)
        make_queries = self.model.family.bind(kernels.make_queries)
        self._pool.spread(make_queries, len(queries), asked, queries)
        query_gradients = self._entities.compare(queries, batch, negatives)
        given_gradients, relation_gradients = self._backward(asked, batch, queries, query_gradients)
        self._entities.add(given_gradients, asking.given)
        self._penalise_answers(batch)
        relations = asking.relations[batch.groups[:-1]]
        if self._config.relation_prediction:
            gradients = np.zeros_like(self.model.relations)
            gradients[relations] = relation_gradients
            self._predict_relations(batch, gradients)
            relation_gradients, relations = gradients, np.arange(len(gradients))
        self._step += 1
        number = int(self._step[0])
        places = np.arange(len(relations))
        self._relations.step(relation_gradients, rate, number, relations, places)
        self._entities.step(rate, number)

    def _backward(
        self, asked: kernels.Asked, batch: Batch, queries: np.ndarray, gradients: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The gradients of the given entities and of the batch's relations, with penalties."""
        given_gradients = np.empty_like(asked.given)
        shape = (len(batch.groups) - 1, self.model.relations.shape[1])
        relation_gradients = np.empty(shape, dtype=np.float32)
        entity, relation = self._penalties
        penalty = kernels.Penalty(self._penalty, entity, relation, batch.weights)
        backward = self.model.family.bind(kernels.query_backward)
        bounds = np.searchsorted(batch.groups, np.linspace(0, len(queries), self.threads + 1))
        bounds[-1] = len(batch.groups) - 1  # whole groups, of about as many rows for each thread
        found = given_gradients, relation_gradients
        self._pool.each(backward, bounds, asked, queries, gradients, batch.groups, penalty, *found)
        return found

    def _penalise_answers(self, batch: Batch) -> None:
        """Add the penalties on the answers, which share their query's."""
        if self._penalties[0] == 0 or self._penalty == kernels.DURA:
            return
        queries = batch.queries
        counts = np.diff(queries.starts)
        shares = np.repeat(self._penalties[0] * batch.weights / counts, counts)
        answers = self.model.entities[queries.answers]
        gradients = np.empty_like(answers)
        penalise = self.model.family.bind(kernels.penalise_rows)
        weights = shares.astype(np.float32)
        self._pool.spread(penalise, len(answers), answers, weights, self._penalty, gradients)
        self._entities.add(gradients, queries.answers)

    def _predict_relations(self, batch: Batch, relation_gradients: np.ndarray) -> None:
        """Add the cross-entropy of "which relation?" for the facts behind the tail queries."""
        relations, queries, bind = self.model.relations, batch.queries, self.model.family.bind
        counts = np.diff(queries.starts)
        facts = np.repeat(~queries.heads, counts)
        heads, answers = (np.repeat(x, counts)[facts] for x in (queries.given, queries.relations))
        tails = queries.answers[facts]
        size = len(heads)
        pairs = self.model.entities[heads], self.model.entities[tails]
        rows = np.empty((size, relations.shape[1]), dtype=np.float32)
        self._pool.spread(bind(kernels.pair_rows), size, *pairs, rows)
        scores = rows @ relations.T
        weights = np.full(size, self._config.relation_prediction / max(size, 1), dtype=np.float32)
        targets = Targets(np.arange(size + 1), answers, weights, np.empty(size), np.empty(size))
        self._pool.spread(softmax_gradients, size, scores, targets, 0.0, False)
        relation_gradients += scores.T @ rows
        gradients = np.empty_like(pairs[0]), np.empty_like(pairs[1])
        self._pool.spread(bind(kernels.pair_backward), size, *pairs, scores @ relations, *gradients)
        self._entities.add(gradients[0], heads)
        self._entities.add(gradients[1], tails)


def check_fit(family: Family, config: SoftmaxConfig) -> None:
    """Refuse options that softmax training cannot follow with such a model."""
    if not family.form.is_product:
        raise ConfigError(
            f"the {family.form.name} is no matrix product, so softmax training is not possible; "
            "use loss=margin, or a model such as transe"
        )
    if config.relation_prediction and family.form.is_distance:
        raise ConfigError(
            f"relation_prediction needs scores that are linear in the relation; "
            f"those of {family.title} are not"
        )
    if config.distance == "plain" and not family.form.is_distance:
        raise ConfigError(f"distance=plain needs a distance; {family.title} has none")
