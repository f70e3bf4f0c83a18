"""Consistent models from factors: the constructions of Theorems 11 and 12 and Corollary 4.

"paper" is as Wang et al. (2018) have it.  "tight" takes fewer coordinates: ⌈3r/2⌉ in ComplEx for a
relation of rank r instead of 2r, none for a relation that is another's copy or inverse, and never
more than what any facts of so many entities can be expressed with.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bilink.errors import ConfigError, DataError
from bilink.models.model import Model
from bilink.models.registry import family as find_family
from bilink.theory.counterexamples import counterexample
from bilink.theory.factors import Factors
from bilink.theory.mixed import Mixed, mixed_size, side_by_side
from bilink.theory.sizes import check_fits
from bilink.theory.slices import (
    by_factors,
    by_inertia,
    by_schur,
    inertia_bound,
    shared_coordinates,
)

FAMILIES = ("rescal", "complex", "hole")


def consistent_model(factors: Sequence[Factors], name: str, construction: str = "tight") -> Model:
    """A model, in float64, that is consistent with the facts that the factors tell apart.

    Its relation k scores as left · rightᵀ of its factors; or, where the entities are so few that
    the facts themselves need fewer coordinates, 1 for facts and 0 for other pairs.  Where two
    relations have the very same arrays, perhaps left and right exchanged, they share coordinates,
    unless the construction is the paper's.
    """
    _check(factors)
    name = check_family(name)
    if construction not in ("paper", "tight"):
        raise ConfigError(f"construction must be paper or tight, not {construction!r}")
    paper = construction == "paper"
    slices = _Slices.apart(factors) if paper else _Slices.sharing(factors)
    size = (paper_sizes if paper else sizes)(slices.ranks, slices.n)[name]
    check_fits(name, size, slices.n, len(factors))
    if name == "rescal":
        return _rescal(slices)
    return (_paper_form if paper else _tight_form)(slices, name).to_model(name)


def check_family(name: str) -> str:
    """The family's own name; one that cannot be consistent with every graph is refused."""
    found = find_family(name)
    if found.name not in (*FAMILIES, "distmult", "transe", "transe-l1"):
        raise ConfigError(
            f"no consistent {found.title} is implemented; there are {', '.join(FAMILIES)}"
        )
    if found.name not in FAMILIES:
        raise ConfigError(
            f"{found.title} cannot tell the facts of every graph apart, at any size; there are "
            f"{', '.join(FAMILIES)}. {counterexample(found.name)}"
        )
    return found.name


