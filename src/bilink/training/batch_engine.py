"""The batch engine: cross-entropy over all entities or a shared sample of them, on BLAS.

A batch of questions becomes a matrix of queries Q, meets the candidates C in one product, and its
slopes come back through two more:

    S = Q Cᵀ        scores, turned into slopes G in place
    G C             slopes in the queries, which the model's verbs carry back to (given, relation)
    Gᵀ Q            slopes in the candidates

All else is a pass over rows (see ``batch_kernels``).
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from bilink.data.graph import Graph
from bilink.errors import ConfigError
from bilink.models.inner import DOT
from bilink.models.model import Model
from bilink.training import batch_kernels as kernels
from bilink.training.config import TrainingConfig
from bilink.training.engine import EpochTotals
from bilink.training.products import product_of
from bilink.training.questions import Questions, questions_of

_OPTIMIZERS = {
    "adagrad": kernels.ADAGRAD,
    "sgd": kernels.SGD,
    "row-adagrad": kernels.ROW_ADAGRAD,
    "adam": kernels.ADAM,
}
_REGULARIZERS = {"l2": kernels.L2, "n3": kernels.N3, "dura": kernels.DURA}
SCORES = 256 * 2**20  # bytes of scores that are held at once


@dataclass
class _Batch:
    """Some questions, and what is shared by all steps on them."""

    questions: Questions
    weights: np.ndarray  # of each question in the mean loss
    groups: np.ndarray  # where the questions of each relation start
    seed: np.uint64  # of dropout
    losses: np.ndarray  # of each question, found on the way
    beaten: np.ndarray  # share of each question's answers that a wrong candidate beats


class BatchEngine:
    """Moves the parameters of a model, one batch of questions after the other.

    An epoch is determined by the parameters, the optimizer's state, the seed, the epoch's number
    and the number of threads.
    """

    def __init__(self, model: Model, graph: Graph, config: TrainingConfig):
        self.model, self._config = model, config
        self.triples = graph.train
        self.threads = config.threads or os.cpu_count() or 1
        self._product = product_of(model.family.comparison)
        if config.relation_prediction and model.family.comparison is not DOT:
            raise ConfigError(
                f"relation_prediction needs scores that are linear in the relation; "
                f"those of {model.family.title} are not"
            )
        if config.distance == "plain" and model.family.comparison is DOT:
            raise ConfigError(f"distance=plain needs a distance; {model.family.title} has none")
        self._questions = questions_of(graph, config.questions != "per-fact")
        self._bound = {
            name: model.family.bind(getattr(kernels, name))
            for name in ("ask", "pull", "penalise_rows", "pair_rows", "pair_pull")
        }
        self._entities = _Moved(model.entities, config)
        self._relations = _Moved(model.relations, config)
        self._step = np.zeros(1, dtype=np.int64)
        wide = (len(model.entities), model.entities.shape[1] + self._product.extra)
        self._slopes = np.zeros_like(model.entities if config.negatives else model.entities[:0])
        self._lifted = np.empty(wide if self._product.extra else 0, dtype=np.float32)
        self._right_slopes = np.empty(wide, dtype=np.float32)
        self._room = np.empty(0, dtype=np.float32)
        regularization = config.regularization
        self._penalties = np.array([regularization.entity, regularization.relation], np.float32)
        if regularization.kind == "dura":
            self._penalties *= 2  # the slope of x² is 2x
        self._regularizer = _REGULARIZERS[regularization.kind]
        self._dropout = np.array([config.dropout.entity, config.dropout.relation])
        self._root = config.distance == "plain"

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
        self._rate = np.float32(config.learning_rate * config.decay**epoch * factor)
        totals = np.zeros(2)
        with (
            ThreadPoolExecutor(self.threads) as self._pool,
            threadpool_limits(self.threads, "blas"),
            np.errstate(invalid="ignore", over="ignore"),  # the loss tells
        ):
            for start in range(0, len(order), config.batch_size):
                batch = self._batch(order[start : start + config.batch_size], random)
                if sampled:
                    self._sampled_step(batch, random)
                else:
                    self._full_step(batch)
                totals += batch.losses @ batch.weights, batch.beaten @ batch.weights
        batches = -(-len(order) // config.batch_size)
        loss, beaten = (totals / max(batches, 1)).tolist()
        if not self.model.is_finite():  # the loss is that before the last step
            loss = float("nan")
        return EpochTotals(loss, beaten, len(order))

    def _batch(self, chosen: np.ndarray, random: np.random.Generator) -> _Batch:
        questions = self._questions.take(chosen)
        size = len(questions)
        weights = np.full(size, 1 / size)
        if self._config.questions == "weighted":
            weights = np.diff(questions.starts) / len(questions.answers)
        return _Batch(
            questions,
            weights.astype(np.float32),
            groups=np.flatnonzero(np.diff(questions.relations, prepend=-1, append=-1)),
            seed=random.integers(2**63, dtype=np.uint64),
            losses=np.empty(size),
            beaten=np.empty(size),
        )

    # -- the two kinds of steps ------------------------------------------------------------------

    def _full_step(self, batch: _Batch) -> None:
        """All entities are candidates."""
        entities, asked = self.model.entities, batch.questions
        queries = self._ask(batch)
        left = self._product.queries(queries)
        right = self._product.candidates(entities, self._lifted)
        left_slopes = np.empty_like(left)
        block = max(1, SCORES // (4 * len(entities)))
        for start in range(0, len(asked), block):
            rows = slice(start, min(start + block, len(asked)))
            scores = self._scores(rows.stop - start, len(entities))
            np.matmul(left[rows], right.T, out=scores)
            self._spread(
                kernels.softmax_slopes,
                len(scores),
                scores,
                asked.starts[start:],
                asked.answers,
                batch.weights[rows],
                self._config.label_smoothing,
                self._root,
                batch.losses[rows],
                batch.beaten[rows],
            )
            np.matmul(scores, right, out=left_slopes[rows])
            if start == 0:
                np.matmul(scores.T, left[rows], out=self._right_slopes)
            else:
                self._right_slopes += scores.T @ left[rows]
        slopes = self._product.pull_candidates(entities, self._right_slopes)
        self._pull(batch, queries, self._product.pull_queries(queries, left_slopes), slopes)
        self._move(self._entities, slopes)

    def _sampled_step(self, batch: _Batch, random: np.random.Generator) -> None:
        """The candidates are the answer and negatives that the whole batch shares."""
        entities, asked, product = self.model.entities, batch.questions, self._product
        count = len(entities)
        drawn = min(self._config.negatives, count)
        negatives = np.sort(random.choice(count, drawn, replace=False, shuffle=False))
        queries = self._ask(batch)
        left = product.queries(queries)
        rivals, answers = entities[negatives], entities[asked.answers]
        right, own = product.candidates(rivals), product.candidates(answers)
        scores = self._scores(len(asked), drawn)
        np.matmul(left, right.T, out=scores)
        answer_slopes = np.empty(len(asked), dtype=np.float32)
        self._spread(
            kernels.sampled_slopes,
            len(asked),
            scores,
            np.einsum("ij,ij->i", left, own),
            _places(asked.answers, negatives),
            batch.weights,
            count,
            self._root,
            answer_slopes,
            batch.losses,
            batch.beaten,
        )
        column = answer_slopes[:, None]
        left_slopes = scores @ right
        left_slopes += column * own
        touched = _distinct(count, negatives, asked.answers, asked.given)
        slopes = self._slopes  # zero but between here and the end
        kernels.add_rows(product.pull_candidates(rivals, scores.T @ left), negatives, slopes)
        kernels.add_rows(product.pull_candidates(answers, column * left), asked.answers, slopes)
        self._pull(batch, queries, product.pull_queries(queries, left_slopes), slopes)
        self._move(self._entities, slopes, touched)
        slopes[touched] = 0

    # -- parts of a step -------------------------------------------------------------------------

    def _ask(self, batch: _Batch) -> np.ndarray:
        """The queries of a batch."""
        model, asked = self.model, batch.questions
        queries = np.empty((len(asked), model.entities.shape[1]), dtype=np.float32)
        self._spread(
            self._bound["ask"],
            len(asked),
            model.entities,
            model.relations,
            asked.given,
            asked.relations,
            asked.heads,
            self._dropout,
            batch.seed,
            queries,
        )
        return queries

    def _pull(
        self, batch: _Batch, queries: np.ndarray, slopes: np.ndarray, entity_slopes: np.ndarray
    ) -> None:
        """Carry slopes in the queries back; move the relations, and add to ``entity_slopes``."""
        model, asked = self.model, batch.questions
        given_slopes = np.empty_like(queries)
        touched = asked.relations[batch.groups[:-1]]
        relation_slopes = np.empty((len(touched), model.relations.shape[1]), dtype=np.float32)
        self._each(
            self._bound["pull"],
            _even_groups(batch.groups, self.threads),
            model.entities,
            model.relations,
            asked.given,
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
        kernels.add_rows(given_slopes, asked.given, entity_slopes)
        if self._penalties[0] > 0 and self._regularizer != kernels.DURA:
            counts = np.diff(asked.starts)
            shares = np.repeat(self._penalties[0] * batch.weights / counts, counts)
            self._bound["penalise_rows"](
                model.entities,
                asked.answers,
                shares.astype(np.float32),
                self._regularizer,
                entity_slopes,
            )
        self._step += 1
        if self._config.relation_prediction:
            every = np.zeros_like(model.relations)
            every[touched] = relation_slopes
            self._predict_relations(batch, entity_slopes, every)
            self._move(self._relations, every)
        else:
            self._move(self._relations, relation_slopes, touched, np.arange(len(touched)))

    def _predict_relations(
        self, batch: _Batch, entity_slopes: np.ndarray, relation_slopes: np.ndarray
    ) -> None:
        """Add the cross-entropy of "which relation?" for the facts behind the tail questions."""
        model, asked = self.model, batch.questions
        counts = np.diff(asked.starts)
        facts = np.repeat(~asked.heads, counts)
        heads, relations = (np.repeat(x, counts)[facts] for x in (asked.given, asked.relations))
        tails = asked.answers[facts]
        size = len(heads)
        rows = np.empty((size, model.relations.shape[1]), dtype=np.float32)
        self._spread(
            self._bound["pair_rows"], size, model.entities, model.relations, heads, tails, rows
        )
        scores = rows @ model.relations.T
        weights = np.full(size, self._config.relation_prediction / max(size, 1), dtype=np.float32)
        self._spread(
            kernels.softmax_slopes,
            size,
            scores,
            np.arange(size + 1),
            relations,
            weights,
            0.0,
            False,
            np.empty(size),
            np.empty(size),
        )
        relation_slopes += scores.T @ rows
        head_slopes = np.empty((size, model.entities.shape[1]), dtype=np.float32)
        tail_slopes = np.empty_like(head_slopes)
        self._spread(
            self._bound["pair_pull"],
            size,
            model.entities,
            heads,
            tails,
            scores @ model.relations,
            head_slopes,
            tail_slopes,
        )
        kernels.add_rows(head_slopes, heads, entity_slopes)
        kernels.add_rows(tail_slopes, tails, entity_slopes)

    def _move(
        self,
        moved: "_Moved",
        slopes: np.ndarray,
        rows: np.ndarray | None = None,
        places: np.ndarray | None = None,
    ) -> None:
        """Take the optimizer's step on ``rows``, or on all, by the slopes at ``places``."""
        rows = np.arange(len(slopes)) if rows is None else rows
        self._spread(
            kernels.move_rows,
            len(rows),
            moved.params,
            moved.first,
            moved.second,
            slopes,
            rows,
            rows if places is None else places,
            self._rate,
            _OPTIMIZERS[self._config.optimizer],
            self._step[0],
        )

    def _scores(self, rows: int, columns: int) -> np.ndarray:
        """Room for scores; new memory in each batch would cost as much as a pass over it."""
        if self._room.size < rows * columns:
            self._room = np.empty(rows * columns, dtype=np.float32)
        return self._room[: rows * columns].reshape(rows, columns)

    # -- threads ---------------------------------------------------------------------------------

    def _spread(self, work: Callable[..., None], size: int, *arguments: Any) -> None:
        """Call ``work(first, last, …)`` on even parts of a range, side by side."""
        self._each(work, np.linspace(0, size, self.threads + 1).astype(int), *arguments)

    def _each(self, work: Callable[..., None], bounds: np.ndarray, *arguments: Any) -> None:
        # Off the main thread even when there is one, so that signals are heard meanwhile.
        parts = pairwise(bounds.tolist())
        for job in [self._pool.submit(work, *part, *arguments) for part in parts]:
            job.result()


