"""Consistent models, from factors or from a graph: Theorems 11 and 12 and Corollary 4.

The construction "paper" is that of Wang et al. (2018).  "tight" takes fewer coordinates: ⌈3r/2⌉ in
ComplEx for a relation of rank r instead of 2r, none for the copy or the inverse of another
relation, and never more than a universal model of so many entities has.

``construct`` finds the factors of a graph's relations by ``rounding``, and certifies the model.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bilink.data.graph import SPLITS, Graph
from bilink.errors import ConfigError, DataError
from bilink.models.hole import export, restore
from bilink.models.model import Model
from bilink.models.registry import family as find_family
from bilink.theory import slices as forms
from bilink.theory.counterexamples import COUNTEREXAMPLES
from bilink.theory.relations import RelationFacts, facts_of, for_distinct
from bilink.theory.rounding.certificates import Factors, model_margin
from bilink.theory.rounding.rank import rounding_rank

FAMILIES = ("rescal", "complex", "hole")


def consistent_model(factors: Sequence[Factors], name: str, construction: str = "tight") -> Model:
    """A model, in float64, that is consistent with the facts that the factors tell apart.

    The scores of relation k are left · rightᵀ of its factors; or 1 for facts and 0 for other pairs,
    where that needs fewer coordinates because the entities are few.  Except in the paper's
    construction, two relations whose factors are the same arrays, perhaps exchanged, share
    coordinates.
    """
    _check(factors)
    name = check_family(name)
    if construction not in ("paper", "tight"):
        raise ConfigError(f"construction must be paper or tight, not {construction!r}")
    paper = construction == "paper"
    slices = _Slices.of(factors, sharing=not paper)
    size = (paper_sizes if paper else sizes)(slices.ranks, slices.n)[name]
    forms.check_fits(name, size, slices.n, len(factors))
    if name == "rescal":
        return _rescal(slices)
    if paper:
        return forms.side_by_side([_paper_slice(f) for f in slices.factors]).to_model(name)
    return _tight_form(slices, name).to_model(name)


def check_family(name: str) -> str:
    """The family's name; a family that is not consistent with every graph is refused."""
    found, known = find_family(name), f"there are {', '.join(FAMILIES)}"
    if found.name in COUNTEREXAMPLES:
        raise ConfigError(
            f"{found.title} cannot tell the facts of every graph apart, at any size; {known}. "
            f"{COUNTEREXAMPLES[found.name]}"
        )
    if found.name not in FAMILIES:
        raise ConfigError(f"no consistent {found.title} is implemented; {known}")
    return found.name


