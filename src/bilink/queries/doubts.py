"""Which of the graph's own facts look wrong, and what might have been meant.

Each fact is judged by a scorer that did not see it: one that did has learnt it, right or wrong.
Its score becomes log-odds of being true rather than made up, calibrated for each relation on the
facts that this scorer did not see.

A scorer that knows little of an entity doubts everything about it, which is no news.  So the
log-odds count m / (m + 4) of themselves, where m is the number of other facts that the scorer has
seen of the head or the tail, whichever has fewer.  (Chosen by errors planted in WN18RR, UMLS and
Kinship, over ranks of the head and the tail, and over log-odds as they are.)
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit, logit

from bilink._text import printable
from bilink.data.graph import COLUMNS, SPLITS, Graph
from bilink.data.index import KnownAnswers, known_answers
from bilink.errors import ConfigError, DataError
from bilink.evaluation.calibration import Calibration, fit_calibration
from bilink.evaluation.ranks import top_candidates
from bilink.models.scorer import SIDES, Scorer, Side
from bilink.queries.answers import check_count

ERRORS = 0.05  # share of the facts that are thought wrong before one looks
FEW = 4  # other facts that make a doubt count half


@dataclass(frozen=True)
class Suggestion:
    """An entity that the graph suggests in place of another."""

    name: str
    label: str
    probability: float | None  # that the graph lacks this very fact; None without calibration


@dataclass(frozen=True)
class Doubt:
    """A fact, how likely it is, and what might have been meant."""

    head: str
    relation: str
    tail: str
    head_label: str
    relation_label: str
    tail_label: str
    rank: int  # 1 is the most doubtful
    probability: float  # of being true
    score: float  # by the scorer that did not see it
    seen: int  # other facts that it has seen of the head or the tail, whichever has fewer
    suggestions: dict[Side, Suggestion | None]
    side: Side | None  # the end that is more likely the wrong one

    @property
    def suggestion(self) -> Suggestion | None:
        """What the graph suggests for the end that is more likely wrong."""
        return self.suggestions[self.side] if self.side else None

    def to_dict(self) -> dict[str, Any]:
        """As ``bilink audit --json`` prints it."""
        return {**asdict(self), "suggestion": asdict(self.suggestion) if self.suggestion else None}

    def __str__(self) -> str:
        fact = f"({self.head_label}, {self.relation_label}, {self.tail_label})?"
        meant = f"  {self.side} perhaps {self.suggestion.label}" if self.suggestion else ""
        return printable(f"{fact}  {self.probability:.3f}{meant}")


class Doubts:
    """The most doubtful facts of a graph, the worst first.  Printed, they are a table."""

    def __init__(self, facts: list[Doubt], values: np.ndarray, errors: float, fingerprint: str):
        self._facts = facts
        self.values = values  # how doubtful each training fact is, in their order
        self.errors = errors  # share of wrong facts that the probabilities are for
        self.fingerprint = fingerprint  # of the graph

    def __len__(self) -> int:
        return len(self._facts)

    def __iter__(self) -> Iterator[Doubt]:
        return iter(self._facts)

    def __getitem__(self, i: int) -> Doubt:
        return self._facts[i]

    def to_dict(self) -> dict[str, Any]:
        """As ``bilink audit --json`` prints it."""
        return {
            "graph": self.fingerprint,
            "facts": len(self.values),
            "errors": self.errors,
            "doubts": [doubt.to_dict() for doubt in self._facts],
        }

    def rows(self) -> list[dict[str, Any]]:
        """One flat row per fact, for a CSV file."""
        names = ("rank", "head", "relation", "tail", "probability", "score", "seen")
        rows = []
        for doubt in self._facts:
            row = {name: getattr(doubt, name) for name in names}
            for side in SIDES:
                found = doubt.suggestions[side]
                row[f"suggested {side}"] = found.name if found else None
                row[f"{side} probability"] = found.probability if found else None
            rows.append(row)
        return rows

    def __repr__(self) -> str:
        return "\n".join(f"{doubt.rank:>4}  {doubt}" for doubt in self._facts)


def check_audit(k: int, errors: float) -> None:
    """Complain about what ``doubt_facts`` cannot do; a caller asks before it trains."""
    check_count(k)
    if not 0 < errors < 1:
        raise ConfigError(f"errors must be between 0 and 1, not {errors}")


def doubt_facts(
    graph: Graph,
    scorers: Sequence[Scorer],
    fold: np.ndarray,
    *,
    k: int = 50,
    errors: float = ERRORS,
    seed: int = 0,
) -> Doubts:
    """The ``k`` most doubtful training facts of ``graph``.

    Fact i is judged by ``scorers[fold[i]]``, which was trained on all but the facts of that fold.
    ``errors`` is the share of facts that one thinks wrong before looking; it moves probabilities,
    but not the order.
    """
    check_audit(k, errors)
    judges = [
        _Judge.of(graph, scorer, np.flatnonzero(fold == i), seed)
        for i, scorer in enumerate(scorers)
    ]
    values = np.empty(len(graph.train))
    for judge in judges:
        values[judge.rows] = judge.doubts
    known = known_answers(graph, SPLITS)
    facts = [
        judges[fold[row]].describe(int(row), rank, known, errors)
        for rank, row in enumerate(np.argsort(-values, kind="stable")[:k], start=1)
    ]
    return Doubts(facts, values, errors, graph.fingerprint)


@dataclass(eq=False)
class _Judge:
    """A scorer and the facts that it did not see."""

    scorer: Scorer
    graph: Graph  # whose train it saw, and whose valid are the facts to judge
    rows: np.ndarray  # of these facts in the whole graph's train
    scores: np.ndarray
    seen: np.ndarray
    doubts: np.ndarray  # minus the log-odds, as far as they count
    seed: int
    _answers: Calibration | None = None
    _tried: bool = False

    @classmethod
    def of(cls, whole: Graph, scorer: Scorer, rows: np.ndarray, seed: int) -> "_Judge":
        facts, none = whole.train[rows], whole.train[:0]
        seen_facts = np.delete(whole.train, rows, axis=0)
        graph = replace(whole, train=seen_facts, valid=facts, test=none, negatives={})
        scores = np.asarray(scorer.score(facts), dtype=np.float64)
        odds = fit_calibration(scorer, graph, seed=seed).log_odds(facts, scores)
        counts = np.bincount(seen_facts[:, [0, 2]].ravel(), minlength=len(whole.entities))
        seen = counts[facts[:, [0, 2]]].min(axis=1)
        return cls(scorer, graph, rows, scores, seen, -odds * seen / (seen + FEW), seed)

    def describe(self, row: int, rank: int, known: dict[str, KnownAnswers], errors: float) -> Doubt:
        """The fact in that row of train, with names, probability and suggestions."""
        place = int(np.searchsorted(self.rows, row))
        h, r, t = (int(i) for i in self.graph.valid[place])
        entities, relations = self.graph.entities, self.graph.relations
        given: dict[Side, int] = {"head": t, "tail": h}
        suggestions = {side: self._suggest(side, given[side], r, known[side]) for side in SIDES}
        # An end with many right answers hardly needs this one replaced.
        gains = [
            ((s.probability or 0.0) / max(len(known[side].of_query(given[side], r)), 1), side)
            for side, s in suggestions.items()
            if s is not None
        ]
        return Doubt(
            head=entities.names[h],
            relation=relations.names[r],
            tail=entities.names[t],
            head_label=entities.label(h),
            relation_label=relations.label(r),
            tail_label=entities.label(t),
            rank=rank,
            probability=float(expit(-self.doubts[place] + logit(1 - errors))),
            score=float(self.scores[place]),
            seen=int(self.seen[place]),
            suggestions=suggestions,
            side=max(gains)[1] if gains else None,
        )

    def _suggest(self, side: Side, given: int, r: int, known: KnownAnswers) -> Suggestion | None:
        """The best entity seen in this position that is no known answer, as this fact's own is."""
        others = np.ones(len(self.graph.entities), dtype=bool)
        others[self.graph.train[self.graph.train[:, 1] == r, COLUMNS[side][1]]] = False
        others[known.of_query(given, r)] = True
        others[given] |= r not in self.graph.reflexive_relations
        barred = np.flatnonzero(others)
        ids, scores = top_candidates(self.scorer, side, given, r, 1, barred)
        if not len(ids):
            return None
        best = int(ids[0])
        triple = np.array([[given, r, best] if side == "tail" else [best, r, given]])
        calibration = self._answer_calibration()
        return Suggestion(
            self.graph.entities.names[best],
            self.graph.entities.label(best),
            float(calibration.probabilities(triple, scores)[0]) if calibration else None,
        )

    def _answer_calibration(self) -> Calibration | None:
        if not self._tried:
            self._tried = True
            try:
                self._answers = fit_calibration(
                    self.scorer, self.graph, asked="answers", seed=self.seed
                )
            except DataError:  # none of the best answers is right
                self._answers = None
        return self._answers
