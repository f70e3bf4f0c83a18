"""A model that scores every fact of a graph above every non-fact, made from factors.

The constructions are those of Wang et al. (2018), Theorems 11 and 12, with ComplEx in Σ⌈3r/2⌉
instead of 2Σr coordinates.  Relations that are each other's inverse, or the same, share theirs.
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
from bilink.theory.factors import Factors
from bilink.theory.relations import RelationFacts, each_of, facts_of, twins
from bilink.theory.rounding.certificates import model_margin
from bilink.theory.rounding.rank import rounding_rank
from bilink.training.estimate import physical_memory

FAMILIES = ("rescal", "complex", "hole")


@dataclass(frozen=True, eq=False)
class Construction:
    """A consistent model, and by how much rounding is overcome in it."""

    model: Model
    ranks: tuple[int, ...]  # of the factors of each relation
    margin_over_error: float  # the least over all pairs and relations

    @property
    def certified(self) -> bool:
        """Whether all facts score above all non-facts in float64, whatever the order of sums."""
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

    ``progress`` is called with the number of facts whose relation is just done.
    """
    name = check_family(name)
    relations = facts_of(graph, splits)
    factors = relation_factors(relations, effort=effort, threads=threads, progress=progress)
    model = consistent_model(factors, name)
    margin = min(
        (
            model_margin(model, _stored(model), k, facts.heads, facts.tails)
            for k, facts in enumerate(relations)
        ),
    )
    return Construction(model, tuple(f.left.shape[1] for f in factors), margin)


def check_family(name: str) -> str:
    """The family's own name; one that cannot be consistent with every graph is refused."""
    found = find_family(name)
    if found.name not in FAMILIES:
        raise ConfigError(
            f"{found.title} cannot tell the facts of every graph apart, at any size; "
            f"there are {', '.join(FAMILIES)}"
        )
    return found.name


def relation_factors(
    relations: Sequence[RelationFacts],
    *,
    effort: float = 1.0,
    threads: int = 1,
    progress: Callable[[int], None] | None = None,
) -> list[Factors]:
    """Certified factors of every relation; twins have the same arrays."""
    first = twins(relations)
    own = [k for k, (twin, _) in enumerate(first) if twin == k]

    def find(k: int) -> Factors:
        facts = relations[k]
        found = rounding_rank(facts.heads, facts.tails, facts.n, effort=effort, complete=True)
        if progress:
            progress(len(facts))
        assert found.factors is not None  # a coordinate for each row is always possible
        return found.factors

    found = each_of(find, own, relations, threads)
    return [
        Factors(found[twin].right, found[twin].left, found[twin].threshold)
        if turned
        else found[twin]
        for twin, turned in first
    ]


# -- from factors to models ------------------------------------------------------------------------


def consistent_model(factors: Sequence[Factors], name: str) -> Model:
    """The model, in float64, whose relation k scores as left · rightᵀ of its factors.

    Where two relations have the very same arrays, perhaps left and right exchanged, they share
    coordinates.
    """
    _check(factors)
    slices = _Slices.of(factors)
    return {"rescal": _rescal, "complex": _complex, "hole": _hole}[check_family(name)](slices)


