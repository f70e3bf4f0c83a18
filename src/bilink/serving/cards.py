"""What the page shows of a relation, and of the facts in doubt."""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import cached_property
from typing import Any

from bilink._text import printable
from bilink.data.graph import SPLITS
from bilink.data.statistics import related_relations, relation_statistics
from bilink.errors import DataError, TrainingError
from bilink.evaluation.probability import Asked, ask_test
from bilink.evaluation.reliability import reliability
from bilink.models.scorer import SIDES
from bilink.runs.audit import kept_doubts
from bilink.runs.combined import CombinedRun
from bilink.runs.run import Run
from bilink.serving.pools import Background
from bilink.theory.description import kept_bounds
from bilink.theory.relations import RelationFacts, facts_of

NOT_FINITE = (
    "the model gives numbers that are not finite, which mean nothing; "
    "train it again with a smaller learning rate or more regularization"
)
HURRY = 5.0  # seconds; who waits for fewer does not wait for reliability
PREPARED = 2000  # relations whose theory is prepared before anybody asks
MOST_BINS, LEAST_IN_BIN = 8, 20  # of a reliability diagram


def finite(value: float | None) -> float | None:
    """The number as JSON has it, or None if there is none; infinity and NaN are an error."""
    if value is None:
        return None
    if not math.isfinite(value):
        raise TrainingError(NOT_FINITE)
    return float(value)


class Part:
    """Something that takes long, computed once, by the background or by whoever is in a hurry."""

    def __init__(self, compute: Callable[[], Any]):
        self._compute = compute
        self._done, self._lock = threading.Event(), threading.Lock()
        self._value: Any = None
        self._error: Exception | None = None

    def __call__(self) -> Any:
        """The value, computed now if need be; the same error each time it fails."""
        with self._lock:
            if not self._done.is_set():
                try:
                    self._value = self._compute()
                except Exception as error:
                    self._error = error
                self._done.set()
        if self._error is not None:
            raise self._error
        return self._value

    def is_ready(self, seconds: float) -> bool:
        """Whether it is computed, or will be within so many seconds."""
        return self._done.wait(min(max(0.0, seconds), threading.TIMEOUT_MAX))


class RelationCards:
    """Statistics, theory and reliability of relations; a background makes what takes long."""

    def __init__(self, run: Run, background: Background):
        self._run, self._graph, self._background = run, run.graph, background
        self._judging = Background()  # what takes minutes keeps nothing else waiting
        self._related = Part(lambda: related_relations(run.graph))
        self._judged = Part(self._ask_test)
        self._theories = [
            Part(lambda r=r: self._theory(r))  # type: ignore[misc]
            for r in range(len(run.graph.relations))
        ]
        self._asked: set[tuple[int, bool]] = set()  # parts that the background knows of

    def prepare(self, order: list[int]) -> None:
        """Have the cards made in the background, those of the first relations first.

        Reliability takes all cores for a while, so it waits until someone looks at a card, and has
        a background of its own.
        """
        self._background.add(lambda: self._statistics)
        for part in [self._related, *(self._theories[r] for r in order[:PREPARED])]:
            self._ask_for(part)

    def _ask_for(self, part: Part, first: bool = False) -> None:
        if (id(part), first) not in self._asked:
            self._asked.add((id(part), first))
            background = self._judging if part is self._judged else self._background
            background.add(part, first=first)

    def card(self, r: int, seconds: float) -> dict[str, Any]:
        """The card of relation ``r``; related relations are given by id.

        What is not ready after so many seconds is left out, and the card is pending.  Reliability
        takes longer, and is not waited for in a hurry.
        """
        statistics = self._statistics[r].items()
        parts = {
            "related": self._related,
            "theory": self._theories[r],
            "calibration": self._judged,
        }
        for part in reversed(parts.values()):
            if not part.is_ready(0):
                self._ask_for(part, first=part is not self._judged)
        end = time.monotonic() + seconds
        ready = {
            name: part.is_ready(
                0 if part is self._judged and seconds < HURRY else end - time.monotonic()
            )
            for name, part in parts.items()
        }
        return {
            **{key: value for key, value in statistics if key not in ("id", "name")},
            "related": self._related_to(r) if ready["related"] else [],
            "theory": self._theories[r]() if ready["theory"] else None,
            "calibration": self._reliability(r) if ready["calibration"] else None,
            "weights": self.weights.get(self._graph.relations.names[r]),
            "pending": not all(ready.values()),
        }

    def _related_to(self, r: int) -> list[dict[str, Any]]:
        return [
            {
                "id": pair.second if r == pair.first else pair.first,
                "kind": pair.kind,
                "shared": pair.shared,
            }
            for pair in self._related()
            if r in (pair.first, pair.second)
        ]

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
        judged: Asked | None = self._judged()
        if judged is None:
            return None
        rows = judged.relations == r
        bins = min(MOST_BINS, int(rows.sum()) // LEAST_IN_BIN)
        if bins < 2:
            return None
        found = reliability(judged.probabilities[rows], judged.right[rows], bins)
        return {
            "error": found.ece,
            "said": found.predicted.tolist(),
            "true": found.observed.tolist(),
            "count": found.counts.tolist(),
        }

    def _ask_test(self) -> Asked | None:
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
