"""The table of entities on torch tensors, on a CPU or a GPU; see ``tables.EntityTable``.

Between epochs the parameters and the optimizer's state are in the NumPy arrays, where validation
and checkpoints find them.  On a CPU the tensors are those same arrays.  CUDA was never tried: the
code says nothing of it but the device's name.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from bilink._extras import needs
from bilink.errors import ConfigError
from bilink.training.batch_kernels import ADAM_EPSILON, ADAM_MEAN, ADAM_SQUARE, EPSILON
from bilink.training.config import TrainingConfig
from bilink.training.crew import Crew
from bilink.training.products import InnerProduct
from bilink.training.questions import Batch
from bilink.training.softmax_kernels import NOWHERE
from bilink.training.tables import SCORES, Stateful, places_in

with needs("torch", extra="torch", purpose="training on a device other than numpy"):
    import torch


class TorchEntityTable(Stateful):
    """The entities: a batch reads rows, is compared with candidates, adds slopes, moves."""

    def __init__(
        self, params: np.ndarray, config: TrainingConfig, crew: Crew, product: InnerProduct
    ):
        super().__init__(params, config)
        self._config, self._product, self._crew = config, product, crew
        self._root = config.distance == "plain"
        self._slopes: Any = None  # of this batch, by entity
        self._few_slopes: Any = None  # zero but within a batch
        self._touched: Any = None  # which entities have slopes; None for all
        self._device = find_device(config.device)

    @contextmanager
    def epoch(self) -> Iterator[None]:
        """The time in which the parameters are on the device."""
        arrays = (self.params, self.first, self.second)
        tensors = [torch.from_numpy(array).to(self._device) for array in arrays]
        self._params, self._first, self._second = tensors
        self._few_slopes = None
        threads = torch.get_num_threads()
        torch.set_num_threads(self._crew.threads)
        try:
            with torch.no_grad():
                yield
        finally:
            torch.set_num_threads(threads)
            for array, tensor in zip(arrays, tensors, strict=True):
                torch.from_numpy(array).copy_(tensor)

    def rows(self, ids: np.ndarray) -> np.ndarray:
        """A copy of some rows."""
        return self._params[self._to(ids)].cpu().numpy()

    def compare_all(self, left: np.ndarray, batch: Batch) -> np.ndarray:
        """Slopes in the left side, where all entities are candidates; notes losses in ``batch``."""
        asked, right = batch.questions, self._lift(self._params)
        queries, answers = self._to(left), self._to(asked.answers)
        weights, starts = self._to(batch.weights), self._to(asked.starts)
        left_slopes, right_slopes = torch.empty_like(queries), torch.zeros_like(right)
        block = max(1, SCORES // (4 * len(right)))
        for start in range(0, len(left), block):
            rows = slice(start, min(start + block, len(left)))
            ends = starts[start : rows.stop + 1]
            slopes, losses, beaten = _softmax_slopes(
                queries[rows] @ right.T,
                ends - ends[0],
                answers[ends[0] : ends[-1]],
                weights[rows],
                self._config.label_smoothing,
                self._root,
            )
            left_slopes[rows] = slopes @ right
            right_slopes += slopes.T @ queries[rows]
            batch.losses[rows], batch.beaten[rows] = losses.cpu(), beaten.cpu()
        self._slopes = self._product.pull_candidates(self._params, right_slopes)
        self._touched = None
        return left_slopes.cpu().numpy()

    def compare_some(self, left: np.ndarray, batch: Batch, negatives: np.ndarray) -> np.ndarray:
        """The same, where the candidates are the answers and ``negatives``, in ascending order."""
        asked = batch.questions
        rivals = self._params[self._to(negatives)]
        own_rows = self._params[self._to(asked.answers)]
        right, own, queries = self._lift(rivals), self._lift(own_rows), self._to(left)
        rows = _rows_of(self._to(asked.starts))
        slopes, answer_slopes, losses, beaten = _sampled_slopes(
            queries @ right.T,
            (queries[rows] * own).sum(1),
            rows,
            self._to(places_in(negatives, asked.answers)),
            self._to(batch.weights),
            len(self._params),
            self._root,
        )
        batch.losses[:], batch.beaten[:] = losses.cpu(), beaten.cpu()
        if self._few_slopes is None:
            self._few_slopes = torch.zeros_like(self._params)
        self._slopes = self._few_slopes
        self._touched = torch.zeros(len(self._params), dtype=torch.bool, device=self._device)
        self._add(self._product.pull_candidates(rivals, slopes.T @ queries), self._to(negatives))
        column = answer_slopes[:, None]
        own_slopes = self._product.pull_candidates(own_rows, column * queries[rows])
        self._add(own_slopes, self._to(asked.answers))
        return (slopes @ right).index_add_(0, rows, column * own).cpu().numpy()

    def add(self, slopes: np.ndarray, ids: np.ndarray) -> None:
        """Add slopes in some rows; a row may come more than once."""
        self._add(self._to(slopes), self._to(ids))

    def step(self, rate: np.float32, number: int) -> None:
        """Move by the slopes of the batch."""
        rows: Any = slice(None) if self._touched is None else self._touched.nonzero()[:, 0]
        slopes, first, second = self._slopes[rows], self._first[rows], self._second[rows]
        size = float(rate)
        match self._config.optimizer:
            case "adagrad":
                first = first + slopes * slopes
                change = slopes / (first + EPSILON).sqrt()
            case "row-adagrad":
                first = first + (slopes * slopes).mean(1, keepdim=True)
                change = slopes / (first + EPSILON).sqrt()
            case "adam":
                first = ADAM_MEAN * first + (1 - ADAM_MEAN) * slopes
                second = ADAM_SQUARE * second + (1 - ADAM_SQUARE) * slopes * slopes
                size *= np.sqrt(1 - ADAM_SQUARE**number) / (1 - ADAM_MEAN**number)
                change = first / (second.sqrt() + ADAM_EPSILON)
            case _:
                change = slopes
        self._first[rows], self._second[rows] = first, second
        self._params[rows] -= size * change
        if self._touched is not None:
            self._slopes[rows] = 0

    def _to(self, array: np.ndarray) -> Any:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._device)

    def _lift(self, rows: Any) -> Any:
        if not self._product.extra:
            return rows
        wide = rows.new_empty(len(rows), rows.shape[1] + self._product.extra)
        return self._product.candidates(rows, wide)

    def _add(self, slopes: Any, ids: Any) -> None:
        self._slopes.index_add_(0, ids.long(), slopes)
        if self._touched is not None:
            self._touched[ids] = True


def find_device(name: str) -> Any:
    """A device that works."""
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except Exception as error:  # whatever a missing driver raises
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ConfigError(
            f"torch has no device {name!r} here ({reason}); set device=numpy to train without it"
        ) from None
    return device


def _to_distances(scores: Any) -> tuple[Any, Any]:
    """Negative squared distances → negative distances, and their slopes in those."""
    distances = (-scores).clamp_min(float(NOWHERE)).sqrt()
    return -distances, 0.5 / distances


def _softmax_slopes(
    scores: Any, starts: Any, answers: Any, weights: Any, smoothing: float, root: bool
) -> tuple[Any, Any, Any]:
    """Slopes of weighted cross-entropies, losses, shares of answers that are not the best."""
    if root:
        scores, factors = _to_distances(scores)
    counts = starts.diff()
    rows, answers = _rows_of(starts), answers.long()
    own, share = scores[rows, answers], (1 - smoothing) / counts
    logs, nothing = scores.logsumexp(1), torch.zeros_like(weights)
    goals = nothing.index_add(0, rows, own * share[rows]) + smoothing * scores.mean(1)
    worse = (own < scores.amax(1)[rows]).to(scores.dtype)
    slopes = scores.sub_(logs[:, None]).exp_().mul_(weights[:, None])
    slopes -= weights[:, None] * (smoothing / slopes.shape[1])
    slopes.index_put_((rows, answers), -(weights * share)[rows], accumulate=True)
    if root:
        slopes *= factors
    return slopes, logs - goals, nothing.index_add(0, rows, worse) / counts


def _sampled_slopes(
    scores: Any, own: Any, rows: Any, hits: Any, weights: Any, count: int, root: bool
) -> tuple[Any, Any, Any, Any]:
    """Slopes of the negatives and of the answers, losses, shares of answers that are beaten.

    ``own`` are the answers' scores, ``rows`` whose answers they are, ``hits`` which negatives.
    """
    if root:
        scores, factors = _to_distances(scores)
        own, own_factors = _to_distances(own)
    hit, nothing = hits >= 0, torch.zeros_like(weights)
    counts = nothing.index_add(0, rows, torch.ones_like(own))
    hit_counts = nothing.index_add(0, rows, hit.to(own.dtype))
    scores[rows[hit], hits[hit]] = -torch.inf
    best = scores.amax(1)
    top = best.scatter_reduce(0, rows, own, "amax")
    scale = (count - counts) / (scores.shape[1] - hit_counts).clamp_min(1)
    odds, own_odds = scores.sub_(top[:, None]).exp_(), (own - top[rows]).exp()
    total = nothing.index_add(0, rows, own_odds) + scale * odds.sum(1)
    slopes = odds.mul_((weights * scale / total)[:, None])
    own_slopes = weights[rows] * (own_odds / total[rows] - 1 / counts[rows])
    if root:
        slopes *= factors
        own_slopes *= own_factors
    losses = total.log() + top - nothing.index_add(0, rows, own) / counts
    beaten = nothing.index_add(0, rows, (best[rows] > own).to(own.dtype)) / counts
    return slopes, own_slopes, losses, beaten


def _rows_of(starts: Any) -> Any:
    """Whose answer each is, where those of row i stand from starts[i] on."""
    return torch.arange(len(starts) - 1, device=starts.device).repeat_interleave(starts.diff())
