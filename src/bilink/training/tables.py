"""The parameters as the batch engine sees them: tables of rows that slopes move.

The table of entities is also what queries are compared with.  It is the large part of the work, so
it alone may live elsewhere: ``torch_table`` does the same on torch tensors.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from bilink.training import batch_kernels as kernels
from bilink.training import softmax_kernels as softmax
from bilink.training.config import PAYS, TrainingConfig
from bilink.training.crew import Crew
from bilink.training.products import InnerProduct
from bilink.training.questions import Batch

SCORES = 256 * 2**20  # bytes of scores that are held at once
_PIECE = 256  # rows that are worked on at a time where they pass through several arrays
_OPTIMIZERS = {
    "adagrad": kernels.ADAGRAD,
    "sgd": kernels.SGD,
    "row-adagrad": kernels.ROW_ADAGRAD,
    "adam": kernels.ADAM,
}


class Stateful:
    """An array of parameters, and the optimizer's state for it."""

    def __init__(self, params: np.ndarray, config: TrainingConfig):
        self.params = params
        widths = {"adagrad": (None, 0), "sgd": (0, 0), "row-adagrad": (1, 0), "adam": (None, None)}
        self.first, self.second = (
            np.zeros((len(params), params.shape[1] if width is None else width), dtype=np.float32)
            for width in widths[config.optimizer]
        )

    @property
    def state(self) -> dict[str, np.ndarray]:
        """The optimizer's arrays, by name."""
        return {"state": self.first, "second_state": self.second}


class Table(Stateful):
    """Parameters that are moved in NumPy arrays."""

    def __init__(self, params: np.ndarray, config: TrainingConfig, crew: Crew):
        super().__init__(params, config)
        self._crew = crew
        self._optimizer = _OPTIMIZERS[config.optimizer]

    def move(
        self,
        slopes: np.ndarray,
        rate: np.float32,
        step: int,
        rows: np.ndarray | None = None,
        places: np.ndarray | None = None,
    ) -> None:
        """Take the optimizer's step on ``rows``, or on all, by the slopes at ``places``."""
        rows = np.arange(len(slopes)) if rows is None else rows
        self._crew.spread(
            kernels.move_rows,
            len(rows),
            self.params,
            self.first,
            self.second,
            slopes,
            rows,
            rows if places is None else places,
            rate,
            self._optimizer,
            step,
        )


