"""Blocks on a sphere: factors of a relation from factors of its connected blocks.

Each block has its own point v of the unit sphere; what it needs to tell its own facts happens in a
small region around v, in the directions tangent to the sphere.  So any number of blocks takes as
many dimensions as the worst of them: one more than its products.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bilink.theory.rounding.boolean import Block
from bilink.theory.rounding.hinge import LocalFactors

_ROOM = 0.2  # of the distance to the next block, for the intervals of a block
_WIDEST = 0.45  # of the circle, for a single block: its widest interval must be below a half turn


@dataclass(frozen=True, eq=False)
class Intervals:
    """A block whose rows are single runs of its columns; or its columns of its rows, transposed.

    Point i stands at place i; interval k covers the places first[k] to last[k].
    """

    transposed: bool
    points: np.ndarray  # numbers of the columns, in order; of the rows if transposed
    intervals: np.ndarray  # numbers of the rows; of the columns if transposed
    first: np.ndarray
    last: np.ndarray


@dataclass(frozen=True, eq=False)
class Solved:
    """A block with the factors that were found for it."""

    block: Block
    factors: LocalFactors


Part = Intervals | Solved


def sphere_factors(
    parts: Sequence[Part], shape: tuple[int, int], rank: int
) -> tuple[np.ndarray, np.ndarray]:
    """Left and right factors of all distinct rows and columns, for the threshold ½."""
    left, right = np.zeros((shape[0], rank)), np.zeros((shape[1], rank))
    centres, room, nearest = _places(parts, rank)
    k = _stiffness([part for part in parts if isinstance(part, Solved)], nearest)
    for part, centre, extent in zip(parts, centres, room, strict=True):
        tangents = _tangents(centre)
        if isinstance(part, Intervals):
            points, caps = _arc(part, centre, tangents[0], extent)
            ends = (right, left) if not part.transposed else (left, right)
            ends[0][part.points], ends[1][part.intervals] = points, caps
        else:
            found, basis = part.factors, tangents[: part.factors.left.shape[1]]
            left[part.block.row_ids] = np.outer(1 + found.a / k, centre) + (
                found.left @ basis
            ) / np.sqrt(k)
            right[part.block.column_ids] = np.outer(1 + found.b / k, centre) + (
                found.right @ basis
            ) / np.sqrt(k)
    return left / 2, right


def _places(parts: Sequence[Part], rank: int) -> tuple[np.ndarray, np.ndarray, float]:
    """A point of the sphere for each block, half its extent in radians, the least distance."""
    n = len(parts)
    if rank == 2:
        sizes = np.array([_size(part) for part in parts], dtype=float)
        shares = np.minimum(sizes / sizes.sum(), _WIDEST)
        ends = np.cumsum(shares)
        angles = 2 * np.pi * (ends - shares / 2)
        nearest = float(2 * np.pi * shares.min()) if n > 1 else np.pi
        return np.stack([np.cos(angles), np.sin(angles)], axis=1), np.pi * shares, nearest
    # A spiral of equal areas around the sphere (the Fibonacci lattice), in the first three axes.
    z = 1 - (2 * np.arange(n) + 1) / n
    turn = np.pi * (1 + np.sqrt(5)) * np.arange(n)
    flat = np.sqrt(1 - z * z)
    centres = np.zeros((n, rank))
    centres[:, :3] = np.stack([flat * np.cos(turn), flat * np.sin(turn), z], axis=1)
    nearest = min(np.pi / 2, 3.0 / np.sqrt(n))
    return centres, np.full(n, _ROOM * nearest), nearest


def _size(part: Part) -> int:
    return len(part.points) + 1 if isinstance(part, Intervals) else sum(part.block.shape)


def _stiffness(parts: Sequence[Solved], nearest: float) -> float:
    """K, large enough for what is left out: aᵢ bⱼ / K, and the scores between two blocks."""
    if not parts:
        return 1.0
    a = max(float(np.abs(part.factors.a).max()) for part in parts)
    b = max(float(np.abs(part.factors.b).max()) for part in parts)
    left = max(float(np.sqrt((part.factors.left**2).sum(axis=1).max())) for part in parts)
    right = max(float(np.sqrt((part.factors.right**2).sum(axis=1).max())) for part in parts)
    own = max(float(np.abs(part.factors.a).max() * np.abs(part.factors.b).max()) for part in parts)
    apart = 1 - np.cos(nearest)
    # K(1 − cos) must exceed a + b + ⟨L, Q⟩ and, between tangents and centres, √K (|L| + |Q|) sin.
    return max(4 * own, 2 * (a + b + left * right) / apart, 16 * ((left + right) / nearest) ** 2)


def _tangents(centre: np.ndarray) -> np.ndarray:
    """An orthonormal basis of the directions at right angles to ``centre``."""
    basis, _ = np.linalg.qr(np.column_stack([centre, np.eye(len(centre))]))
    return basis[:, 1:].T


def _arc(
    part: Intervals, centre: np.ndarray, tangent: np.ndarray, extent: float
) -> tuple[np.ndarray, np.ndarray]:
    """Points along a great circle, and caps c / cos w around them: ⟨c, x⟩ > cos w inside."""
    cell = 2 * extent / (len(part.points) + 1)
    angles = cell * (np.arange(len(part.points)) - (len(part.points) - 1) / 2)

    def turned(angle: np.ndarray) -> np.ndarray:
        return np.outer(np.cos(angle), centre) + np.outer(np.sin(angle), tangent)

    begin, end = angles[part.first] - cell / 2, angles[part.last] + cell / 2
    caps = turned((begin + end) / 2) / np.cos((end - begin) / 2)[:, None]
    return turned(angles), caps
