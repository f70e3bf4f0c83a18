"""Which of the graph's own facts look wrong, and what might have been meant.

Each fact is judged by a scorer that did not see it: one that did has learnt it, right or wrong.
Errors are planted to see what they look like: some facts get another head or tail of the same
relation, and the evidence for them (``evaluation.evidence``) is gathered as if the graph had held
them from the start.  A logistic regression tells the evidence for facts from that for errors.  Some
of the facts are wrong themselves, so it is fitted again with each fact counting as much as it is
thought right, until that settles.  It is fitted on other folds than those it judges.

Some relations are easy to predict, and a fact that is not predicted is suspicious there; in others
nothing follows from it.  So the regression also sees how well the facts of the relation are
predicted in general, and by how much this one is worse.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit, logit

from bilink._random import Stream, generator
from bilink._text import printable
from bilink._threads import single_threaded_blas
from bilink.data.graph import COLUMNS, SPLITS, Graph
from bilink.data.index import KnownAnswers, known_answers
from bilink.errors import ConfigError
from bilink.evaluation.evidence import FEATURES, Evidence
from bilink.evaluation.probability import Judge, fit_probability
from bilink.evaluation.ranks import top_candidates
from bilink.models.scorer import SIDES, Scorer, Side
from bilink.queries.answers import check_count
from bilink.queries.tables import Table

ERRORS = 0.05  # share of the facts that are thought wrong before one looks
SUGGESTED = 10  # candidates that a suggestion is chosen from
PLANTED = 0.1  # share of facts that are replaced at a time, to see what errors look like
_ROUNDS, _ERRORS = 5, 2_000  # at most so often, and so many errors at a time, in each fold
_FACTS = 20_000  # that the regression is fitted on, at most
_STEPS = 5  # of fitting again
_PRIOR = 5.0  # facts by which a relation's usual evidence is drawn to that of all
_LOG_PROBABILITIES = [
    FEATURES.index(f"{side}: log-probability among the candidates") for side in SIDES
]
_LOG_RANKS = [FEATURES.index(f"{side}: logarithm of the rank") for side in SIDES]
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
    """Facts that are more likely wrong than right, the worst first.  Printed, they are a table."""

    columns = (*_OF_A_FACT, *_OF_SUGGESTIONS)

    def __init__(self, facts: list[Doubt], values: np.ndarray, errors: float, fingerprint: str):
        self._facts = facts
        self.values = values  # log-odds that each fact of ``graph.triples`` is wrong
        self.errors = errors  # share of wrong facts that the probabilities are for
        self.fingerprint = fingerprint  # of the graph

    def __len__(self) -> int:
        return len(self._facts)

    def __iter__(self) -> Iterator[Doubt]:
        return iter(self._facts)

    def __getitem__(self, i: int) -> Doubt:
        return self._facts[i]

    @property
    def likely_wrong(self) -> int:
        """How many facts are more likely wrong than right; not all of them may be listed."""
        return int((self.values > 0).sum())

    def to_dict(self) -> dict[str, Any]:
        """As ``bilink audit --json`` prints it."""
        return {
            "graph": self.fingerprint,
            "facts": len(self.values),
            "errors": self.errors,
            "likely_wrong": self.likely_wrong,
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
    """The facts of ``graph`` that are more likely wrong than right, at most ``k``.

    Fact i of ``graph.triples`` is judged by ``scorers[fold[i]]``, which was trained without the
    facts of that fold.  ``errors`` is the share of facts that one thinks wrong before looking.
    """
    check_audit(k, errors)
    parts = [_Part.of(graph, scorer, fold, i, seed) for i, scorer in enumerate(scorers)]
    values = _log_odds(parts, graph, fold, errors, seed)
    order = np.argsort(-values, kind="stable")
    known = known_answers(graph, SPLITS)
    facts = [
        parts[fold[row]].describe(int(row), rank, known, float(values[row]))
        for rank, row in enumerate(order[: min(k, int((values > 0).sum()))], start=1)
    ]
    return Doubts(facts, values, errors, graph.fingerprint)


def _log_odds(
    parts: Sequence["_Part"], graph: Graph, fold: np.ndarray, errors: float, seed: int
) -> np.ndarray:
    """How likely each fact is wrong: the regression of each fold is fitted on the others."""
    relations = graph.triples[:, 1]
    features = np.empty((len(fold), len(FEATURES)))
    for part in parts:
        features[part.rows] = part.features
    usual = _Usual.of(features, relations, len(graph.relations))
    facts = usual.added(features, relations)
    wrong = [usual.added(part.error_features, part.errors[:, 1]) for part in parts]
    random = generator(seed, Stream.AUDIT_ERRORS)
    chosen = np.zeros(len(fold), dtype=bool)
    chosen[random.permutation(len(fold))[:_FACTS]] = True
    values, prior = np.zeros(len(fold)), logit(errors)
    for _ in range(_STEPS):
        right = expit(-values - prior) if values.any() else np.ones(len(fold))
        found = np.empty(len(fold))
        for i in range(len(parts)):
            others = np.concatenate([w for j, w in enumerate(wrong) if j != i])
            here = chosen & (fold != i)
            found[fold == i] = _separate(facts[here], right[here], others, facts[fold == i])
        values = found
    return values + prior


def _separate(
    facts: np.ndarray, right: np.ndarray, errors: np.ndarray, judged: np.ndarray
) -> np.ndarray:
    """Log-odds that rows are errors and not facts, both being equally frequent."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if not len(errors) or not right.sum() > 0:
        return np.zeros(len(judged))
    rows = np.concatenate([facts, errors])
    labels = np.repeat([0, 1], [len(facts), len(errors)])
    weights = np.concatenate([right / right.sum(), np.full(len(errors), 1 / len(errors))])
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    with single_threaded_blas():
        model.fit(rows, labels, logisticregression__sample_weight=weights * len(rows) / 2)
        return model.decision_function(judged)


