"""Consistency: whether every fact of a relation scores above every pair that is no fact.

This is about what a model can represent, not about facts that the graph lacks: a model that is
consistent with a training split scores all missing facts below all known ones.

A check is certified if rounding cannot have changed its result.  A sum of n products in any order,
fused or not, is within γₙ = nu/(1 − nu) times the sum of their absolute values (Higham, Accuracy
and Stability of Numerical Algorithms, section 3.1).  All scores are such sums.  So ``error_bound``
evaluates the model with all signs positive, and counts the roundings that one term goes through.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bilink.data.graph import Graph
from bilink.errors import ConfigError, DataError
from bilink.evaluation.ranks import MEMORY_BUDGET
from bilink.models.model import Model
from bilink.models.scorer import Scorer

_SLACK = 1.01  # for the rounding of the bound itself


@dataclass(frozen=True)
class Margin:
    """The scores of one relation's facts against those of its other pairs."""

    relation: int
    facts: int
    margin: float  # lowest score of a fact − highest of another pair; ∞ if either is missing
    error: float  # by how much rounding may have changed the margin; ∞ where no bound is known

    @property
    def certified(self) -> bool:
        """Whether the margin is positive, whatever rounding has done."""
        return self.margin > self.error or self.margin == math.inf


@dataclass(frozen=True)
class Consistency:
    """The margins of all relations."""

    relations: tuple[Margin, ...]

    @property
    def consistent(self) -> bool:
        """Whether, as computed, every fact is above every other pair of its relation."""
        return all(x.margin > 0 for x in self.relations)

    @property
    def certified(self) -> bool:
        """Whether this is proved for the exact scores too."""
        return all(x.certified for x in self.relations)

    @property
    def margin(self) -> float:
        """The least margin of a relation."""
        return min((x.margin for x in self.relations), default=math.inf)

    @property
    def margin_over_error(self) -> float:
        """The least quotient over all relations; above 1 it is certified."""
        quotients = (
            x.margin / x.error if x.error else math.copysign(math.inf, x.margin or -1)
            for x in self.relations
            if x.margin != math.inf
        )
        return min(quotients, default=math.inf)

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "consistent": self.consistent,
            "certified": self.certified,
            "margin": self.margin,
            "margin_over_error": self.margin_over_error,
        }


def check_consistency(
    model: Model | Scorer, facts: Graph | np.ndarray, *, memory: int = MEMORY_BUDGET
) -> Consistency:
    """Compare the facts of every relation with all its other pairs.

    ``facts`` is a graph, with all its splits, or an array of (head, relation, tail) ids such as
    ``graph.train``.  All N² scores of each relation are computed, in blocks that fit into
    ``memory`` bytes.
    """
    triples = np.unique(np.asarray(facts.triples if isinstance(facts, Graph) else facts), axis=0)
    if triples.ndim != 2 or triples.shape[1] != 3 or len(triples) == 0:
        raise DataError("consistency needs facts: at least one row of head, relation and tail")
    known, scorer = (model, model.scorer) if isinstance(model, Model) else (None, model)
    n = scorer.n_entities
    if triples[:, ::2].max() >= n or triples.min() < 0:
        raise DataError(f"the facts name entities beyond the {n:,} of the model")
    return Consistency(
        tuple(
            _margin(scorer, known, relation, triples[triples[:, 1] == relation], memory)
            for relation in np.unique(triples[:, 1]).tolist()
        )
    )


def _margin(
    scorer: Scorer, model: Model | None, relation: int, facts: np.ndarray, memory: int
) -> Margin:
    """One error bound per block first; one per pair where that is not sharp enough."""
    margin, sure = _margins(scorer, model, relation, facts, memory, sharp=False)
    if model is None:
        return Margin(relation, len(facts), margin, math.inf)
    if sure <= 0 < margin:
        margin, sure = _margins(scorer, model, relation, facts, memory, sharp=True)
    return Margin(relation, len(facts), margin, margin - sure if margin != math.inf else 0.0)


