"""How far a computed score may be from the true one: rigorous bounds on rounding.

A sum of n products in any order, with or without fused steps, is within γₙ = nu/(1 − nu) times the
sum of their sizes (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1).  All
scores here are such sums, so it is enough to evaluate the model with every number and every sign
made positive, and to count the roundings on the way to one term.
"""

from dataclasses import dataclass

import numpy as np

from bilink.errors import ConfigError
from bilink.models.model import Model

_SLACK = 1.01  # for the rounding of the bound itself


@dataclass(frozen=True, eq=False)
class ErrorBound:
    """|computed − true| ≤ factor · ⟨queries[i], candidates[j]⟩ + floor for row i and entity j."""

    factor: float
    floor: float
    queries: np.ndarray  # (rows, w) not negative
    candidates: np.ndarray  # (N, w) not negative

    def largest(self) -> float:
        """A bound for all pairs at once."""
        return self.factor * _norm(self.queries) * _norm(self.candidates) + self.floor

    def of_pairs(self) -> np.ndarray:
        """A bound for each pair."""
        return self.factor * (self.queries @ self.candidates.T) + self.floor


def error_bound(model: Model, heads: np.ndarray, relation: int) -> ErrorBound:
    """The bound for scores of (head, relation, any tail) as ``model.scorer`` computes them.

    It is zero where all numbers are whole and so small that nothing is ever rounded.
    """
    queries, candidates, roundings = _absolute(model, heads, relation)
    precision = np.finfo(model.entities.dtype)
    unit = float(precision.eps) / 2
    sizes = ErrorBound(_SLACK, 0.0, queries, candidates)
    if _whole(model, relation) and sizes.largest() * unit < 0.5:
        return ErrorBound(0.0, 0.0, queries, candidates)
    n = roundings + 4  # what the caller does with a score and its bound is rounded too
    floor = n * float(precision.tiny)  # for products too small to be normal numbers
    return ErrorBound(_SLACK * n * unit / (1 - n * unit), floor, queries, candidates)


def _absolute(model: Model, heads: np.ndarray, relation: int) -> tuple[np.ndarray, np.ndarray, int]:
    """The model with all signs positive, as queries and candidates, and the roundings of a term."""
    entities = abs(model.entities).astype(np.float64)
    weights = abs(model.relations[relation]).astype(np.float64)
    rows, width = entities[heads], entities.shape[1]
    name = model.family.name
    if name == "rescal":
        return rows @ weights.reshape(width, width), entities, 2 * width
    if name == "distmult":
        return rows * weights, entities, width + 1
    if name in ("complex", "hole"):
        n = 0 if name == "complex" else 2 - width % 2
        return _products(rows, weights, n), entities, width + 2
    if name == "transe":
        middle = abs(np.round(model.entities.mean(axis=0))).astype(np.float64)
        moved, gone = entities + middle, rows + weights + middle
        ones = np.ones((len(moved), 1))
        queries = np.hstack([2 * gone, ones[: len(gone)], _squares(gone)])
        return queries, np.hstack([moved, _squares(moved), ones]), 2 * width + 8
    if name != "transe-l1":
        raise ConfigError(f"rounding errors of {model.family.title} are not bounded by the theory")
    ones = np.ones((len(entities), 1))  # the Manhattan distance: Σ|q| + Σ|c|
    total = (rows + weights).sum(axis=1, keepdims=True)
    candidates = np.hstack([ones, entities.sum(axis=1, keepdims=True)])
    return np.hstack([total, ones[: len(rows)]]), candidates, width + 2


def _products(rows: np.ndarray, weights: np.ndarray, n: int) -> np.ndarray:
    """|h||r| of n real coordinates, then the two sums that make up each complex product."""
    d = (rows.shape[1] - n) // 2
    real, imaginary = rows[:, n : n + d], rows[:, n + d :]
    w_real, w_imaginary = weights[n : n + d], weights[n + d :]
    return np.hstack(
        [
            rows[:, :n] * weights[:n],
            real * w_real + imaginary * w_imaginary,
            real * w_imaginary + imaginary * w_real,
        ]
    )


def _whole(model: Model, relation: int) -> bool:
    arrays = (model.entities, model.relations[relation])
    return all(np.array_equal(x, np.round(x)) for x in arrays)


def _squares(rows: np.ndarray) -> np.ndarray:
    return np.sum(rows**2, axis=1, keepdims=True)


def _norm(rows: np.ndarray) -> float:
    return float(np.sqrt(_squares(rows).max(initial=0)))