def sizes(ranks: Sequence[int], n: int) -> dict[str, int]:
    """The size of each family for distinct relations of these rounding ranks."""
    pairs, odd = sum(3 * (r // 2) + r % 2 for r in ranks), sum(r % 2 for r in ranks)
    hole = 2 * pairs + 1 if odd < 2 else 2 * (pairs + odd - 2) + 2
    return {
        "rescal": max(1, min(n, 2 * sum(ranks))),
        "complex": max(1, pairs + odd),
        "hole": hole,
    }


@dataclass(frozen=True, eq=False)
class _Slices:
    """The distinct factors, and for each relation which ones it has, and if it is the inverse."""

    factors: list[Factors]
    of_relation: list[tuple[int, bool]]

    @classmethod
    def of(cls, factors: Sequence[Factors]) -> "_Slices":
        seen: dict[tuple[int, int], tuple[int, bool]] = {}
        distinct: list[Factors] = []
        for factor in factors:
            key = (id(factor.left), id(factor.right))
            if key not in seen:
                seen[key] = (len(distinct), False)
                seen.setdefault(key[::-1], (len(distinct), True))
                distinct.append(factor)
        return cls(distinct, [seen[id(f.left), id(f.right)] for f in factors])


def _check(factors: Sequence[Factors]) -> None:
    if not factors:
        raise DataError("a model needs the factors of at least one relation (K ≥ 1)")
    shape = (len(factors[0].left),)
    for k, factor in enumerate(factors):
        left, right = factor.left, factor.right
        if left.ndim != 2 or left.shape != right.shape or left.shape[:1] != shape:
            raise DataError(
                f"the factors of relation {k} have shapes {left.shape} and {right.shape}; both "
                f"must have one row for each of the {shape[0]:,} entities, and as many columns"
            )
        if not (np.isfinite(left).all() and np.isfinite(right).all()):
            raise DataError(f"the factors of relation {k} hold numbers that are not finite")


def _rescal(slices: _Slices) -> Model:
    """Entities (L₁ Q₁ L₂ Q₂ …), relations [[0, I], [0, 0]] in their block, or its transpose."""
    n = len(slices.factors[0].left)
    ranks = [factor.left.shape[1] for factor in slices.factors]
    dim = max(1, 2 * sum(ranks))
    _check_memory("RESCAL", n, len(slices.of_relation), min(dim, n), min(dim, n) ** 2)
    if dim > n:
        return _rescal_of_facts(slices)
    entities = np.hstack([side for f in slices.factors for side in (f.left, f.right)])
    entities = entities if entities.shape[1] else np.zeros((n, 1))
    matrices = np.zeros((len(slices.of_relation), dim, dim))
    starts = np.append(0, 2 * np.cumsum(ranks))
    for matrix, (k, turned) in zip(matrices, slices.of_relation, strict=True):
        d = starts[k] + np.arange(ranks[k])
        matrix[d, d + ranks[k]] = 1
        if turned:
            matrix[:] = matrix.T.copy()
    return Model(find_family("rescal"), dim, entities, matrices.reshape(len(matrices), -1))


def _rescal_of_facts(slices: _Slices) -> Model:
    """Where the entities are fewer than the coordinates: A = I, and the matrices hold the facts."""
    n = len(slices.factors[0].left)
    facts = [(f.left @ f.right.T > f.threshold).astype(np.float64) for f in slices.factors]
    matrices = np.stack([facts[k].T if turned else facts[k] for k, turned in slices.of_relation])
    return Model(find_family("rescal"), n, np.eye(n), matrices.reshape(len(matrices), -1))


def _coordinates(slices: _Slices) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Complex and real coordinates of the entities, and their weights in every relation.

    Two columns at a time: with X = l₁ + il₂, Y = q₁ + iq₂ and ω the third root of unity, the three
    coordinates X + ωʲY with weights ωʲ/3 leave Re X Ȳ = l₁q₁ + l₂q₂.  An odd last column takes
    l + iq with weight (1 + i)/2, and the real l − q with weight −½.  Conjugate weights transpose.
    """
    roots = np.exp(2j * np.pi * np.arange(3) / 3)
    pairs, pair_weights, reals = [], [], []
    for factor in slices.factors:
        left, right = _alike(factor.left, factor.right)
        even = left.shape[1] // 2 * 2
        x, y = (side[:, 0:even:2] + 1j * side[:, 1:even:2] for side in (left, right))
        last, other = left[:, even:], right[:, even:]
        pairs.append(np.hstack([*(x + root * y for root in roots), last + 1j * other]))
        weights = np.append(np.repeat(roots / 3, even // 2), [(1 + 1j) / 2] * last.shape[1])
        pair_weights.append(weights)
        reals.append(last - other)
    starts = np.append(0, np.cumsum([len(w) for w in pair_weights]))
    real_starts = np.append(0, np.cumsum([r.shape[1] for r in reals]))
    shape = (len(slices.of_relation), starts[-1])
    of_pairs, of_reals = np.zeros(shape, complex), np.zeros((shape[0], real_starts[-1]))
    for row, (k, turned) in enumerate(slices.of_relation):
        weights = pair_weights[k].conj() if turned else pair_weights[k]
        of_pairs[row, starts[k] : starts[k + 1]] = weights
        of_reals[row, real_starts[k] : real_starts[k + 1]] = -0.5
    return np.hstack(pairs), of_pairs, np.hstack(reals), of_reals


def _alike(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same products from vectors of like sizes; by a power of two, which rounds nothing."""
    sizes = [np.abs(side).max(initial=0) for side in (left, right)]
    if not all(sizes):
        return left, right
    scale = 2.0 ** np.round(np.log2(sizes[1] / sizes[0]) / 2)
    return left * scale, right / scale


def _complex(slices: _Slices) -> Model:
    n, k = len(slices.factors[0].left), len(slices.of_relation)
    dim = sizes([f.left.shape[1] for f in slices.factors], n)["complex"]
    _check_memory("ComplEx", n, k, 2 * dim, 2 * dim)
    pairs, pair_weights, reals, real_weights = _coordinates(slices)
    entities = _padded(np.hstack([pairs, reals]), dim)
    relations = _padded(np.hstack([pair_weights, real_weights]), dim)
    return Model(find_family("complex"), dim, _split(entities), _split(relations))


def _hole(slices: _Slices) -> Model:
    """The first real coordinates stand at the frequencies that are their own conjugates."""
    n, k = len(slices.factors[0].left), len(slices.of_relation)
    dim = sizes([f.left.shape[1] for f in slices.factors], n)["hole"]
    _check_memory("HolE", n, k, dim, dim)
    ends = 2 - dim % 2
    pairs, pair_weights, reals, real_weights = _coordinates(slices)
    rows = []
    for complex_part, real_part in ((pairs, reals), (pair_weights, real_weights)):
        others = _padded(np.hstack([complex_part, real_part[:, ends:]]), (dim - ends) // 2)
        rows.append(np.hstack([_padded(real_part[:, :ends], ends), _split(others)]))
    return Model(find_family("hole"), dim, *rows)


def _stored(model: Model) -> Model:
    """The model as it is read back from a file: HolE's files hold other coordinates."""
    if model.family.name != "hole":
        return model
    return Model(model.family, model.dim, *restore(*export(model.entities, model.relations)))


def _split(rows: np.ndarray) -> np.ndarray:
    return np.hstack([rows.real, rows.imag])


def _padded(rows: np.ndarray, width: int) -> np.ndarray:
    return np.hstack([rows, np.zeros((len(rows), width - rows.shape[1]), dtype=rows.dtype)])


def _check_memory(title: str, n: int, k: int, width: int, relation_width: int) -> None:
    needed = 8 * (n * width + k * relation_width)
    if 3 * needed > physical_memory():
        raise ConfigError(
            f"a consistent {title} model has {needed / 1e9:,.1f} GB of numbers here, too many for "
            "the memory of this machine; 'bilink theory describe' tells its size without making it"
        )
