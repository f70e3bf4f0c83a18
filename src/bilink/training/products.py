"""How queries meet candidates in a matrix product, and how slopes come back out of it.

A comparison that is an inner product takes both as they are.  The squared distance is one of
longer rows: −‖q − e‖² = ⟨(2q, −1, −‖q‖²), (e, ‖e‖², 1)⟩.  Queries are NumPy arrays; candidates may
be torch tensors, for which ``out`` is given.
"""

import numpy as np

from bilink.errors import ConfigError
from bilink.models.inner import DOT, SQUARED_DISTANCE, Comparison


class InnerProduct:
    """⟨q, e⟩."""

    extra = 0  # numbers that a row has more in the product

    def queries(self, queries: np.ndarray) -> np.ndarray:
        """The left side of the product."""
        return queries

    def candidates(self, entities: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """The right side of the product."""
        return entities

    def pull_queries(self, queries: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """Slopes in the left side → slopes in the queries."""
        return slopes

    def pull_candidates(self, entities: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """Slopes in the right side → slopes in the entities."""
        return slopes


class SquaredDistance(InnerProduct):
    """−‖q − e‖²."""

    extra = 2

    def queries(self, queries: np.ndarray) -> np.ndarray:
        """(2q, −1, −‖q‖²)."""
        rows = np.empty((len(queries), queries.shape[1] + 2), dtype=queries.dtype)
        np.multiply(queries, 2, out=rows[:, :-2])
        rows[:, -2] = -1
        rows[:, -1] = -_squared_norms(queries)
        return rows

    def candidates(self, entities: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """(e, ‖e‖², 1)."""
        if out is None:
            out = np.empty((len(entities), entities.shape[1] + 2), dtype=entities.dtype)
        out[:, :-2] = entities
        out[:, -2] = _squared_norms(entities)
        out[:, -1] = 1
        return out

    def pull_queries(self, queries: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """2 (slope of 2q − slope of −‖q‖² · q)."""
        return 2 * (slopes[:, :-2] - slopes[:, -1:] * queries)

    def pull_candidates(self, entities: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """Slope of e + 2 · slope of ‖e‖² · e."""
        return slopes[:, :-2] + 2 * slopes[:, -2:-1] * entities


def _squared_norms(rows: np.ndarray) -> np.ndarray:
    """‖row‖² of each row, without a copy where NumPy can do so."""
    if isinstance(rows, np.ndarray):
        return np.einsum("ij,ij->i", rows, rows)
    return (rows * rows).sum(1)


def product_of(comparison: Comparison) -> InnerProduct:
    """The matrix product behind a comparison."""
    kinds = {DOT: InnerProduct, SQUARED_DISTANCE: SquaredDistance}
    if comparison not in kinds:
        raise ConfigError(
            f"the {comparison.name} distance is no matrix product, so softmax training is not "
            "possible; use loss=margin, or the model transe"
        )
    return kinds[comparison]()
