"""The common form of the bilinear models: complex coordinates beside real ones.

    s_k(i, j) = Re Σ_d pair_weights[k, d] pairs[i, d] conj(pairs[j, d])
                + Σ_d real_weights[k, d] reals[i, d] reals[j, d]

DistMult has real coordinates only, ComplEx complex ones only.  HolE, by its Fourier transform, has
complex ones beside one real coordinate (odd size) or two (even size).  A complex coordinate
e = x + iy of weight c + id adds the matrix c(xxᵀ + yyᵀ) + d(xyᵀ − yxᵀ) to the scores of a relation;
all sizes in this package follow from this line.

The ``by_…`` functions give one relation's matrix M this form.  ``basis`` holds one row per entity,
so that the scores are basis · M · basisᵀ.  H and G are the symmetric and the antisymmetric part of
M.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import block_diag, schur

from bilink._memory import physical_memory
from bilink.errors import ConfigError
from bilink.models.model import Model
from bilink.models.registry import family as find_family

_COPIES = 4  # of a model, while it is put together
# Eigenvalues of H below this share of the largest are not divided by: the error stays near 1e-12.
_SMALL = 1e-4
_ZERO = 1e-14


@dataclass(frozen=True, eq=False)
class Mixed:
    """p complex and q real coordinates of N entities, with the weights of K relations."""

    pairs: np.ndarray  # (N, p) complex128
    pair_weights: np.ndarray  # (K, p) complex128
    reals: np.ndarray  # (N, q) float64
    real_weights: np.ndarray  # (K, q) float64

    @classmethod
    def of_pairs(cls, pairs: np.ndarray, weights: np.ndarray) -> "Mixed":
        """Complex coordinates only."""
        return cls(pairs, weights, np.empty((len(pairs), 0)), np.empty((len(weights), 0)))

    def size(self, name: str) -> int:
        """The size of the smallest model of a family that holds these coordinates."""
        return mixed_size(name, self.pairs.shape[1], self.reals.shape[1])

    def to_model(self, name: str, dim: int | None = None) -> Model:
        """The RESCAL, HolE or ComplEx model with the same scores, of size ``dim`` or the least."""
        least = self.size(name)
        dim = least if dim is None else dim
        if dim < least:
            raise ConfigError(f"{name} needs size {least} here; {dim} is too small")
        return _to_rescal(self, dim) if name == "rescal" else _to_fourier(self, name, dim)


def mixed_size(name: str, pairs: int, reals: int) -> int:
    """The size of the smallest model that holds so many complex and so many real coordinates."""
    if name == "rescal":
        return max(1, 2 * pairs + reals)
    if name == "complex":
        return max(1, pairs + reals)
    if reals < 2:  # HolE of odd size has one real coordinate, used or not
        return 2 * pairs + 1
    return 2 * (pairs + reals - 2) + 2  # of even size it has two; further ones become complex


def check_fits(name: str, dim: int, n_entities: int, n_relations: int) -> None:
    """Complain about a model, in double precision, that this machine cannot hold."""
    found = find_family(name)
    per_entity, per_relation = found.widths(dim)
    numbers = n_entities * per_entity + n_relations * per_relation
    if _COPIES * 8 * numbers > physical_memory():
        raise ConfigError(
            f"{found.title} of size {dim:,} has {numbers:,} numbers here, {8 * numbers / 1e9:,.0f}"
            f" GB; making it takes {_COPIES} times that, which does not fit into the memory of "
            "this machine"
        )


def mixed_of(model: Model) -> Mixed:
    """A DistMult, ComplEx or HolE model in this form; its numbers are rearranged only."""
    entities, relations = (x.astype(np.float64) for x in (model.entities, model.relations))
    width = entities.shape[1]
    n = {"distmult": width, "complex": 0, "hole": 2 - width % 2}[model.family.name]
    return Mixed(_join(entities[:, n:]), _join(relations[:, n:]), entities[:, :n], relations[:, :n])


def side_by_side(parts: Sequence[Mixed]) -> Mixed:
    """The forms of single relations as one: a relation has weights for its own coordinates only."""
    return Mixed(
        np.hstack([part.pairs for part in parts]),
        block_diag(*(part.pair_weights for part in parts)),
        np.hstack([part.reals for part in parts]),
        block_diag(*(part.real_weights for part in parts)),
    )


def _join(rows: np.ndarray) -> np.ndarray:
    d = rows.shape[1] // 2
    return rows[:, :d] + 1j * rows[:, d:]


def _split(rows: np.ndarray) -> np.ndarray:
    return np.hstack([rows.real, rows.imag])


def _padded(rows: np.ndarray, width: int) -> np.ndarray:
    return np.hstack([rows, np.zeros((len(rows), width - rows.shape[1]), dtype=rows.dtype)])


def _to_fourier(form: Mixed, name: str, dim: int) -> Model:
    """HolE has its first real coordinates at the frequencies that are their own conjugates.

    ComplEx has none; a real number is a complex number.
    """
    n = 0 if name == "complex" else 2 - dim % 2
    rows = []
    for pairs, reals in ((form.pairs, form.reals), (form.pair_weights, form.real_weights)):
        others = _padded(np.hstack([pairs, reals[:, n:]]), dim if not n else (dim - n) // 2)
        rows.append(np.hstack([_padded(reals[:, :n], n), _split(others)]))
    return Model(find_family(name), dim, *rows)


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


# -- one relation's matrix in this form ------------------------------------------------------------


def by_schur(matrix: np.ndarray, basis: np.ndarray) -> Mixed:
    """The paper's construction (Th. 7, after Trouillon): one complex coordinate per row of M.

    M + iMᵀ is normal, so its Schur form is diagonal, U D U*, and M is its real part.
    """
    diagonal, unitary = schur(matrix + 1j * matrix.T, output="complex")
    return Mixed.of_pairs(basis @ unitary, np.diag(diagonal)[None])


def by_inertia(matrix: np.ndarray, basis: np.ndarray) -> Mixed:
    """Usually ¾ as many coordinates as rows, and never more than ``inertia_bound``.

    If H is definite, one change of basis makes H and G diagonal at once, so that H needs no
    coordinates of its own.  Otherwise H is made definite by an addition, which real coordinates
    subtract again; or, where its rank is small, H gets coordinates of its own.
    """
    most = inertia_bound(len(matrix))
    forms = _definite(matrix, basis, _SMALL), _apart(matrix, basis)
    form = min(forms, key=lambda form: form.size("complex"))
    if form.size("complex") > most:
        form = by_schur(matrix, basis)
    return form if form.size("complex") <= most else _definite(matrix, basis, _ZERO)


def inertia_bound(n: int) -> int:
    """So many complex coordinates are enough for any n × n matrix: between ¾ n and ⅚ n.

    ``s`` counts the eigenvalues of H that are not positive, or not negative if these are fewer.
    """
    s = np.arange(n + 1)
    definite = -(-n // 2) + -(-s // 2)
    apart = n // 2 + -(-(n - s) // 2) + -(-np.minimum(s, n - s) // 2)
    return int(np.minimum(np.minimum(definite, apart), n).max(initial=0))


def by_factors(left: np.ndarray, right: np.ndarray) -> Mixed:
    """The product left · rightᵀ of rank r with ⌈3r/2⌉ coordinates, of weights at most 0.71.

    Two columns at a time: with X = l₁ + il₂, Y = q₁ + iq₂ and the third roots of unity ω, the
    coordinates X + ωʲY of weight ωʲ/3 leave X Ȳ, since Σω = Σω² = 0.  An odd last column l, q
    takes l + iq of weight (1 + i)/2 and the real l − q of weight −1/2.
    """
    even = left.shape[1] // 2 * 2
    first, second = (side[:, :even:2] + 1j * side[:, 1:even:2] for side in (left, right))
    roots = np.exp(2j * np.pi * np.arange(3) / 3)
    last, other = left[:, even:], right[:, even:]
    pairs = np.hstack([*(first + root * second for root in roots), last + 1j * other])
    weights = np.repeat(roots / 3, even // 2)
    weights = np.append(weights, [(1 + 1j) / 2] * last.shape[1])
    return Mixed(pairs, weights[None], last - other, np.full((1, last.shape[1]), -0.5))


def shared_coordinates(matrices: np.ndarray, basis: np.ndarray) -> Mixed:
    """Any number of r × r matrices with the same r(r − 1)/2 complex and r real coordinates.

    The coordinate x_d + i(x_d + x_e) carries H_de and G_de of every relation; the real x_d repairs
    the diagonal.
    """
    upper = np.triu_indices(matrices.shape[1], k=1)
    h = (matrices + matrices.transpose(0, 2, 1)) / 2
    g = matrices - h
    above = np.triu(h, k=1)
    diagonals = np.diagonal(h, axis1=1, axis2=2)
    return Mixed(
        basis[:, upper[0]] + 1j * (basis[:, upper[0]] + basis[:, upper[1]]),
        h[:, *upper] + 1j * g[:, *upper],
        basis,
        diagonals - 2 * above.sum(axis=2) - above.sum(axis=1),
    )


def _definite(matrix: np.ndarray, basis: np.ndarray, small: float) -> Mixed:
    """Make H definite: raise its eigenvalues that have the rarer sign, or are nearly zero."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    least = small * abs(values).max(initial=0)
    sign = 1.0 if np.sum(values <= least) <= np.sum(values >= -least) else -1.0
    values = sign * values
    low = values <= least
    raised = np.where(low, np.median(values[~low]) if not low.all() else 1.0, values)
    root = vectors * np.sqrt(raised)
    inverse = vectors / np.sqrt(raised)
    x, y, turns, rest = _planes(inverse.T @ ((matrix - matrix.T) / 2) @ inverse)
    subtracted = vectors[:, low] * np.sqrt((raised - values)[low])
    signs = np.append([sign] * rest.shape[1], [-sign] * int(low.sum()))
    return _paired(
        Mixed(
            basis @ (root @ (x + 1j * y)),
            (sign + 1j * turns)[None],
            basis @ np.hstack([root @ rest, subtracted]),
            signs[None],
        )
    )


