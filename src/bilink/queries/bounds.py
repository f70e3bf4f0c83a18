"""Bounds on many scores from few numbers each: coordinates in which the first ones say most.

⟨q, c⟩ = ⟨q A, c B⟩ for any A, B with A Bᵀ = 1.  They are chosen such that the coordinates of
queries and of candidates have the same, falling sizes: the singular values of the matrix of all
scores.  Of what is left after the first p of them, Cauchy–Schwarz keeps the norms:

⟨q, c⟩ ≤ ⟨first p of q A, first p of c B⟩ + ‖rest of q A‖ · ‖rest of c B‖

No other coordinates make the product of the rests smaller on average.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bilink.models.scorer import Scorer

STEP = 8  # coordinates from one level to the next; rests are known at each level
_SAMPLE = 4096  # queries and candidates that the coordinates are fitted to
_FLAT = 1e-6  # directions with a smaller share of the candidates' energy are not blown up


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Rows in the new coordinates (float32), and the norms of their rests, rounded up."""

    rows: np.ndarray  # (n, width), width a multiple of STEP
    rests: np.ndarray  # (n, width / STEP + 1); rests[:, level] is left after level · STEP

    @classmethod
    def of(cls, rows: np.ndarray) -> "Coordinates":
        """Measure the rests of ``rows``."""
        n, width = rows.shape
        squares = np.zeros((n, width // STEP + 1), dtype=np.float32)
        for level in range(width // STEP - 1, -1, -1):
            part = rows[:, level * STEP : (level + 1) * STEP]
            squares[:, level] = squares[:, level + 1] + np.einsum("ij,ij->i", part, part)
        return cls(rows, np.sqrt(squares) * np.float32(1 + _relative_error(width)))


@dataclass(frozen=True, eq=False)
class Bounds:
    """Coordinates of both sides, and what rounding may add to the score of a query."""

    queries: Coordinates
    candidates: Coordinates
    slack: np.ndarray  # float64, one per query


class Frame:
    """What the bounds of all relations share: the directions of the candidates."""

    def __init__(self, scorer: Scorer):
        self._rows = scorer.candidates.astype(np.float32, copy=False)

    @cached_property
    def _root(self) -> tuple[np.ndarray, np.ndarray]:
        """R and its inverse, where RᵀR is the Gram matrix of the candidates."""
        values, vectors = np.linalg.eigh(_gram(self._rows))
        values = np.maximum(values, max(values[-1] * _FLAT, 1e-30))
        return (vectors * np.sqrt(values)).T, vectors / np.sqrt(values)

    @cached_property
    def _largest(self) -> float:
        return float(_norms(self._rows).max(initial=0))

    def bounds(self, queries: np.ndarray, tails: np.ndarray) -> Bounds | None:
        """The bounds for these queries and candidates; None where numbers are too large."""
        queries = queries.astype(np.float32, copy=False)
        with np.errstate(all="ignore"):
            a, b = self._bases(queries)
            one, other = queries @ a, self._rows[tails] @ b
            slack = self._slack(queries, one, other, a, b)
            found = Bounds(Coordinates.of(one), Coordinates.of(other), slack)
        return found if np.isfinite(slack).all() else None

    def _bases(self, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A and B, with columns of zeros up to a multiple of STEP."""
        root, inverse = self._root
        values, vectors = np.linalg.eigh(root @ _gram(queries) @ root.T)
        values, vectors = values[::-1], vectors[:, ::-1]
        sizes = np.maximum(values, max(values[0] * _FLAT**2, 1e-30)) ** 0.25
        more = ((0, 0), (0, -len(values) % STEP))
        a, b = root.T @ vectors / sizes, inverse @ vectors * sizes
        return np.pad(a, more).astype(np.float32), np.pad(b, more).astype(np.float32)

    def _slack(
        self, queries: np.ndarray, one: np.ndarray, other: np.ndarray, a: np.ndarray, b: np.ndarray
    ) -> np.ndarray:
        """How far a sum in the new coordinates may be from ⟨q, c⟩, for any candidate.

        Three sources: A Bᵀ is not quite 1; each coordinate, a sum of n products, is within
        n·ε·‖q‖·‖column‖ of the true one; and the sum of products of coordinates is rounded too.
        """
        error = _relative_error(len(a))
        wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
        off = np.linalg.norm(wide_a @ wide_b.T - np.eye(len(a))) + 4 * error / len(a)
        of_candidates = float((np.abs(other) @ np.linalg.norm(a, axis=0)).max(initial=0))
        of_queries = np.abs(one) @ np.linalg.norm(b, axis=0)
        norms = _norms(queries)
        sums = norms * of_candidates + self._largest * of_queries
        sums += _norms(one) * float(_norms(other).max(initial=0))
        return norms * self._largest * off + error * sums


def _relative_error(n: int) -> float:
    """A bound, with room, on the relative rounding of a sum of ``n`` products in float32."""
    return (n + 8) * float(np.finfo(np.float32).eps)


def _gram(rows: np.ndarray) -> np.ndarray:
    some = rows[:: max(1, len(rows) // _SAMPLE)].astype(np.float64)
    return some.T @ some


def _norms(rows: np.ndarray) -> np.ndarray:
    return np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