@dataclass(frozen=True, eq=False)
class _Usual:
    """How well the facts of each relation are predicted: mean and spread of log-probabilities."""

    mean: np.ndarray  # (relations, sides)
    spread: np.ndarray

    @classmethod
    def of(cls, features: np.ndarray, relations: np.ndarray, count: int) -> "_Usual":
        values = features[:, _LOG_PROBABILITIES]
        number = np.bincount(relations, minlength=count)[:, None]
        sums, squares = (
            np.stack([np.bincount(relations, column, minlength=count) for column in x.T], axis=1)
            for x in (values, values**2)
        )
        own = sums / np.maximum(number, 1)
        mean = (sums + _PRIOR * values.mean(axis=0)) / (number + _PRIOR)
        variance = squares - number * own**2 + _PRIOR * values.var(axis=0)
        return cls(mean, np.sqrt(np.maximum(variance / (number + _PRIOR), 1e-6)))

    def added(self, features: np.ndarray, relations: np.ndarray) -> np.ndarray:
        """The features with what is usual, by how much each differs from it, and products."""
        mean, spread = self.mean[relations], self.spread[relations]
        own = features[:, _LOG_PROBABILITIES]
        products = [features[:, [column]] * mean for column in (*_LOG_PROBABILITIES, *_LOG_RANKS)]
        return np.hstack([features, mean, spread, (own - mean) / spread, *products])


@dataclass(eq=False)
class _Part:
    """A scorer, the facts that it did not see, and errors planted among them."""

    scorer: Scorer
    graph: Graph  # whose train it saw, and whose valid are the facts to judge
    rows: np.ndarray  # of these facts among all
    seen: np.ndarray  # of each, other facts of the end that has fewer
    features: np.ndarray
    errors: np.ndarray
    error_features: np.ndarray
    judge: Judge  # for suggestions
    odds: np.ndarray  # of the facts, by the judge

    @classmethod
    def of(cls, whole: Graph, scorer: Scorer, fold: np.ndarray, i: int, seed: int) -> "_Part":
        rows, train = np.flatnonzero(fold == i), whole.train[fold[: len(whole.train)] != i]
        others = np.flatnonzero(fold != i)
        graph = replace(
            whole,
            train=train,
            valid=whole.triples[rows],
            test=whole.triples[others[others >= len(whole.train)]],  # known, but not seen
            negatives={},
        )
        evidence = Evidence(scorer, graph)
        features = evidence.features(graph.valid)
        errors, found = _plant(scorer, graph, whole, i, seed)
        judge = Judge(evidence, fit_probability(scorer, graph, evidence=evidence, seed=seed))
        odds = judge.probability.log_odds(features)
        counts = np.bincount(train[:, [0, 2]].ravel(), minlength=len(whole.entities))
        seen = counts[graph.valid[:, [0, 2]]].min(axis=1)
        return cls(scorer, graph, rows, seen, features, errors, found, judge, odds)

    def describe(
        self, row: int, rank: int, known: Mapping[str, KnownAnswers], value: float
    ) -> Doubt:
        """The fact in that row, with names, probability and suggestions."""
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
            probability=float(expit(-value)),
            score=float(self.scorer.score(self.graph.valid[[place]])[0]),
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


def _plant(
    scorer: Scorer, graph: Graph, whole: Graph, i: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Errors in place of some facts of ``graph.valid``, and the evidence for them.

    The graph holds the error and not the fact that it replaces, as one with errors does.
    """
    random = generator(seed, Stream.AUDIT_ERRORS, i)
    facts, known = graph.valid.astype(np.int64), known_answers(whole, SPLITS)
    by_relation = whole.triples[np.argsort(whole.triples[:, 1], kind="stable")].astype(np.int64)
    starts = np.searchsorted(by_relation[:, 1], np.arange(len(whole.relations) + 1))
    count = min(_ERRORS, max(1, round(PLANTED * len(facts))))
    rounds = min(_ROUNDS, -(-_ERRORS // count))
    errors, features = [facts[:0]], [np.empty((0, len(FEATURES)))]
    for _ in range(rounds):
        places = random.permutation(len(facts))[:count]
        drawn = facts[places]
        first, last = starts[drawn[:, 1]], starts[drawn[:, 1] + 1]
        others = by_relation[random.integers(first, last)]
        column = np.where(random.random(len(drawn)) < 0.5, 0, 2)
        drawn[np.arange(len(drawn)), column] = others[np.arange(len(drawn)), column]
        wrong = ~known.holds(drawn)
        places, drawn = places[wrong], drawn[wrong]
        planted = facts.copy()
        planted[places] = drawn
        errors.append(drawn)
        features.append(Evidence(scorer, replace(graph, valid=planted)).features(drawn))
    return np.concatenate(errors), np.concatenate(features)
