"""Consistency: whether every fact of a relation scores above every pair that is no fact.

This is what a model *can* say of a graph.  It is no promise about facts that the graph lacks: a
model that is consistent with a training split puts all missing facts below all known ones.
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
from bilink.theory.floating import error_bound


@dataclass(frozen=True)
class Margin:
    """How one relation's facts stand to its other pairs."""

    relation: int
    facts: int
    margin: float  # lowest score of a fact minus highest of another pair; ∞ if one kind is missing
    error: float  # how much of the margin rounding may have made; ∞ where no bound is known

    @property
    def certified(self) -> bool:
        """Whether the margin is positive whatever rounding did."""
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
        """Whether this holds of the true scores too, beyond all rounding."""
        return all(x.certified for x in self.relations)

    @property
    def margin(self) -> float:
        """The least margin of a relation."""
        return min((x.margin for x in self.relations), default=math.inf)

    @property
    def margin_over_error(self) -> float:
        """The least quotient of a relation; above 1 it is certified."""
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

    ``facts`` is a graph, of which all splits count, or an array of (head, relation, tail) ids; to
    look at the training split alone, pass ``graph.train``.  All N² scores of each relation are
    computed, in blocks that fit into ``memory`` bytes.
    """
    triples = np.unique(np.asarray(facts.triples if isinstance(facts, Graph) else facts), axis=0)
    if triples.ndim != 2 or triples.shape[1] != 3 or len(triples) == 0:
        raise DataError("consistency needs facts: at least one row of head, relation and tail")
    scorer: Scorer = model.scorer if isinstance(model, Model) else model
    n = scorer.n_entities
    if triples[:, ::2].max() >= n or triples.min() < 0:
        raise DataError(f"the facts name entities beyond the {n:,} of the model")
    return Consistency(
        tuple(
            _margin(model, scorer, relation, triples[triples[:, 1] == relation], memory)
            for relation in np.unique(triples[:, 1]).tolist()
        )
    )


def _margin(
    model: Model | Scorer, scorer: Scorer, relation: int, facts: np.ndarray, memory: int
) -> Margin:
    """A cheap bound for whole blocks first; one for each pair where that leaves a doubt."""
    margin, sure = _extremes(model, scorer, relation, facts, memory, sharp=False)
    if isinstance(model, Model) and sure <= 0 < margin:
        margin, sure = _extremes(model, scorer, relation, facts, memory, sharp=True)
    error = margin - sure if margin != math.inf else 0.0
    return Margin(relation, len(facts), margin, error if isinstance(model, Model) else math.inf)


def _extremes(
    model: Model | Scorer,
    scorer: Scorer,
    relation: int,
    facts: np.ndarray,
    memory: int,
    sharp: bool,
) -> tuple[float, float]:
    """(computed margin, a lower bound on the true one)."""
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
        error = _errors(model, heads, relation, sharp)
        here = facts[(facts[:, 0] >= start) & (facts[:, 0] < start + rows)]
        cells = (here[:, 0] - start, here[:, 2])
        known = scores[cells]
        scores[cells] = -math.inf
        if isinstance(error, np.ndarray):
            low_sure = min(low_sure, (known - error[cells]).min(initial=math.inf))
            scores_sure = float((scores + error).max())
        else:
            low_sure = min(low_sure, known.min(initial=math.inf) - error)
            scores_sure = float(scores.max()) + error
        low, high = min(low, known.min(initial=math.inf)), max(high, float(scores.max()))
        high_sure = max(high_sure, scores_sure)
    return float(low - high), float(low_sure - high_sure)


def _errors(
    model: Model | Scorer, heads: np.ndarray, relation: int, sharp: bool
) -> np.ndarray | float:
    if not isinstance(model, Model):
        return 0.0
    bound = error_bound(model, heads, relation)
    return bound.of_pairs() if sharp else bound.largest()
