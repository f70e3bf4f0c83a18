"""One relation's matrix M as complex and real coordinates: xᵢᵀ M xⱼ in the form of ``mixed.py``.

``basis`` holds one row per entity, so that the scores are basis · M · basisᵀ.  Write M = H + G with
H symmetric and G antisymmetric.
"""

from collections.abc import Callable

import numpy as np
from scipy.linalg import schur

from bilink.theory.mixed import Mixed, paired

# Eigenvalues of H below this share of the largest are not divided by: the error stays near 1e-12.
_SMALL = 1e-4
_ZERO = 1e-14


def by_schur(matrix: np.ndarray, basis: np.ndarray) -> Mixed:
    """The paper's way (Th. 7, after Trouillon): one complex coordinate per row of M.

    M + iMᵀ is normal, so its Schur form is diagonal, U D U*, and M is its real part.
    """
    diagonal, unitary = schur(matrix + 1j * matrix.T, output="complex")
    return _mixed(basis, pairs=unitary, pair_weights=np.diag(diagonal))


def by_inertia(matrix: np.ndarray, basis: np.ndarray) -> Mixed:
    """Mostly ¾ as many coordinates as rows, at most ``inertia_bound`` many.

    A definite H costs nothing beside G: the two are diagonal together.  Otherwise H is made
    definite, and what was added is taken away again by real coordinates; or, where H has a small
    rank, it gets coordinates of its own.
    """
    limit = inertia_bound(len(matrix))
    tries: list[Callable[[], Mixed]] = [
        lambda: min(
            (_definite(matrix, basis, _SMALL), _apart(matrix, basis)),
            key=lambda form: form.size("complex"),
        ),
        lambda: by_schur(matrix, basis),
        lambda: _definite(matrix, basis, _ZERO),
    ]
    for attempt in tries:
        form = attempt()
        if form.size("complex") <= limit:
            break
    return form


def inertia_bound(n: int) -> int:
    """The most complex coordinates that an n × n matrix can need: between ¾ n and ⅚ n.

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
    """H made definite by raising the eigenvalues that have the rarer sign, or next to none."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    least = small * abs(values).max(initial=0)
    sign = 1.0 if np.sum(values <= least) <= np.sum(values >= -least) else -1.0
    values = sign * values
    low = values <= least
    raised = np.where(low, np.median(values[~low]) if not low.all() else 1.0, values)
    root = vectors * np.sqrt(raised)
    inverse = vectors / np.sqrt(raised)
    x, y, turns, rest = _planes(inverse.T @ ((matrix - matrix.T) / 2) @ inverse)
    return paired(
        _mixed(
            basis,
            pairs=root @ (x + 1j * y),
            pair_weights=sign + 1j * turns,
            reals=np.hstack([root @ rest, vectors[:, low] * np.sqrt((raised - values)[low])]),
            real_weights=np.append([sign] * rest.shape[1], [-sign] * int(low.sum())),
        )
    )


def _apart(matrix: np.ndarray, basis: np.ndarray) -> Mixed:
    """G and H with coordinates of their own; zeros of either cost none."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    x, y, turns, _ = _planes((matrix - matrix.T) / 2)
    zero = _ZERO * max(abs(values).max(initial=0), abs(turns).max(initial=0))
    kept, turning = abs(values) > zero, abs(turns) > zero
    return paired(
        _mixed(
            basis,
            pairs=(x + 1j * y)[:, turning],
            pair_weights=1j * turns[turning],
            reals=vectors[:, kept],
            real_weights=values[kept],
        )
    )


def _planes(skew: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Orthonormal x, y and turns d with skew = Σ d(xyᵀ − yxᵀ), and the axis left if n is odd."""
    n = len(skew)
    blocks, turn = schur((skew - skew.T) / 2, output="real")
    first = [i for i in range(n - 1) if blocks[i + 1, i] != 0]  # where a 2 × 2 block starts
    inside = {i + step for i in first for step in (0, 1)}
    fixed = [i for i in range(n) if i not in inside]  # no turn: any two of them make a plane
    even = len(fixed) // 2 * 2
    x, y = first + fixed[:even:2], [i + 1 for i in first] + fixed[1:even:2]
    turns = (blocks[x, y] - blocks[y, x]) / 2
    return turn[:, x], turn[:, y], turns, turn[:, fixed[even:]]


def _mixed(
    basis: np.ndarray,
    pairs: np.ndarray,
    pair_weights: np.ndarray,
    reals: np.ndarray | None = None,
    real_weights: np.ndarray | None = None,
) -> Mixed:
    """One relation's form, with coordinates given as columns over the basis."""
    reals = np.empty((basis.shape[1], 0)) if reals is None else reals
    weights = np.empty(0) if real_weights is None else real_weights
    return Mixed(basis @ pairs, pair_weights[None], basis @ reals, weights[None])
