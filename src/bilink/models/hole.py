"""HolE (Nickel et al., 2016): s = rᵀ (h ⋆ t), the circular correlation of head and tail.

The Fourier transform turns the correlation into products of complex numbers, so HolE is a ComplEx
of half the size (Hayashi and Shimbo, 2017) beside one or two real coordinates.  It is kept and
trained in these coordinates, where a step costs O(dim); files hold the real vectors of the paper.

A row of dim numbers holds first the real coordinates (frequency zero and, for an even dim, the
highest one), then the real parts of the others, then their imaginary parts.  Entities are turned
by an orthonormal transform, so their norms are those of the real vectors.  Relations are scaled by
√dim (real) and √(dim/2) (complex) besides, so that no factor is left in the score.
"""

import numpy as np

from bilink._jit import verb
from bilink.models import complex as pairs
from bilink.models import distmult as reals
from bilink.models.inner import DOT
from bilink.models.inner import cube_slope as cube_slope_of_reals

NAME = "hole"
TITLE = "HolE"
COMPARISON = DOT


def widths(dim: int) -> tuple[int, int]:
    """How many numbers an entity and a relation have."""
    return dim, dim


@verb
def tail_query(head, relation, query):
    """Q = h r."""
    n = 2 - query.shape[0] % 2
    reals.tail_query(head[:n], relation[:n], query[:n])
    pairs.tail_query(head[n:], relation[n:], query[n:])


@verb
def head_query(tail, relation, query):
    """Q = t r̄."""
    n = 2 - query.shape[0] % 2
    reals.head_query(tail[:n], relation[:n], query[:n])
    pairs.head_query(tail[n:], relation[n:], query[n:])


@verb
def tail_pullback(head, relation, slope, head_slope, relation_slope):
    """Carry the slope in q = h r back to h and r."""
    n = 2 - slope.shape[0] % 2
    reals.tail_pullback(head[:n], relation[:n], slope[:n], head_slope[:n], relation_slope[:n])
    pairs.tail_pullback(head[n:], relation[n:], slope[n:], head_slope[n:], relation_slope[n:])


@verb
def head_pullback(tail, relation, slope, tail_slope, relation_slope):
    """Carry the slope in q = t r̄ back to t and r."""
    n = 2 - slope.shape[0] % 2
    reals.head_pullback(tail[:n], relation[:n], slope[:n], tail_slope[:n], relation_slope[:n])
    pairs.head_pullback(tail[n:], relation[n:], slope[n:], tail_slope[n:], relation_slope[n:])


@verb
def cube_slope(row, weight, out):
    """Out += weight times the slope of Σ|xₖ|³ over the real and the complex coordinates."""
    n = 2 - row.shape[0] % 2
    cube_slope_of_reals(row[:n], weight, out[:n])
    pairs.cube_slope(row[n:], weight, out[n:])


def matrix(relation: np.ndarray) -> np.ndarray:
    """The form on Fourier coordinates (on the paper's real vectors it is a circulant)."""
    n = 2 - len(relation) % 2
    form = np.zeros((len(relation), len(relation)), dtype=relation.dtype)
    form[:n, :n] = reals.matrix(relation[:n])
    form[n:, n:] = pairs.matrix(relation[n:])
    return form


def export(entities: np.ndarray, relations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fourier coordinates → the real vectors of the paper."""
    return _to_real(entities), _to_real(relations / _scales(relations.shape[1]))


def restore(entities: np.ndarray, relations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The real vectors of the paper → Fourier coordinates."""
    scaled = _from_real(relations) * _scales(relations.shape[1])
    return _from_real(entities), scaled.astype(relations.dtype)


def _scales(dim: int) -> np.ndarray:
    n = 2 - dim % 2
    return np.sqrt(np.where(np.arange(dim) < n, dim, dim / 2))


def _from_real(rows: np.ndarray) -> np.ndarray:
    dim = rows.shape[1]
    spectrum = np.fft.rfft(rows.astype(np.float64), axis=1, norm="ortho")
    d = (dim - 1) // 2
    both = np.sqrt(2) * spectrum[:, 1 : d + 1]  # each stands for itself and its conjugate twin
    ends = [spectrum[:, :1].real] + ([spectrum[:, -1:].real] if dim % 2 == 0 else [])
    return np.hstack([*ends, both.real, both.imag]).astype(rows.dtype)


def _to_real(rows: np.ndarray) -> np.ndarray:
    dim = rows.shape[1]
    n = 2 - dim % 2
    d = (dim - n) // 2
    spectrum = np.zeros((len(rows), dim // 2 + 1), dtype=np.complex128)
    spectrum[:, 0] = rows[:, 0]
    if n == 2:
        spectrum[:, -1] = rows[:, 1]
    spectrum[:, 1 : d + 1] = (rows[:, n : n + d] + 1j * rows[:, n + d :]) / np.sqrt(2)
    return np.fft.irfft(spectrum, n=dim, axis=1, norm="ortho").astype(rows.dtype)