class _Moved:
    """An array of parameters and the optimizer's state for it."""

    def __init__(self, params: np.ndarray, config: TrainingConfig):
        self.params = params
        widths = {"adagrad": (None, 0), "sgd": (0, 0), "row-adagrad": (1, 0), "adam": (None, None)}
        self.first, self.second = (
            np.zeros((len(params), params.shape[1] if width is None else width), dtype=np.float32)
            for width in widths[config.optimizer]
        )

    @property
    def state(self) -> dict[str, np.ndarray]:
        return {"state": self.first, "second_state": self.second}


def _distinct(count: int, *ids: np.ndarray) -> np.ndarray:
    """The ids below ``count`` that occur, once each and in order."""
    seen = np.zeros(count, dtype=bool)
    for some in ids:
        seen[some] = True
    return np.flatnonzero(seen)


def _places(ids: np.ndarray, ordered: np.ndarray) -> np.ndarray:
    """Where each id stands in ``ordered``; −1 where it does not."""
    places = np.minimum(np.searchsorted(ordered, ids), len(ordered) - 1)
    return np.where(ordered[places] == ids, places, -1)


def _even_groups(groups: np.ndarray, parts: int) -> np.ndarray:
    """Cut groups, which start at ``groups``, into parts of about as many rows."""
    goals = np.linspace(0, groups[-1], parts + 1)
    bounds = np.searchsorted(groups, goals)
    bounds[-1] = len(groups) - 1
    return bounds
