"""Readouts: one score out of the values of several forms over the same candidates.

    score of candidate c = readout(⟨q₁, c₁⟩, …, ⟨qₖ, cₖ⟩)

A query holds the rows of all forms and, behind them, constants of the readout.  Ranking takes one
matrix product per form, for tiles of candidates whose values stay in the cache; training compares
single rows by the model's own kernel functions, which need no lift.
"""

from collections.abc import Callable, Sequence
from functools import cache as remember
from typing import Any

import numpy as np

from bilink._jit import bind, named
from bilink.models.form import SQUARED_DISTANCE, Form, norms

_TILE_BYTES = 2**20  # of the values of a tile
_LEAST_TILE = 64  # candidates


class Readout(Form):
    """k forms and an element-wise function of their values.

    A kind of readout says which rows are multiplied (``products``), what becomes of the values
    (``read``), and how large the terms are that rounding acts on (``sizes``).  Queries are not
    lifted; candidates may be, by ``extra`` columns behind those of the entity.
    """

    name = "readout of several forms"
    is_product = False

    def __init__(
        self,
        exact_name: str,
        compare: Any,
        query_gradient: Any = None,
        entity_gradient: Any = None,
        query_width: Any = None,
    ):
        self.exact_name = exact_name  # of what is compiled with ``compare``
        self._kernels = {
            "compare": compare,
            "query_gradient": query_gradient,
            "entity_gradient": entity_gradient,
            "query_width": query_width,
        }

    @property
    def kernels(self) -> dict[str, Any]:
        """The kernel functions on single rows, and the width of a query for that of an entity."""
        return self._kernels

    # -- what a kind of readout defines ----------------------------------------------------------

    def products(
        self, queries: np.ndarray, candidates: np.ndarray
    ) -> Sequence[tuple[np.ndarray, np.ndarray]]:
        """The rows of each form, whose products are its values."""
        raise NotImplementedError

    def read(self, values: np.ndarray, queries: np.ndarray) -> np.ndarray:
        """The scores, of the values of form k for query i and candidate j in values[k, i, j].

        ``values`` may be overwritten.
        """
        raise NotImplementedError

    def sizes(self, queries: np.ndarray, norm: float) -> np.ndarray:
        """For each query a bound, for entities of such a norm, on what rounding acts on.

        Two equal scores come out no farther apart than the bound times ε for each number of a row
        that is multiplied, and for a few more.
        """
        raise NotImplementedError

    # -- what follows ----------------------------------------------------------------------------

    @property
    def exact(self) -> Any:
        """The kernel function that scores a query and a candidate in double precision."""
        return _exact(self.kernels["compare"], self.extra, self.exact_name)

    def largest_norm(self, candidates: np.ndarray) -> float:
        """The largest norm of an entity."""
        return super().largest_norm(self._entities(candidates))

    def scores(self, queries: np.ndarray, candidates: np.ndarray, out: np.ndarray) -> None:
        """out[i, j] = the score of candidate j for query i."""
        pairs = self.products(queries, candidates)
        row = len(pairs) * max(1, len(queries)) * out.itemsize
        size = min(max(_LEAST_TILE, _TILE_BYTES // row), max(1, len(candidates)))
        memory = np.empty(len(pairs) * len(queries) * size, dtype=out.dtype)
        for start in range(0, len(candidates), size):
            tile = slice(start, min(start + size, len(candidates)))
            shape = len(pairs), len(queries), tile.stop - start
            values = memory[: np.prod(shape)].reshape(shape)
            for value, (left, right) in zip(values, pairs, strict=True):
                np.matmul(left, right[tile].T, out=value)
            out[:, tile] = self.read(values, queries)

    def pair_scores(self, queries: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """The score of each query with the candidate in the same row."""
        out = np.empty(len(queries), dtype=queries.dtype)
        entities = np.ascontiguousarray(self._entities(candidates))  # one row or many: one kernel
        _pair_kernel(self.kernels["compare"], self.exact_name)(queries, entities, out)
        return out

    def largest_score(self, queries: np.ndarray, largest: float, width: int) -> float:
        """A bound on every |score|; infinite or NaN where a score may overflow."""
        with np.errstate(over="ignore", invalid="ignore"):
            return float(self.sizes(queries, largest).max(initial=0))

    def tolerances(self, queries: np.ndarray, largest: float, width: int) -> np.ndarray:
        """For each query, how far rounding may move two equal scores apart."""
        bounds = self.sizes(queries, largest)
        return ((width + 16) * np.finfo(queries.dtype).eps * bounds).astype(queries.dtype)

    def _entities(self, candidates: np.ndarray) -> np.ndarray:
        return candidates[:, : candidates.shape[1] - self.extra]


class MeanProbability(Readout):
    """The mean of 1 / (1 + exp(−(value + constant))): of log-odds, the mean of probabilities.

    ``columns`` are those of each member, of queries and of candidates alike; the constants stand
    behind them.  Scores are compared as they are.
    """

    name = "mean of probabilities"
    splits = False

    def __init__(self, columns: Sequence[slice]):
        super().__init__("form", None)
        self._columns = tuple(columns)

    @property
    def exact(self) -> Any:
        """Never asked for."""
        return Form().exact

    def products(
        self, queries: np.ndarray, candidates: np.ndarray
    ) -> Sequence[tuple[np.ndarray, np.ndarray]]:
        """The rows of each member."""
        return [(queries[:, part], candidates[:, part]) for part in self._columns]

    def read(self, values: np.ndarray, queries: np.ndarray) -> np.ndarray:
        """The mean over the members."""
        values += queries[:, self._columns[-1].stop :].T[:, :, None]
        np.negative(values, out=values)
        with np.errstate(over="ignore"):  # 1 / ∞ is the probability that is meant
            np.exp(values, out=values)
        values += 1
        return np.divide(1, values, out=values).mean(axis=0)

    def pair_scores(self, queries: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """The score of each query with the candidate in the same row."""
        pairs = self.products(queries, candidates)
        values = np.stack([np.einsum("ij,ij->i", *pair) for pair in pairs])
        return self.read(values[:, :, None], queries)[:, 0]

    def sizes(self, queries: np.ndarray, norm: float) -> np.ndarray:
        """The largest log-odds."""
        return norms(queries) * norm

    def tolerances(self, queries: np.ndarray, largest: float, width: int) -> np.ndarray:
        """Nothing."""
        return np.zeros(len(queries), dtype=queries.dtype)


def lifted(queries: np.ndarray) -> np.ndarray:
    """(2q, −1, −‖q‖²): its product with (e, ‖e‖², 1) is −‖q − e‖²."""
    return SQUARED_DISTANCE.queries(queries)


compare: Any = None  # the placeholder that ``bind`` replaces by a model's kernel function


def _score_pairs(queries, entities, out):
    """out[i] = the score of query i and entity i."""
    for i in range(out.shape[0]):
        out[i] = compare(queries[i], entities[i])


@remember
def _pair_kernel(function: Any, name: str) -> Callable[..., None]:
    kernel: Callable[..., None] = bind(_score_pairs, {"compare": function}, name)
    return kernel


@remember
def _exact(function: Any, extra: int, name: str) -> Any:
    """``function`` in double precision, on candidates with columns behind the entity's."""

    @named(name)
    def exact(query, candidate):
        entity = candidate[: candidate.shape[0] - extra]
        return function(query.astype(np.float64), entity.astype(np.float64))

    return exact