class EntityTable(Table):
    """The entities: a batch reads rows, is compared with candidates, adds slopes, moves.

    Slopes are gathered from one comparison to the next ``step``.
    """

    def __init__(
        self, params: np.ndarray, config: TrainingConfig, crew: Crew, product: InnerProduct
    ):
        super().__init__(params, config, crew)
        self._product = product
        self._smoothing, self._root = config.label_smoothing, config.distance == "plain"
        self._grain = config.grain
        self._wide = (len(params), params.shape[1] + product.extra)
        self._lifted = np.empty(self._wide if product.extra else 0, dtype=np.float32)
        self._slopes = np.empty((0, 0), dtype=np.float32)  # of this batch, by entity
        self._touched: np.ndarray | None = None  # which entities have slopes; None for all
        self._all_slopes = np.empty((0, 0), dtype=np.float32)
        self._few_slopes = np.empty((0, 0), dtype=np.float32)  # zero but within a batch
        self._kept_slopes = np.empty((0, 0), dtype=np.float32)  # the same, in longer rows
        self._room = np.empty(0, dtype=np.float32)

    @contextmanager
    def epoch(self) -> Iterator[None]:
        """The time in which the parameters are this table's alone."""
        yield

    def rows(self, ids: np.ndarray) -> np.ndarray:
        """A copy of some rows."""
        return self.params[ids]

    def compare_all(self, left: np.ndarray, batch: Batch) -> np.ndarray:
        """Slopes in the left side, where all entities are candidates; notes losses in ``batch``."""
        if self._grain:
            return self._compare_rounded(left, batch)
        asked = batch.questions
        right = self._product.candidates(self.params, self._lifted)
        left_slopes = np.empty_like(left)
        if self._all_slopes.shape != self._wide:
            self._all_slopes = np.empty(self._wide, dtype=np.float32)
        for rows, scores in self._blocks(left, right):
            self._crew.spread(
                softmax.softmax_slopes,
                len(scores),
                scores,
                asked.starts[rows.start :],
                asked.answers,
                batch.weights[rows],
                self._smoothing,
                self._root,
                batch.losses[rows],
                batch.beaten[rows],
            )
            np.matmul(scores, right, out=left_slopes[rows])
            if rows.start == 0:
                np.matmul(scores.T, left[rows], out=self._all_slopes)
            else:
                self._all_slopes += scores.T @ left[rows]
        self._touched = None
        self._slopes = self._product.pull_candidates(self.params, self._all_slopes)
        return left_slopes

    def _compare_rounded(self, left: np.ndarray, batch: Batch) -> np.ndarray:
        """The same, with slopes that are mostly nothing, so that one product is left of three."""
        asked = batch.questions
        right = self._product.candidates(self.params, self._lifted)
        kept = Kept.room(len(left), len(right), self._grain)
        answer_slopes = np.empty(len(asked.answers), dtype=np.float32)
        for rows, scores in self._blocks(left, right):
            self._crew.spread(
                softmax.rounded_slopes,
                len(scores),
                scores,
                asked.starts[rows.start :],
                asked.answers,
                batch.weights[rows],
                self._grain,
                _other_seed(batch) + np.uint64(rows.start),
                self._root,
                *(array[rows] for array in kept),
                answer_slopes,
                batch.losses[rows],
                batch.beaten[rows],
            )
        left_slopes = np.empty_like(left)
        self._crew.spread(softmax.pull_kept_queries, len(left), right, *kept, left_slopes)
        self._begin_few()
        self._add_kept(left, kept)
        own_rows = self.params[asked.answers]
        own = self._product.candidates(own_rows)
        self._add_answers(left, batch, own_rows, own, answer_slopes, left_slopes)
        return left_slopes

    def compare_some(self, left: np.ndarray, batch: Batch, negatives: np.ndarray) -> np.ndarray:
        """The same, where the candidates are the answers and ``negatives``, in ascending order."""
        asked = batch.questions
        rivals, own_rows = self.params[negatives], self.params[asked.answers]
        right, own = self._product.candidates(rivals), self._product.candidates(own_rows)
        scores = self._scores(len(left), len(right))
        np.matmul(left, right.T, out=scores)
        grain = self._grain if self._grain * len(right) >= PAYS else 0.0
        kept = Kept.room(len(left), len(right), grain)
        answer_slopes = np.empty(len(own), dtype=np.float32)
        self._crew.spread(
            softmax.sampled_slopes,
            len(left),
            scores,
            left,
            own,
            asked.starts,
            places_in(negatives, asked.answers),
            batch.weights,
            len(self.params),
            grain,
            _other_seed(batch),
            self._root,
            *kept,
            answer_slopes,
            batch.losses,
            batch.beaten,
        )
        if grain:
            left_slopes, right_slopes = np.empty_like(left), np.zeros_like(right)
            self._crew.spread(softmax.pull_kept_queries, len(left), right, *kept, left_slopes)
            self._crew.spread(softmax.pull_kept_candidates, len(right), left, *kept, right_slopes)
        else:
            left_slopes, right_slopes = scores @ right, scores.T @ left
        self._begin_few()
        self.add(self._product.pull_candidates(rivals, right_slopes), negatives)
        self._add_answers(left, batch, own_rows, own, answer_slopes, left_slopes)
        return left_slopes

    def _begin_few(self) -> None:
        """From here to the next step, few entities have slopes."""
        if self._few_slopes.shape != self.params.shape:
            self._few_slopes = np.zeros_like(self.params)
        self._touched = np.zeros(len(self.params), dtype=bool)
        self._slopes = self._few_slopes

    def _add_answers(
        self,
        left: np.ndarray,
        batch: Batch,
        own_rows: np.ndarray,
        own: np.ndarray,
        answer_slopes: np.ndarray,
        left_slopes: np.ndarray,
    ) -> None:
        """Add what the answers' slopes make of the left side and of the answers."""
        own_slopes = np.empty_like(own)
        self._crew.spread(
            softmax.pull_answers,
            len(left),
            left,
            own,
            batch.questions.starts,
            answer_slopes,
            left_slopes,
            own_slopes,
        )
        answers = batch.questions.answers
        self.add(self._product.pull_candidates(own_rows, own_slopes), answers)

    def _add_kept(self, left: np.ndarray, kept: "Kept") -> None:
        """Add what the slopes that were not rounded to nothing make of their candidates."""
        into = self._few_slopes
        if self._product.extra:
            if self._kept_slopes.shape != self._wide:
                self._kept_slopes = np.zeros(self._wide, dtype=np.float32)
            into = self._kept_slopes
        self._crew.spread(softmax.pull_kept_candidates, len(into), left, *kept, into)
        touched = np.zeros(len(into), dtype=bool)
        touched[kept.columns[np.arange(kept.columns.shape[1]) < kept.counts[:, None]]] = True
        self._touched |= touched
        if self._product.extra:
            rows = np.flatnonzero(touched)
            self._crew.spread(self._pull_kept, len(rows), rows)

    def _pull_kept(self, first: int, last: int, rows: np.ndarray) -> None:
        """Move slopes from longer rows to the entities', in pieces that stay in the cache."""
        for start in range(first, last, _PIECE):
            some = rows[start : min(start + _PIECE, last)]
            slopes = self._product.pull_candidates(self.params[some], self._kept_slopes[some])
            self._few_slopes[some] += slopes
            self._kept_slopes[some] = 0

    def add(self, slopes: np.ndarray, ids: np.ndarray) -> None:
        """Add slopes in some rows; a row may come more than once."""
        kernels.add_rows(slopes, ids, self._slopes)
        if self._touched is not None:
            self._touched[ids] = True

    def step(self, rate: np.float32, number: int) -> None:
        """Move by the slopes of the batch."""
        if self._touched is None:
            self.move(self._slopes, rate, number)
            return
        rows = np.flatnonzero(self._touched)
        self.move(self._slopes, rate, number, rows)
        self._slopes[rows] = 0

    def _blocks(self, left: np.ndarray, right: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Rows of the left side that fit into memory, and their scores, in the same room."""
        block = max(1, SCORES // (4 * len(right)))
        for start in range(0, len(left), block):
            rows = slice(start, min(start + block, len(left)))
            scores = self._scores(rows.stop - start, len(right))
            np.matmul(left[rows], right.T, out=scores)
            yield rows, scores

    def _scores(self, rows: int, columns: int) -> np.ndarray:
        """Room for scores; new memory in each batch would cost as much as a pass over it."""
        if self._room.size < rows * columns:
            self._room = np.empty(rows * columns, dtype=np.float32)
        return self._room[: rows * columns].reshape(rows, columns)


class Kept(NamedTuple):
    """Of a matrix of slopes, those of each row that were not rounded to nothing."""

    columns: np.ndarray  # (rows, most), int32, ascending
    values: np.ndarray  # (rows, most), float32
    counts: np.ndarray  # (rows,): how many there are

    @classmethod
    def room(cls, rows: int, columns: int, grain: float) -> "Kept":
        """Room for as many as there may be; none without a grain."""
        most = int(min(columns, 2 + 1 / grain)) if grain else 0
        shape = rows, most
        return cls(np.empty(shape, np.int32), np.empty(shape, np.float32), np.empty(rows, np.int64))


def _other_seed(batch: Batch) -> np.uint64:
    """A seed for rounding, not that of dropout."""
    return ~batch.seed


def places_in(ordered: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Where each id stands in ``ordered``; −1 where it does not."""
    places = np.minimum(np.searchsorted(ordered, ids), len(ordered) - 1)
    return np.where(ordered[places] == ids, places, -1)
