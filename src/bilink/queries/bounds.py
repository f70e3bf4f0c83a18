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

from bilink._jit import kernel
from bilink.models.scorer import Scorer

STEP = 8  # coordinates from one level to the next; rests are known at each level
_SAMPLE = 2048  # queries and candidates that the coordinates are fitted to
_FLAT = 1e-6  # directions with a smaller share of the candidates' energy are not blown up
_LARGE = 1e15  # norms beyond which products may leave the range of float32
_TINY = 1e-18  # more than what is lost where squares fall below that range


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Rows in the new coordinates (float32), and the norms of their rests, rounded up."""

    rows: np.ndarray  # (n, width), width a multiple of STEP
    rests: np.ndarray  # (n, width / STEP + 1); rests[:, level] is left after level · STEP

    sums: np.ndarray  # (n,), Σ wₖ·|xₖ| with the norms of the other side's columns as weights

    @classmethod
    def of(cls, rows: np.ndarray, other_base: np.ndarray) -> "Coordinates":
        """Measure ``rows``."""
        n, width = rows.shape
        rests = np.empty((n, width // STEP + 1), dtype=np.float32)
        sums = np.empty(n, dtype=np.float32)
        _measure(rows, np.linalg.norm(other_base, axis=0), rests, sums)
        rests *= np.float32(1 + _relative_error(width))
        return cls(rows, rests, sums.astype(np.float64))


@dataclass(frozen=True, eq=False)
class Bounds:
    """Coordinates of both sides, and what rounding may add to the score of a query."""

    queries: Coordinates
    candidates: Coordinates
    slack: np.ndarray  # float64, one per query


class Frame:
    """What the bounds of all relations share: the directions of the candidates."""

    def __init__(self, scorer: Scorer):
        self._largest = float(_norms(scorer.candidates).max(initial=0))
        with np.errstate(over="ignore"):  # which ``bounds`` notices
            self._rows = scorer.candidates.astype(np.float32, copy=False)

    @cached_property
    def _root(self) -> tuple[np.ndarray, np.ndarray]:
        """R and its inverse, where RᵀR is the Gram matrix of the candidates."""
        values, vectors = np.linalg.eigh(_gram(self._rows))
        values = np.maximum(values, max(values[-1] * _FLAT, 1e-30))
        return (vectors * np.sqrt(values)).T, vectors / np.sqrt(values)

    def bounds(self, queries: np.ndarray, tails: np.ndarray) -> Bounds | None:
        """The bounds for these queries and candidates; None where numbers are too large."""
        if not max(self._largest, float(_norms(queries).max(initial=0))) < _LARGE:
            return None
        queries = queries.astype(np.float32, copy=False)
        with np.errstate(all="ignore"):
            a, b = self._bases(queries)
            one = Coordinates.of(queries @ a, b)
            other = Coordinates.of(self._rows[tails] @ b, a)
            slack = self._slack(queries, one, other, a, b)
        return Bounds(one, other, slack) if np.isfinite(slack).all() else None

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
        self,
        queries: np.ndarray,
        one: Coordinates,
        other: Coordinates,
        a: np.ndarray,
        b: np.ndarray,
    ) -> np.ndarray:
        """How far a sum in the new coordinates may be from ⟨q, c⟩, for any candidate.

        Three sources: A Bᵀ is not quite 1; each coordinate, a sum of n products, is within
        n·ε·‖q‖·‖column‖ of the true one; and the sum of products of coordinates is rounded too.
        """
        error = _relative_error(len(a))
        wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
        off = np.linalg.norm(wide_a @ wide_b.T - np.eye(len(a))) + 4 * error / len(a)
        norms = _norms(queries)
        sizes = one.rests[:, 0].astype(np.float64)
        largest = float(other.rests[:, 0].max(initial=0))
        sums = norms * other.sums.max(initial=0) + self._largest * one.sums + sizes * largest
        return norms * self._largest * off + error * sums + _TINY * (1 + sizes + largest)


@kernel
def _measure(rows, weights, rests, sums):
    """rests[i, l] = the norm of row i from l · STEP on; sums[i] = Σ wₖ·|xₖ|."""
    last = rests.shape[1] - 1
    for i in range(rows.shape[0]):
        rests[i, last] = 0
        sums[i] = 0
        squares = rows.dtype.type(0)
        for level in range(last - 1, -1, -1):
            for k in range(level * STEP, (level + 1) * STEP):
                x = rows[i, k]
                squares += x * x
                sums[i] += abs(x) * weights[k]
            rests[i, level] = np.sqrt(squares)


def _relative_error(n: int) -> float:
    """A bound, with room, on the relative rounding of a sum of ``n`` products in float32."""
    return (n + 8) * float(np.finfo(np.float32).eps)


def _gram(rows: np.ndarray) -> np.ndarray:
    some = rows[:: max(1, len(rows) // _SAMPLE)].astype(np.float64)
    return some.T @ some


def _norms(rows: np.ndarray) -> np.ndarray:
    return np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
