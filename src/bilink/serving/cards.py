"""What the page shows of a relation, and of the facts in doubt."""

import math
from dataclasses import asdict
from functools import cached_property
from typing import Any

from bilink._text import printable
from bilink.data.graph import SPLITS
from bilink.data.statistics import RelatedRelations, related_relations, relation_statistics
from bilink.errors import DataError, TrainingError
from bilink.evaluation.probability import Asked, ask_test
from bilink.evaluation.reliability import reliability
from bilink.models.scorer import SIDES
from bilink.runs.audit import kept_doubts
from bilink.runs.combined import CombinedRun
from bilink.runs.run import Run
from bilink.theory.description import kept_bounds
from bilink.theory.relations import RelationFacts, facts_of

NOT_FINITE = (
    "the model gives numbers that are not finite, which mean nothing; "
    "train it again with a smaller learning rate or more regularization"
)
MOST_BINS, LEAST_IN_BIN = 8, 20  # of a reliability diagram


def finite(value: float | None) -> float | None:
    """The number as JSON has it, or None if there is none; infinity and NaN are an error."""
    if value is None:
        return None
    if not math.isfinite(value):
        raise TrainingError(NOT_FINITE)
    return float(value)


class RelationCards:
    """Statistics, theory and reliability of relations; what takes long is computed on demand."""

    def __init__(self, run: Run):
        self._run, self._graph = run, run.graph

    def card(self, r: int) -> dict[str, Any]:
        """The card of relation ``r``; related relations are given by id."""
        statistics = self._statistics[r].items()
        return {
            **{key: value for key, value in statistics if key not in ("id", "name")},
            "related": [
                {
                    "id": pair.second if r == pair.first else pair.first,
                    "kind": pair.kind,
                    "shared": pair.shared,
                }
                for pair in self._related
                if r in (pair.first, pair.second)
            ],
            "theory": self._theory(r),
            "calibration": self._reliability(r),
            "weights": self.weights.get(self._graph.relations.names[r]),
        }

    def _theory(self, r: int) -> dict[str, Any]:
        """Facts that a family of models must lose at any size; bounds if they were computed."""
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
        rows = self._judged.relations == r
        bins = min(MOST_BINS, int(rows.sum()) // LEAST_IN_BIN)
        if bins < 2:
            return None
        judged = self._judged
        found = reliability(judged.probabilities[rows], judged.right[rows], bins)
        return {
            "error": found.ece,
            "said": found.predicted.tolist(),
            "true": found.observed.tolist(),
            "count": found.counts.tolist(),
        }

    @cached_property
    def _judged(self) -> Asked | None:
        """The best answers to the questions of the test split."""
        if self._run.judge is None:
            return None
        try:
            return ask_test(self._run.scorer, self._graph)
        except DataError:  # the test split is empty
            return None

    @cached_property
    def _relation_facts(self) -> list[RelationFacts]:
        return facts_of(self._graph, SPLITS)

    @cached_property
    def _statistics(self) -> list[dict[str, Any]]:
        return [asdict(row) for row in relation_statistics(self._graph)]

    @cached_property
    def _related(self) -> list[RelatedRelations]:
        return related_relations(self._graph)

    @cached_property
    def members(self) -> list[str]:
        """The names of an ensemble's models."""
        return list(self._run.members) if isinstance(self._run, CombinedRun) else []

    @cached_property
    def weights(self) -> dict[str, dict[str, Any]]:
        """Each member's share of the score, by relation and side; empty unless an ensemble."""
        found: dict[str, dict[str, Any]] = {}
        for row in self._run.shares() if isinstance(self._run, CombinedRun) else ():
            found[row["relation"]] = {"relation": row["relation"]}
            for side in SIDES:
                found[row["relation"]][side] = [row[f"{side} {name}"] for name in self.members]
        return found


def doubts_of(run: Run) -> list[dict[str, Any]] | None:
    """The rows that an audit left in the run's folder; None where there was no audit."""
    kept = kept_doubts(run)
    return None if kept is None else [_doubt(row) for row in kept]


def _doubt(row: dict[str, Any]) -> dict[str, Any]:
    best = row.get("suggestion")
    names = ("head", "relation", "tail")
    return {
        **{name: row[name] for name in names},
        **{f"{name}_label": printable(row[f"{name}_label"]) for name in names},
        "probability": finite(row.get("probability")),
        "score": finite(row.get("score")),
        "side": row.get("side"),
        "suggestion": None
        if best is None
        else {
            "name": best["name"],
            "label": printable(best["label"]),
            "probability": finite(best.get("probability")),
        },
    }
