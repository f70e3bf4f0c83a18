"""The form between all models: some complex coordinates beside some real ones.

    s_k(i, j) = Re Σ_d pair_weights[k, d] pairs[i, d] conj(pairs[j, d])
                + Σ_d real_weights[k, d] reals[i, d] reals[j, d]

DistMult has real coordinates only and ComplEx complex ones only.  HolE has complex ones beside one
real coordinate (odd size) or two (even size): its Fourier transform.  One complex coordinate
e = x + iy of weight c + id adds the matrix c(xxᵀ + yyᵀ) + d(xyᵀ − yxᵀ) to the scores of a relation;
all sizes in this room follow from this line.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bilink.errors import ConfigError
from bilink.models.model import Model
from bilink.models.registry import family as find_family


@dataclass(frozen=True, eq=False)
class Mixed:
    """p complex and q real coordinates of N entities, with the weights of K relations."""

    pairs: np.ndarray  # (N, p) complex128
    pair_weights: np.ndarray  # (K, p) complex128
    reals: np.ndarray  # (N, q) float64
    real_weights: np.ndarray  # (K, q) float64

    def size(self, name: str) -> int:
        """The smallest model of a family that has room for these coordinates."""
        p, q = self.pairs.shape[1], self.reals.shape[1]
        return mixed_size(name, p, q)

    def to_model(self, name: str, dim: int | None = None) -> Model:
        """The RESCAL, HolE or ComplEx model with the same scores, of size ``dim`` or the least."""
        least = self.size(name)
        dim = least if dim is None else dim
        if dim < least:
            raise ConfigError(f"{name} needs size {least} here; {dim} is too small")
        return _WRITERS[name](self, dim)


def mixed_size(name: str, pairs: int, reals: int) -> int:
    """How large a model must be to hold so many complex and so many real coordinates."""
    if name == "rescal":
        return max(1, 2 * pairs + reals)
    if name == "complex":
        return max(1, pairs + reals)
    if reals < 2:  # HolE: one real coordinate, used or not
        return 2 * pairs + 1
    return 2 * (pairs + reals - 2) + 2  # two real coordinates; more of them become complex


def mixed_of(model: Model) -> Mixed:
    """A DistMult, ComplEx or HolE model in this form; nothing is computed, only rearranged."""
    entities, relations = (x.astype(np.float64) for x in (model.entities, model.relations))
    width = entities.shape[1]
    n = {"distmult": width, "complex": 0, "hole": 2 - width % 2}[model.family.name]
    return Mixed(_join(entities[:, n:]), _join(relations[:, n:]), entities[:, :n], relations[:, :n])


def side_by_side(parts: Sequence[Mixed]) -> Mixed:
    """The forms of single relations as one form: each relation weighs its own coordinates only."""
    return Mixed(
        np.hstack([part.pairs for part in parts]),
        _block_diagonal([part.pair_weights for part in parts]),
        np.hstack([part.reals for part in parts]),
        _block_diagonal([part.real_weights for part in parts]),
    )


def paired(form: Mixed) -> Mixed:
    """One relation's real coordinates of like sign joined two by two: ±(xxᵀ + yyᵀ) is one pair."""
    weights = form.real_weights[0]
    pairs, signs, left, left_weights = [form.pairs], [], [], []
    for sign in (1.0, -1.0):
        chosen = form.reals[:, sign * weights > 0] * np.sqrt(abs(weights[sign * weights > 0]))
        odd = chosen.shape[1] % 2
        pairs.append(chosen[:, odd::2] + 1j * chosen[:, odd + 1 :: 2])
        signs += [sign] * (chosen.shape[1] // 2)
        left.append(chosen[:, :odd])
        left_weights += [sign] * odd
    return Mixed(
        np.hstack(pairs),
        np.hstack([form.pair_weights, np.array([signs], dtype=complex)]),
        np.hstack(left),
        np.array([left_weights]).reshape(1, -1),
    )


def _join(rows: np.ndarray) -> np.ndarray:
    d = rows.shape[1] // 2
    return rows[:, :d] + 1j * rows[:, d:]


def _split(rows: np.ndarray) -> np.ndarray:
    return np.hstack([rows.real, rows.imag])


def _block_diagonal(rows: Sequence[np.ndarray]) -> np.ndarray:
    whole = np.zeros((len(rows), sum(row.shape[1] for row in rows)), dtype=rows[0].dtype)
    start = 0
    for k, row in enumerate(rows):
        whole[k, start : start + row.shape[1]] = row[0]
        start += row.shape[1]
    return whole


def _padded(rows: np.ndarray, width: int) -> np.ndarray:
    return np.hstack([rows, np.zeros((len(rows), width - rows.shape[1]), dtype=rows.dtype)])


def _to_complex(form: Mixed, dim: int) -> Model:
    """A real number is a complex number."""
    entities = _padded(np.hstack([form.pairs, form.reals]), dim)
    relations = _padded(np.hstack([form.pair_weights, form.real_weights]), dim)
    return Model(find_family("complex"), dim, _split(entities), _split(relations))


def _to_hole(form: Mixed, dim: int) -> Model:
    """The first real coordinates stand at the frequencies that are their own conjugates."""
    n = 2 - dim % 2
    rows = []
    for pairs, reals in ((form.pairs, form.reals), (form.pair_weights, form.real_weights)):
        others = _padded(np.hstack([pairs, reals[:, n:]]), (dim - n) // 2)
        rows.append(np.hstack([_padded(reals[:, :n], n), _split(others)]))
    return Model(find_family("hole"), dim, *rows)


def _to_rescal(form: Mixed, dim: int) -> Model:
    """Re e, Im e and the reals as coordinates; a pair's block is [[c, d], [−d, c]]."""
    p, q = form.pairs.shape[1], form.reals.shape[1]
    entities = _padded(np.hstack([_split(form.pairs), form.reals]), dim)
    matrices = np.zeros((len(form.pair_weights), dim, dim))
    d, reals = np.arange(p), 2 * p + np.arange(q)
    matrices[:, d, d] = matrices[:, p + d, p + d] = form.pair_weights.real
    matrices[:, d, p + d] = form.pair_weights.imag
    matrices[:, p + d, d] = -form.pair_weights.imag
    matrices[:, reals, reals] = form.real_weights
    return Model(find_family("rescal"), dim, entities, matrices.reshape(len(matrices), -1))


_WRITERS = {"rescal": _to_rescal, "complex": _to_complex, "hole": _to_hole}
