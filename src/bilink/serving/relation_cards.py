"""What the page says of a relation: numbers, what models can make of it, how good answers are."""

from dataclasses import asdict
from functools import cached_property
from typing import Any

import numpy as np

from bilink.data.graph import SPLITS
from bilink.data.statistics import (
    RelatedRelations,
    RelationStatistics,
    related_relations,
    relation_statistics,
)
from bilink.errors import DataError
from bilink.evaluation.calibration import find_examples
from bilink.evaluation.reliability import reliability
from bilink.models.scorer import SIDES
from bilink.runs.combined import CombinedRun
from bilink.runs.run import Run
from bilink.theory.describe import kept_bounds
from bilink.theory.relations import RelationFacts, facts_of

MOST_BINS, LEAST_IN_BIN = 8, 20  # of a reliability diagram
_NUMBERS = (
    "train",
    "valid",
    "test",
    "heads",
    "tails",
    "tails_per_head",
    "heads_per_tail",
    "category",
    "symmetry",
    "reflexivity",
)


class RelationCards:
    """Everything about the relations of a run; what takes long is found once, when first asked."""

    def __init__(self, run: Run):
        self._run, self._graph, self._chance = run, run.graph, run.probability

    def card(self, r: int) -> dict[str, Any]:
        """One relation; related ones by their id."""
        statistics = asdict(self._statistics[r])
        return {
            **{key: statistics[key] for key in _NUMBERS},
            "related": [
                {
                    "id": pair.second if r == pair.first else pair.first,
                    "kind": pair.kind,
                    "shared": pair.shared,
                }
                for pair in self._alike
                if r in (pair.first, pair.second)
            ],
            "theory": self._theory(r),
            "calibration": self._reliability(r),
            "weights": self.weights.get(self._graph.relations.names[r]),
        }

    def _theory(self, r: int) -> dict[str, Any]:
        """What no model of a family can do, whatever its size; the bounds if they are known."""
        facts = self._relation_facts[r]
        bounds = kept_bounds(facts)
        return {
            "facts": len(facts),
            "symmetric": facts.symmetric,
            "lost_by_distmult": facts.lost_by_distmult(),
            "lost_by_transe": facts.lost_by_transe(),
            "rounding_rank": None if bounds is None else [bounds.lower, bounds.upper],
        }

    def _reliability(self, r: int) -> dict[str, Any] | None:
        """How often answers to questions of the test split are right, by their probability."""
        if self._judged is None:
            return None
        relations, chances, right = self._judged
        mine = relations == r
        bins = min(MOST_BINS, int(mine.sum()) // LEAST_IN_BIN)
        if bins < 2:
            return None
        found = reliability(chances[mine], right[mine], bins)
        return {
            "error": found.ece,
            "said": found.predicted.tolist(),
            "true": found.observed.tolist(),
            "count": found.counts.tolist(),
        }

    @cached_property
    def _judged(self) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Answers to the questions of the test split: relation, probability, whether right."""
        if self._chance is None:
            return None
        try:
            found = find_examples(self._run.scorer, self._graph, "test", "answers")
        except DataError:  # there are none
            return None
        return found.relations, self._chance(found.triples, found.scores), found.labels

    @cached_property
    def _relation_facts(self) -> list[RelationFacts]:
        return facts_of(self._graph, SPLITS)

    @cached_property
    def _statistics(self) -> list[RelationStatistics]:
        return relation_statistics(self._graph)

    @cached_property
    def _alike(self) -> list[RelatedRelations]:
        return related_relations(self._graph)

    @cached_property
    def members(self) -> list[str]:
        """The names of an ensemble's models."""
        return list(self._run.members) if isinstance(self._run, CombinedRun) else []

    @cached_property
    def weights(self) -> dict[str, dict[str, Any]]:
        """Each member's share of the score, by relation and side; nothing but for ensembles."""
        if not isinstance(self._run, CombinedRun):
            return {}
        return {
            row["relation"]: {
                "relation": row["relation"],
                **{side: [row[f"{side} {name}"] for name in self.members] for side in SIDES},
            }
            for row in self._run.shares()
        }