def sizes(ranks: Sequence[int], n: int) -> dict[str, int]:
    """The sizes that suffice for distinct relations of these rounding ranks among n entities."""
    most = inertia_bound(n)
    pairs = odd = 0
    for r in ranks:
        by_columns = _coordinates(r)
        few = sum(by_columns) <= most
        pairs += by_columns[0] if few else most
        odd += by_columns[1] if few else 0
    return {
        "rescal": max(1, min(n, 2 * sum(ranks))),
        **{
            name: min(mixed_size(name, pairs, odd), mixed_size(name, n * (n - 1) // 2, n))
            for name in ("complex", "hole")
        },
    }


def paper_sizes(ranks: Sequence[int], n: int) -> dict[str, int]:
    """What Theorems 11 and 12 and Corollary 4 give for relations of these ranks."""
    total, k = sum(ranks), len(ranks)
    return {
        "rescal": max(1, min(n, 2 * total)),
        "complex": max(1, min(k * n, 2 * total)),
        "hole": 2 * min(k * n, 2 * total) + 1,
    }


# -- which relations share what --------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Slices:
    """The distinct factors, and for each relation which ones it has, and if it is the inverse."""

    factors: list[Factors]
    of_relation: list[tuple[int, bool]]

    @classmethod
    def apart(cls, factors: Sequence[Factors]) -> "_Slices":
        return cls(list(factors), [(k, False) for k in range(len(factors))])

    @classmethod
    def sharing(cls, factors: Sequence[Factors]) -> "_Slices":
        seen: dict[tuple[int, int], tuple[int, bool]] = {}
        distinct: list[Factors] = []
        for factor in factors:
            key = (id(factor.left), id(factor.right))
            if key not in seen:
                seen[key] = (len(distinct), False)
                seen.setdefault(key[::-1], (len(distinct), True))
                distinct.append(factor)
        return cls(distinct, [seen[id(f.left), id(f.right)] for f in factors])

    @property
    def n(self) -> int:
        return len(self.factors[0].left)

    @property
    def ranks(self) -> list[int]:
        return [factor.left.shape[1] for factor in self.factors]

    def facts(self) -> np.ndarray:
        """The facts of every relation as numbers, (K, N, N)."""
        found = [_facts(factor) for factor in self.factors]
        return np.stack([found[k].T if turned else found[k] for k, turned in self.of_relation])


def _facts(factor: Factors) -> np.ndarray:
    return (factor.left @ factor.right.T > factor.threshold).astype(np.float64)


# -- RESCAL ----------------------------------------------------------------------------------------


def _rescal(slices: _Slices) -> Model:
    """Entities (L₁ Q₁ L₂ Q₂ …), relations [[0, I], [0, 0]] in their block, or its transpose."""
    n, ranks, number = slices.n, slices.ranks, len(slices.of_relation)
    dim = max(1, 2 * sum(ranks))
    family = find_family("rescal")
    if dim > n:  # A = I and R = the facts, as in Theorem 5
        return Model(family, n, np.eye(n), slices.facts().reshape(number, -1))
    entities = np.hstack([side for f in slices.factors for side in (f.left, f.right)])
    entities = entities if entities.shape[1] else np.zeros((n, 1))
    matrices = np.zeros((number, dim, dim))
    starts = np.append(0, 2 * np.cumsum(ranks))
    for matrix, (k, turned) in zip(matrices, slices.of_relation, strict=True):
        d = starts[k] + np.arange(ranks[k])
        if turned:
            matrix[d + ranks[k], d] = 1
        else:
            matrix[d, d + ranks[k]] = 1
    return Model(family, dim, entities, matrices.reshape(number, -1))


# -- ComplEx and HolE ------------------------------------------------------------------------------


def _coordinates(rank: int) -> tuple[int, int]:
    """How many complex and real ones ``by_factors`` takes for one relation."""
    return 3 * (rank // 2) + rank % 2, rank % 2


def _tight_form(slices: _Slices, name: str) -> Mixed:
    n = slices.n
    form = _weighed(side_by_side([_tight_slice(factor) for factor in slices.factors]), slices)
    if mixed_size(name, n * (n - 1) // 2, n) < form.size(name):
        return shared_coordinates(slices.facts(), np.eye(n))
    return form


def _tight_slice(factor: Factors) -> Mixed:
    n, rank = factor.left.shape
    if sum(_coordinates(rank)) > inertia_bound(n):
        return by_inertia(_facts(factor), np.eye(n))
    return by_factors(*_alike(factor.left, factor.right))


def _weighed(form: Mixed, slices: _Slices) -> Mixed:
    """The weights of the distinct relations → of all; conjugate weights transpose a relation."""
    own = [k for k, _ in slices.of_relation]
    turned = np.array([turned for _, turned in slices.of_relation])[:, None]
    pair_weights = form.pair_weights[own]
    return Mixed(
        form.pairs,
        np.where(turned, pair_weights.conj(), pair_weights),
        form.reals,
        form.real_weights[own],
    )


def _paper_form(slices: _Slices, name: str) -> Mixed:
    return side_by_side([_paper_slice(factor) for factor in slices.factors])


def _paper_slice(factor: Factors) -> Mixed:
    """The product LQᵀ within the span of L and Q, by its Schur form."""
    n, width = factor.left.shape
    if 2 * width >= n:
        return by_schur(factor.left @ factor.right.T, np.eye(n))
    basis, triangle = np.linalg.qr(np.hstack([factor.left, factor.right]))
    return by_schur(triangle[:, :width] @ triangle[:, width:].T, basis)


def _alike(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same products from vectors of like sizes; by a power of two, which rounds nothing."""
    largest = [np.abs(side).max(initial=0) for side in (left, right)]
    if not all(largest):
        return left, right
    scale = 2.0 ** np.round(np.log2(largest[1] / largest[0]) / 2)
    return left * scale, right / scale


def _check(factors: Sequence[Factors]) -> None:
    if not factors:
        raise DataError("a consistent model needs the factors of at least one relation (K ≥ 1)")
    n = len(factors[0].left)
    if n < 2:
        raise DataError("consistency needs at least two entities (N ≥ 2)")
    for k, factor in enumerate(factors):
        left, right = factor.left, factor.right
        if left.ndim != 2 or left.shape != right.shape or len(left) != n:
            raise DataError(
                f"the factors of relation {k} have shapes {left.shape} and {right.shape}; both "
                f"must have one row for each of the {n:,} entities, and equally many columns"
            )
        if not (np.isfinite(left).all() and np.isfinite(right).all()):
            raise DataError(f"the factors of relation {k} hold numbers that are not finite")