def _apart(matrix: np.ndarray, basis: np.ndarray) -> Mixed:
    """Give G and H coordinates of their own; their zeros take none."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    x, y, turns, _ = _planes((matrix - matrix.T) / 2)
    zero = _ZERO * max(abs(values).max(initial=0), abs(turns).max(initial=0))
    kept, turning = abs(values) > zero, abs(turns) > zero
    return _paired(
        Mixed(
            basis @ (x + 1j * y)[:, turning],
            1j * turns[turning][None],
            basis @ vectors[:, kept],
            values[kept][None],
        )
    )


def _paired(form: Mixed) -> Mixed:
    """One relation's form with real coordinates of equal sign joined: ±(xxᵀ + yyᵀ) is one pair."""
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


def _planes(skew: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Orthonormal x, y and turns d with skew = Σ d(xyᵀ − yxᵀ), and the axis left if n is odd."""
    n = len(skew)
    blocks, basis = schur((skew - skew.T) / 2, output="real")
    first = [i for i in range(n - 1) if blocks[i + 1, i] != 0]  # where a 2 × 2 block starts
    inside = {i + step for i in first for step in (0, 1)}
    fixed = [i for i in range(n) if i not in inside]  # no turn: any two of them make a plane
    even = len(fixed) // 2 * 2
    x, y = first + fixed[:even:2], [i + 1 for i in first] + fixed[1:even:2]
    turns = (blocks[x, y] - blocks[y, x]) / 2
    return basis[:, x], basis[:, y], turns, basis[:, fixed[even:]]
