"""Rankings that a family cannot express at any size, or not below some size."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from bilink.errors import ConfigError
from bilink.models.model import Model
from bilink.models.registry import family as find_family
from bilink.theory.rankings import check_ranking
from bilink.theory.slices import Mixed


@dataclass(frozen=True, eq=False)
class Counterexample:
    """A ranking, and a property that all slices of a family have but this ranking lacks."""

    family: str
    name: str
    ranking: np.ndarray  # (N, N)
    reason: str
    holds: Callable[[np.ndarray], bool]  # the property

    @property
    def facts(self) -> np.ndarray:
        """The Boolean matrix of the pairs at rank 1."""
        return self.ranking == 1

    def check(self) -> bool:
        """Whether the ranking lacks the property, as it should."""
        return not self.holds(self.ranking)

    def __str__(self) -> str:
        rows = "; ".join(" ".join(map(str, row)) for row in self.ranking.tolist())
        return f"{self.reason} Hence the ranking [{rows}] ({self.name}) is out of its reach."


def fits_below_n(matrix: np.ndarray) -> bool:
    """Whether a two-level matrix B can be the order of an N × N slice of RESCAL of size N − 1.

    Such a slice S has v ≠ 0 with Sv = Sᵀv = 0, for any v with Aᵀv = 0.  Two levels force
    S = aB + b11ᵀ, so that Bv and Bᵀv are multiples of the vector of ones.
    """
    facts = (np.asarray(matrix) == np.max(matrix)).astype(np.float64)
    if np.linalg.matrix_rank(facts) < len(facts):
        return True
    ones = np.ones(len(facts))
    both = np.stack([np.linalg.solve(facts, ones), np.linalg.solve(facts.T, ones)])
    return bool(np.linalg.matrix_rank(both) < 2)


COUNTEREXAMPLES = {
    "distmult": Counterexample(
        "distmult",
        "one pair above its mirror image",
        np.array([[2, 1], [3, 2]]),
        "DistMult gives (i, j) and (j, i) the same score, so it cannot rank them apart.",
        lambda matrix: np.array_equal(matrix, matrix.T),
    ),
    "transe": Counterexample(
        "transe",
        "one entity related to itself, another one not",
        np.array([[1, 2], [2, 2]]),
        "TransE gives all pairs (i, i) of a relation the same score, so it cannot rank two of "
        "them apart.",
        lambda matrix: bool(np.all(np.diag(matrix) == matrix[0, 0])),
    ),
}

COUNTEREXAMPLES["transe-l1"] = replace(COUNTEREXAMPLES["transe"], family="transe-l1")


def counterexample(name: str) -> Counterexample:
    """The smallest ranking that no model of the family has, of whatever size."""
    found = find_family(name)
    if found.name not in COUNTEREXAMPLES:
        raise ConfigError(
            f"the theory knows no ranking that every {found.title} model lacks; there are "
            f"counterexamples for {', '.join(COUNTEREXAMPLES)}"
        )
    return COUNTEREXAMPLES[found.name]


def witness(source: str, target: str, dim: int) -> Model:
    """A model of ``source`` with two entities that has the counterexample's ranking."""
    if target == "distmult" and source == "transe":
        first = np.eye(1, dim)  # −‖a + r − a'‖² is 0 from entity 0 to 1, and −4 back
        return Model(find_family("transe"), dim, np.vstack([0 * first, first]), first)
    if target == "transe" and source == "distmult":
        first = np.eye(1, dim)
        return Model(find_family("distmult"), dim, np.vstack([first, 0 * first]), first)
    if target == "distmult":  # antisymmetric: Re(i · 1 · conj(i)) = 1
        form = Mixed.of_pairs(np.array([[1], [1j]]), np.array([[1j]]))
    else:
        nothing, one = np.empty((2, 0)), np.ones((1, 1))
        form = Mixed(nothing, nothing[:1], np.array([[1.0], [0.0]]), one)
    return form.to_model(source, dim)


def below_n(n: int) -> Counterexample:
    """A ranking of ``n`` entities that no RESCAL model of size n − 1 has: the identity and (1, 2).

    So RESCAL is universal at the size N and at none below.  (The N/32 of the paper's Theorem 6
    bounds consistency, which allows ties to be broken.)
    """
    if n < 2:
        raise ConfigError(f"a ranking needs at least two entities (N ≥ 2), not {n}")
    facts = np.eye(n, dtype=np.int64)
    facts[0, 1] = 1
    return Counterexample(
        "rescal",
        "the identity and one fact more",
        check_ranking(2 - facts)[0],
        "A slice S of RESCAL of size N − 1 has v with Sv = Sᵀv = 0, which two levels of scores "
        "allow only if B⁻¹1 and B⁻ᵀ1 are parallel.",
        lambda matrix: fits_below_n(matrix.max() - matrix),
    )