def _margins(
    scorer: Scorer, model: Model | None, relation: int, facts: np.ndarray, memory: int, sharp: bool
) -> tuple[float, float]:
    """The computed margin, and a lower bound on the exact one where the model is known."""
    n = scorer.n_entities
    rows = int(memory // (4 * (n + scorer.width) * 8))
    if rows < 1:
        raise ConfigError(f"the memory budget is too small to score one head with {n:,} tails")
    low = low_sure = math.inf
    high = high_sure = -math.inf
    for start in range(0, n, rows):
        heads = np.arange(start, min(n, start + rows))
        block = scorer.scores("tail", heads, np.full(len(heads), relation))
        scores = block.astype(np.float64, copy=False)
        error: np.ndarray | float = 0.0
        if model is not None:
            bound = error_bound(model, heads, relation)
            error = bound.of_pairs() if sharp else bound.largest()
        errors = np.broadcast_to(error, scores.shape)
        here = facts[(facts[:, 0] >= start) & (facts[:, 0] < start + rows)]
        cells = (here[:, 0] - start, here[:, 2])
        known = scores[cells]
        scores[cells] = -math.inf
        low, high = min(low, known.min(initial=math.inf)), max(high, scores.max())
        low_sure = min(low_sure, (known - errors[cells]).min(initial=math.inf))
        high_sure = max(high_sure, (scores + errors).max())
    return float(low - high), float(low_sure - high_sure)


# -- bounds on rounding ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ErrorBound:
    """|computed − exact| ≤ factor · ⟨queries[i], candidates[j]⟩ + floor for row i and entity j."""

    factor: float
    floor: float
    queries: np.ndarray  # (rows, w) not negative
    candidates: np.ndarray  # (N, w) not negative

    def largest(self) -> float:
        """A bound for all pairs at once."""
        return self.factor * _norm(self.queries) * _norm(self.candidates) + self.floor

    def of_pairs(self) -> np.ndarray:
        """A bound for each pair."""
        return self.factor * (self.queries @ self.candidates.T) + self.floor


def error_bound(model: Model, heads: np.ndarray, relation: int) -> ErrorBound:
    """The bound for scores of (head, relation, any tail) as ``model.scorer`` computes them.

    It is zero where all numbers are whole and so small that nothing is rounded.
    """
    queries, candidates, roundings = _absolute(model, heads, relation)
    precision = np.finfo(model.entities.dtype)
    unit = float(precision.eps) / 2
    sizes = ErrorBound(_SLACK, 0.0, queries, candidates)
    arrays = (model.entities, model.relations[relation])
    is_whole = all(np.array_equal(x, np.round(x)) for x in arrays)
    if is_whole and sizes.largest() * unit < 0.5:
        return ErrorBound(0.0, 0.0, queries, candidates)
    n = roundings + 4  # what the caller does with a score and its bound is rounded too
    floor = n * float(precision.tiny)  # for products too small to be normal numbers
    return ErrorBound(_SLACK * n * unit / (1 - n * unit), floor, queries, candidates)


def _absolute(model: Model, heads: np.ndarray, relation: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Queries and candidates with all signs positive, and the number of roundings of a term."""
    entities = abs(model.entities).astype(np.float64)
    weights = abs(model.relations[relation]).astype(np.float64)
    rows, width = entities[heads], entities.shape[1]
    name = model.family.name
    if name == "rescal":
        return rows @ weights.reshape(width, width), entities, 2 * width
    if name == "distmult":
        return rows * weights, entities, width + 1
    if name in ("complex", "hole"):
        n = 0 if name == "complex" else 2 - width % 2
        return _products(rows, weights, n), entities, width + 2
    if name == "transe":
        middle = abs(np.round(model.entities.mean(axis=0))).astype(np.float64)
        centred, query = entities + middle, rows + weights + middle
        queries = np.column_stack([2 * query, np.ones(len(query)), (query**2).sum(axis=1)])
        squares = (centred**2).sum(axis=1)
        candidates = np.column_stack([centred, squares, np.ones(len(centred))])
        return queries, candidates, 2 * width + 8
    if name != "transe-l1":
        raise ConfigError(f"rounding errors of {model.family.title} are not bounded by the theory")
    # The Manhattan distance: Σ|q| + Σ|c|.
    queries = np.column_stack([(rows + weights).sum(axis=1), np.ones(len(rows))])
    candidates = np.column_stack([np.ones(len(entities)), entities.sum(axis=1)])
    return queries, candidates, width + 2


def _products(rows: np.ndarray, weights: np.ndarray, n: int) -> np.ndarray:
    """|h||r| of n real coordinates, then the two sums that make up each complex product."""
    ends = [n, (n + rows.shape[1]) // 2]
    reals, x, y = np.split(rows, ends, axis=1)
    weight, c, d = np.split(weights, ends)
    return np.hstack([reals * weight, x * c + y * d, x * d + y * c])


def _norm(rows: np.ndarray) -> float:
    return float(np.linalg.norm(rows, axis=1).max(initial=0))
