"""Which of the graph's own facts look wrong, and what might have been meant.

Each fact is judged by a scorer that did not see it: one that did has learnt it, right or wrong.
The evidence for it (``evaluation.evidence``) becomes log-odds, as for any other triple, by weights
that are fitted on the facts that this scorer did not see.  They are moved so that as many facts are
wrong as are thought wrong before one looks.

A scorer that knows little of an entity doubts everything about it, which is no news.  So the
log-odds count m / (m + 4) of themselves, where m is the number of other facts that the scorer has
seen of the head or the tail, whichever has fewer.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from bilink._text import printable
from bilink.data.graph import COLUMNS, SPLITS, Graph
from bilink.data.index import KnownAnswers, known_answers
from bilink.errors import ConfigError
from bilink.evaluation.evidence import Evidence
from bilink.evaluation.probability import Judge, fit_probability
from bilink.evaluation.ranks import top_candidates
from bilink.models.scorer import SIDES, Scorer, Side
from bilink.queries.answers import check_count
from bilink.queries.tables import Table

ERRORS = 0.05  # share of the facts that are thought wrong before one looks
FEW = 4  # other facts that make a doubt count half
SUGGESTED = 10  # candidates that a suggestion is chosen from
_OF_A_FACT = ("rank", "head", "relation", "tail", "probability", "score", "seen")
_OF_SUGGESTIONS = tuple(name for s in SIDES for name in (f"suggested {s}", f"{s} probability"))


@dataclass(frozen=True)
class Suggestion:
    """An entity that the graph suggests in place of another."""

    name: str
    label: str
    probability: float | None  # that the graph lacks this very fact


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


class Doubts(Table):
    """The most doubtful facts of a graph, the worst first.  Printed, they are a table."""

    columns = (*_OF_A_FACT, *_OF_SUGGESTIONS)

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
        """One dictionary per fact."""
        rows = []
        for doubt in self._facts:
            row = {name: getattr(doubt, name) for name in _OF_A_FACT}
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
    shift = _shift(-values, 1 - errors)
    facts = [
        judges[fold[row]].describe(int(row), rank, known, shift)
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
    odds: np.ndarray  # log-odds
    doubts: np.ndarray  # minus the log-odds, as far as they count
    judge: Judge

    @classmethod
    def of(cls, whole: Graph, scorer: Scorer, rows: np.ndarray, seed: int) -> "_Judge":
        facts, none = whole.train[rows], whole.train[:0]
        seen_facts = np.delete(whole.train, rows, axis=0)
        graph = replace(whole, train=seen_facts, valid=facts, test=none, negatives={})
        scores = np.asarray(scorer.score(facts), dtype=np.float64)
        evidence = Evidence(scorer, graph)
        judge = Judge(evidence, fit_probability(scorer, graph, evidence=evidence, seed=seed))
        odds, _ = judge(facts)
        counts = np.bincount(seen_facts[:, [0, 2]].ravel(), minlength=len(whole.entities))
        seen = counts[facts[:, [0, 2]]].min(axis=1)
        return cls(scorer, graph, rows, scores, seen, odds, -odds * seen / (seen + FEW), judge)

    def describe(
        self, row: int, rank: int, known: Mapping[str, KnownAnswers], shift: float
    ) -> Doubt:
        """The fact in that row of train, with names, probability and suggestions."""
        place = int(np.searchsorted(self.rows, row))
        h, r, t = (int(i) for i in self.graph.valid[place])
        entities, relations = self.graph.entities, self.graph.relations
        given: dict[Side, int] = {"head": t, "tail": h}
        least = float(self.odds[place])
        suggestions = {
            side: self._suggest(side, given[side], r, known[side], least) for side in SIDES
        }
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
            probability=float(expit(shift - self.doubts[place])),
            score=float(self.scores[place]),
            seen=int(self.seen[place]),
            suggestions=suggestions,
            side=max(gains)[1] if gains else None,
        )

    def _suggest(
        self, side: Side, given: int, r: int, known: KnownAnswers, least: float
    ) -> Suggestion | None:
        """The best entity that is no known answer, if it is more probable than the fact's own."""
        barred = known.of_query(given, r)
        if r not in self.graph.reflexive_relations:
            barred = np.append(barred, given)
        ids, _ = top_candidates(self.scorer, side, given, r, SUGGESTED, barred)
        if not len(ids):
            return None
        triples = np.empty((len(ids), 3), dtype=np.int64)
        triples[:] = (given, r, given)
        triples[:, COLUMNS[side][1]] = ids
        odds, chances = self.judge(triples)
        best = int(np.argmax(odds))
        if odds[best] <= least:
            return None
        name = int(ids[best])
        return Suggestion(
            self.graph.entities.names[name],
            self.graph.entities.label(name),
            float(chances[best]),
        )


def _shift(odds: np.ndarray, share: float) -> float:
    """What makes the mean probability of all facts the share that is thought true."""
    return brentq(lambda x: expit(odds + x).mean() - share, -100.0, 100.0)
