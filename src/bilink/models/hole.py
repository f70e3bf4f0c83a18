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

from bilink._jit import kernel_function
from bilink.models.analogy import real_beside_complex
from bilink.models.form import INNER_PRODUCT

NAME = "hole"
TITLE = "HolE"
FORM = INNER_PRODUCT


def widths(dim: int) -> tuple[int, int]:
    """How many numbers an entity and a relation have."""
    return dim, dim


@kernel_function
def _real_part(width):
    """Frequency zero and, for an even width, the highest one are real."""
    return 2 - width % 2


_functions = real_beside_complex(NAME, _real_part)
tail_query, head_query = _functions.tail_query, _functions.head_query
tail_backward, head_backward = _functions.tail_backward, _functions.head_backward
# The matrix acts on Fourier coordinates; on the paper's real vectors it is a circulant.
cube_gradient, matrix = _functions.cube_gradient, _functions.matrix


def export(entities: np.ndarray, relations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fourier coordinates → the real vectors of the paper."""
    return _to_real(entities), _to_real(relations / relation_scales(relations.shape[1]))


def restore(entities: np.ndarray, relations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The real vectors of the paper → Fourier coordinates."""
    scaled = _from_real(relations) * relation_scales(relations.shape[1])
    return _from_real(entities), scaled.astype(relations.dtype)


def initial_bounds(n_entities: int, dim: int) -> tuple[float, float]:
    """Of the initial values in the code of Wang et al. (2018): the same for relations."""
    bound = (6 / (n_entities + dim)) ** 0.5
    return bound, bound


def relation_scales(dim: int) -> np.ndarray:
    """How much longer than by an orthonormal transform the coordinates of relations are."""
    return np.sqrt(np.where(np.arange(dim) < _real_part(dim), dim, dim / 2))


def _from_real(rows: np.ndarray) -> np.ndarray:
    dim = rows.shape[1]
    spectrum = np.fft.rfft(rows.astype(np.float64), axis=1, norm="ortho")
    d = (dim - 1) // 2
    both = np.sqrt(2) * spectrum[:, 1 : d + 1]  # each stands for itself and its conjugate
    ends = [spectrum[:, :1].real] + ([spectrum[:, -1:].real] if dim % 2 == 0 else [])
    return np.hstack([*ends, both.real, both.imag]).astype(rows.dtype)


def _to_real(rows: np.ndarray) -> np.ndarray:
    dim = rows.shape[1]
    n = _real_part(dim)
    d = (dim - n) // 2
    spectrum = np.zeros((len(rows), dim // 2 + 1), dtype=np.complex128)
    spectrum[:, 0] = rows[:, 0]
    if n == 2:
        spectrum[:, -1] = rows[:, 1]
    spectrum[:, 1 : d + 1] = (rows[:, n : n + d] + 1j * rows[:, n + d :]) / np.sqrt(2)
    return np.fft.irfft(spectrum, n=dim, axis=1, norm="ortho").astype(rows.dtype)
