"""The batch engine: cross-entropy over all entities or a shared sample of them, on BLAS.

A batch of questions becomes a matrix of queries Q, meets the candidates C in one product, and its
slopes come back through two more:

    S = Q Cᵀ        scores, turned into slopes G in place
    G C             slopes in the queries, which the model's verbs carry back to (given, relation)
    Gᵀ Q            slopes in the candidates

The products are in ``tables``; all else is a pass over rows (``softmax_kernels``,
``batch_kernels``).
"""

import os
from typing import TYPE_CHECKING

import numpy as np

from bilink.data.graph import Graph
from bilink.errors import ConfigError
from bilink.models.inner import DOT
from bilink.models.model import Model
from bilink.models.registry import Family
from bilink.training import batch_kernels as kernels
from bilink.training.config import TrainingConfig
from bilink.training.crew import Crew
from bilink.training.products import product_of
from bilink.training.questions import Batch, questions_of
from bilink.training.softmax_kernels import softmax_slopes
from bilink.training.tables import EntityTable, Table
from bilink.training.totals import EpochTotals

if TYPE_CHECKING:
    from bilink.training.torch_table import TorchEntityTable

_REGULARIZERS = {"l2": kernels.L2, "n3": kernels.N3, "dura": kernels.DURA}


class BatchEngine:
    """Moves the parameters of a model, one batch of questions after the other.

    An epoch is determined by the parameters, the optimizer's state, the seed, the epoch's number,
    the number of threads and the device, whose sums may be in any order on a GPU.
    """

    def __init__(self, model: Model, graph: Graph, config: TrainingConfig):
        self.model, self._config = model, config
        self.triples = graph.train
        self.threads = config.threads or os.cpu_count() or 1
        check_fit(model.family, config)
        self._questions = questions_of(
            graph, 1 if config.questions == "per-fact" else config.together
        )
        self._bound = {
            name: model.family.bind(getattr(kernels, name))
            for name in ("ask", "pull", "penalise_rows", "pair_rows", "pair_pull")
        }
        self._crew = Crew(self.threads)
        self._product = product_of(model.family.comparison)
        table = _table_on(config.device)
        self._entities = table(model.entities, config, self._crew, self._product)
        self._relations = Table(model.relations, config, self._crew)
        self._step = np.zeros(1, dtype=np.int64)
        regularization = config.regularization
        self._penalties = np.array([regularization.entity, regularization.relation], np.float32)
        if regularization.kind == "dura":
            self._penalties *= 2  # the slope of x² is 2x
        self._regularizer = _REGULARIZERS[regularization.kind]
        self._dropout = np.array([config.dropout.entity, config.dropout.relation])

    @property
    def state(self) -> dict[str, np.ndarray]:
        """The optimizer's arrays, by name."""
        return {
            **{f"entity_{name}": array for name, array in self._entities.state.items()},
            **{f"relation_{name}": array for name, array in self._relations.state.items()},
            "step": self._step,
        }

    def run_epoch(self, epoch: int, factor: float = 1.0) -> EpochTotals:
        """Ask each question once, in an order drawn from (seed, epoch).

        ``factor`` is on the step size.
        """
        config = self._config
        random = np.random.default_rng(np.random.SeedSequence([config.seed, 1, epoch]))
        order = random.permutation(len(self._questions))
        sampled = config.negatives and epoch < config.epochs - config.full_epochs
        rate = np.float32(config.learning_rate * config.decay**epoch * factor)
        totals = np.zeros(2)
        with (
            self._crew.at_work(),
            self._entities.epoch(),
            np.errstate(invalid="ignore", over="ignore"),  # the loss tells
        ):
            for start in range(0, len(order), config.batch_size):
                batch = self._batch(order[start : start + config.batch_size], random)
                negatives = self._draw(random) if sampled else None
                self._take_step(batch, negatives, rate)
                means = np.stack([batch.losses, batch.beaten]) @ batch.weights
                totals += len(batch.losses) * means
        loss, beaten = (totals / max(len(order), 1)).tolist()
        if not self.model.is_finite():  # the loss is that before the last step
            loss = float("nan")
        return EpochTotals(loss, beaten, len(order))

    def _batch(self, chosen: np.ndarray, random: np.random.Generator) -> Batch:
        questions = self._questions.take(chosen)
        size = len(questions)
        weights = np.full(size, 1 / size)
        if self._config.questions == "weighted":
            weights = np.diff(questions.starts) / len(questions.answers)
        return Batch(
            questions,
            weights.astype(np.float32),
            groups=np.flatnonzero(np.diff(questions.relations, prepend=-1, append=-1)),
            seed=random.integers(2**63, dtype=np.uint64),
            losses=np.empty(size),
            beaten=np.empty(size),
        )

    def _draw(self, random: np.random.Generator) -> np.ndarray:
        """Entities that are wrong candidates for the whole batch, in ascending order."""
        count = len(self.model.entities)
        drawn = min(self._config.negatives, count)
        return np.sort(random.choice(count, drawn, replace=False, shuffle=False))

    # -- a step and its parts --------------------------------------------------------------------

    def _take_step(self, batch: Batch, negatives: np.ndarray | None, rate: np.float32) -> None:
        entities, product = self._entities, self._product
        given = entities.rows(batch.questions.given)
        queries = self._ask(batch, given)
        left = product.queries(queries)
        if negatives is None:
            left_slopes = entities.compare_all(left, batch)
        else:
            left_slopes = entities.compare_some(left, batch, negatives)
        slopes = product.pull_queries(queries, left_slopes)
        relation_slopes = self._pull(batch, given, queries, slopes)
        self._penalise_answers(batch)
        self._step += 1
        number = int(self._step[0])
        touched = batch.questions.relations[batch.groups[:-1]]
        if self._config.relation_prediction:
            every = np.zeros_like(self.model.relations)
            every[touched] = relation_slopes
            self._predict_relations(batch, every)
            self._relations.move(every, rate, number)
        else:
            places = np.arange(len(touched))
            self._relations.move(relation_slopes, rate, number, touched, places)
        entities.step(rate, number)

    def _ask(self, batch: Batch, given: np.ndarray) -> np.ndarray:
        """The queries of a batch, whose given entities are the rows ``given``."""
        asked = batch.questions
        queries = np.empty_like(given)
        self._crew.spread(
            self._bound["ask"],
            len(asked),
            given,
            self.model.relations,
            asked.relations,
            asked.heads,
            self._dropout,
            batch.seed,
            queries,
        )
        return queries

    def _pull(
        self, batch: Batch, given: np.ndarray, queries: np.ndarray, slopes: np.ndarray
    ) -> np.ndarray:
        """Carry slopes in the queries back to the given entities; return those in the relations."""
        model, asked = self.model, batch.questions
        given_slopes = np.empty_like(given)
        shape = (len(batch.groups) - 1, model.relations.shape[1])
        relation_slopes = np.empty(shape, dtype=np.float32)
        self._crew.each(
            self._bound["pull"],
            _even_groups(batch.groups, self.threads),
            given,
            model.relations,
            asked.relations,
            asked.heads,
            self._dropout,
            batch.seed,
            batch.weights,
            self._penalties,
            self._regularizer,
            queries,
            slopes,
            batch.groups,
            given_slopes,
            relation_slopes,
        )
        self._entities.add(given_slopes, asked.given)
        return relation_slopes

    def _penalise_answers(self, batch: Batch) -> None:
        """Add the penalties on the answers, which share their question's."""
        if self._penalties[0] == 0 or self._regularizer == kernels.DURA:
            return
        asked = batch.questions
        counts = np.diff(asked.starts)
        shares = np.repeat(self._penalties[0] * batch.weights / counts, counts)
        answers = self._entities.rows(asked.answers)
        slopes = np.empty_like(answers)
        self._crew.spread(
            self._bound["penalise_rows"],
            len(answers),
            answers,
            shares.astype(np.float32),
            self._regularizer,
            slopes,
        )
        self._entities.add(slopes, asked.answers)

    def _predict_relations(self, batch: Batch, relation_slopes: np.ndarray) -> None:
        """Add the cross-entropy of "which relation?" for the facts behind the tail questions."""
        relations, asked = self.model.relations, batch.questions
        counts = np.diff(asked.starts)
        facts = np.repeat(~asked.heads, counts)
        heads, targets = (np.repeat(x, counts)[facts] for x in (asked.given, asked.relations))
        tails = asked.answers[facts]
        size = len(heads)
        pairs = self._entities.rows(heads), self._entities.rows(tails)
        rows = np.empty((size, relations.shape[1]), dtype=np.float32)
        self._crew.spread(self._bound["pair_rows"], size, *pairs, rows)
        scores = rows @ relations.T
        weights = np.full(size, self._config.relation_prediction / max(size, 1), dtype=np.float32)
        self._crew.spread(
            softmax_slopes,
            size,
            scores,
            np.arange(size + 1),
            targets,
            weights,
            0.0,
            False,
            np.empty(size),
            np.empty(size),
        )
        relation_slopes += scores.T @ rows
        slopes = np.empty_like(pairs[0]), np.empty_like(pairs[1])
        self._crew.spread(self._bound["pair_pull"], size, *pairs, scores @ relations, *slopes)
        self._entities.add(slopes[0], heads)
        self._entities.add(slopes[1], tails)


def check_fit(family: Family, config: TrainingConfig) -> None:
    """Refuse options that this engine cannot follow with such a model, or on this machine."""
    product_of(family.comparison)
    if config.relation_prediction and family.comparison is not DOT:
        raise ConfigError(
            f"relation_prediction needs scores that are linear in the relation; "
            f"those of {family.title} are not"
        )
    if config.distance == "plain" and family.comparison is DOT:
        raise ConfigError(f"distance=plain needs a distance; {family.title} has none")
    _table_on(config.device)


def _table_on(device: str) -> "type[EntityTable] | type[TorchEntityTable]":
    """The kind of table that holds the entities on a device."""
    if device == "numpy":
        return EntityTable
    from bilink.training.torch_table import TorchEntityTable, find_device

    find_device(device)
    return TorchEntityTable


def _even_groups(groups: np.ndarray, parts: int) -> np.ndarray:
    """Cut groups, which start at ``groups``, into parts of about as many rows."""
    goals = np.linspace(0, groups[-1], parts + 1)
    bounds = np.searchsorted(groups, goals)
    bounds[-1] = len(groups) - 1
    return bounds