def sizes(ranks: Sequence[int], n: int) -> dict[str, int]:
    """The sizes that suffice for distinct relations of these rounding ranks among n entities."""
    most = forms.inertia_bound(n)
    each = [_coordinates(r) if sum(_coordinates(r)) <= most else (most, 0) for r in ranks]
    pairs, odd = (sum(column) for column in zip((0, 0), *each, strict=True))
    found = {"rescal": max(1, min(n, 2 * sum(ranks)))}
    for name in ("complex", "hole"):
        shared = forms.mixed_size(name, n * (n - 1) // 2, n)
        found[name] = min(forms.mixed_size(name, pairs, odd), shared)
    return found


def paper_sizes(ranks: Sequence[int], n: int) -> dict[str, int]:
    """What Theorems 11 and 12 and Corollary 4 give for relations of these ranks."""
    total, k = sum(ranks), len(ranks)
    return {
        "rescal": max(1, min(n, 2 * total)),
        "complex": max(1, min(k * n, 2 * total)),
        "hole": 2 * min(k * n, 2 * total) + 1,
    }


# -- from a graph ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Construction:
    """A consistent model, and how far its margins exceed the rounding errors."""

    model: Model
    ranks: tuple[int, ...]  # of the factors of each relation
    margin_over_error: float  # the least over all pairs and relations

    @property
    def certified(self) -> bool:
        """Whether all facts score above all non-facts in float64, in any order of summation."""
        return self.margin_over_error > 1

    def to_dict(self) -> dict[str, Any]:
        """As ``bilink theory construct --json`` prints it."""
        return {
            "model": self.model.family.name,
            "size": self.model.dim,
            "certified": self.certified,
            "margin_over_error": self.margin_over_error,
            "sum_of_ranks": sum(self.ranks),
        }


def construct(
    graph: Graph,
    name: str,
    *,
    splits: Sequence[str] = SPLITS,
    effort: float = 1.0,
    threads: int = 1,
    progress: Callable[[int], None] | None = None,
) -> Construction:
    """A ``name`` model that is consistent with the triples of ``splits``, checked pair by pair.

    ``progress`` is called with the number of facts of each relation that is done.
    """
    name = check_family(name)
    relations = facts_of(graph, splits)
    factors = relation_factors(relations, effort=effort, threads=threads, progress=progress)
    return certify(consistent_model(factors, name), factors, relations)


def certify(
    model: Model, factors: Sequence[Factors], relations: Sequence[RelationFacts]
) -> Construction:
    """Compare all facts with all non-facts, in the model as it is and as a file stores it."""
    stored = _stored(model)
    margin = min(
        model_margin(model, stored, k, facts.heads, facts.tails)
        for k, facts in enumerate(relations)
    )
    return Construction(model, tuple(factor.rank for factor in factors), margin)


def relation_factors(
    relations: Sequence[RelationFacts],
    *,
    effort: float = 1.0,
    threads: int = 1,
    progress: Callable[[int], None] | None = None,
) -> list[Factors]:
    """Certified factors of every relation; copies and inverses have the same arrays."""

    def find(facts: RelationFacts) -> Factors:
        found = rounding_rank(facts.heads, facts.tails, facts.n, effort=effort, complete=True)
        assert found.factors is not None  # a coordinate for each row is always possible
        return found.factors

    found = for_distinct(find, relations, threads, progress)
    return [factors.inverse if inverse else factors for _, inverse, factors in found]


def _stored(model: Model) -> Model:
    """The model as it is read back from a file: HolE's files hold the real vectors."""
    if model.family.name != "hole":
        return model
    return Model(model.family, model.dim, *restore(*export(model.entities, model.relations)))


# -- relations that share coordinates --------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Slices:
    """The distinct factors; and for each relation which of them it has, and if as an inverse."""

    factors: list[Factors]
    of_relation: list[tuple[int, bool]]

    @classmethod
    def of(cls, factors: Sequence[Factors], sharing: bool) -> "_Slices":
        if not sharing:
            return cls(list(factors), [(k, False) for k in range(len(factors))])
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
        return [factor.rank for factor in self.factors]

    def facts(self) -> np.ndarray:
        """The facts of every relation as numbers, (K, N, N)."""
        found = [_facts(factor) for factor in self.factors]
        return np.stack([found[k].T if inverse else found[k] for k, inverse in self.of_relation])


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
    for matrix, (k, inverse) in zip(matrices, slices.of_relation, strict=True):
        d = starts[k] + np.arange(ranks[k])
        if inverse:
            matrix[d + ranks[k], d] = 1
        else:
            matrix[d, d + ranks[k]] = 1
    return Model(family, dim, entities, matrices.reshape(number, -1))


# -- ComplEx and HolE ------------------------------------------------------------------------------


def _coordinates(rank: int) -> tuple[int, int]:
    """How many complex and how many real ones ``by_factors`` takes for one relation."""
    return 3 * (rank // 2) + rank % 2, rank % 2


def _tight_form(slices: _Slices, name: str) -> forms.Mixed:
    n = slices.n
    form = forms.side_by_side([_tight_slice(factor) for factor in slices.factors])
    if forms.mixed_size(name, n * (n - 1) // 2, n) < form.size(name):
        return forms.shared_coordinates(slices.facts(), np.eye(n))
    own, inverse = map(list, zip(*slices.of_relation, strict=True))
    weights = form.pair_weights[own]
    weights[inverse] = weights[inverse].conj()  # this transposes a relation
    return forms.Mixed(form.pairs, weights, form.reals, form.real_weights[own])


def _tight_slice(factor: Factors) -> forms.Mixed:
    n, rank = factor.left.shape
    if sum(_coordinates(rank)) > forms.inertia_bound(n):
        return forms.by_inertia(_facts(factor), np.eye(n))
    return forms.by_factors(*_alike(factor.left, factor.right))


def _paper_slice(factor: Factors) -> forms.Mixed:
    """The product LQᵀ within the span of L and Q, by its Schur form."""
    n, width = factor.left.shape
    if 2 * width >= n:
        return forms.by_schur(factor.left @ factor.right.T, np.eye(n))
    basis, triangle = np.linalg.qr(np.hstack([factor.left, factor.right]))
    return forms.by_schur(triangle[:, :width] @ triangle[:, width:].T, basis)


def _alike(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same products from vectors of similar size; a power of two scales without rounding."""
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
