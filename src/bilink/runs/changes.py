"""What an update changed: probabilities that moved, answers and rules that rose or fell."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from bilink._random import Stream, generator
from bilink._text import printable
from bilink.data.graph import Graph
from bilink.errors import DataError
from bilink.evaluation.entity_ranking import rank_entities
from bilink.evaluation.evidence import Places
from bilink.models.scorer import SIDES, Side
from bilink.paths.model import PathModel
from bilink.queries.rules import RuleReader
from bilink.runs.run import Run

LISTED = 10  # answers of a question that are compared
QUESTIONS = 20  # that are looked at
PLACES = 100  # of each side, drawn from all, whose best answers are looked at as well
_COMPARED = 2e7  # scores, at most, for the MRR
_VALIDATION = 500  # facts, at most
_LEAST = 0.005  # a smaller change of a probability or a confidence is none
_PRINTED = 3

Triple = tuple[str, str, str]


@dataclass(frozen=True)
class MovedFact:
    """A fact that nobody decided about, and its probability before and after."""

    head: str
    relation: str
    tail: str
    head_label: str
    relation_label: str
    tail_label: str
    before: float
    after: float


@dataclass(frozen=True)
class MovedAnswer:
    """An answer and its rank before and after; None where it is not among the first."""

    name: str
    label: str
    before: int | None
    after: int | None


@dataclass(frozen=True)
class MovedAnswers:
    """A question, and the answers that rose and fell; one of head and tail is asked for."""

    head: str | None
    relation: str
    tail: str | None
    labels: dict[str, str]
    rose: list[MovedAnswer]
    fell: list[MovedAnswer]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        parts = {"head": self.head, "relation": self.relation, "tail": self.tail}
        return {
            "question": {key: name for key, name in parts.items() if name is not None},
            "labels": self.labels,
            "rose": [asdict(answer) for answer in self.rose],
            "fell": [asdict(answer) for answer in self.fell],
        }


@dataclass(frozen=True)
class MovedRule:
    """A rule and its confidence before and after; None where there is no such rule."""

    sentence: str
    before: float | None
    after: float | None


@dataclass(frozen=True)
class Changes:
    """What differs between two runs.  Printed, a few lines."""

    facts: list[MovedFact]
    answers: list[MovedAnswers]
    rules: list[MovedRule]
    metrics: dict[str, float] | None  # the MRR on validation facts, before and after

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "facts": [asdict(fact) for fact in self.facts],
            "answers": [answers.to_dict() for answers in self.answers],
            "rules": [asdict(rule) for rule in self.rules],
            "metrics": self.metrics,
        }

    def sentences(self) -> list[str]:
        """For people: the largest changes of each kind."""
        lines = []
        for fact in self.facts[:_PRINTED]:
            name = f"({fact.head_label}, {fact.relation_label}, {fact.tail_label})"
            lines.append(f"probability {fact.before:.1%} → {fact.after:.1%}: {name}")
        for moved in self.answers[:_PRINTED]:
            best = ", ".join(answer.label for answer in moved.rose[:_PRINTED])
            if best:
                asked = [moved.labels.get(part, "?") for part in ("head", "relation", "tail")]
                lines.append(f"answers to ({', '.join(asked)}) that rose: {best}")
        for rule in self.rules[:_PRINTED]:
            old, new = ("none" if x is None else f"{x:.2f}" for x in (rule.before, rule.after))
            lines.append(f"confidence {old} → {new}: {rule.sentence}")
        if self.metrics is not None:
            mrr = " → ".join(f"{self.metrics[when]:.3f}" for when in ("before", "after"))
            lines.append(f"MRR on validation facts: {mrr}")
        return list(map(printable, lines))

    def __repr__(self) -> str:
        return "\n".join(self.sentences()) or "no changes"


def compare_runs(
    before: Run,
    after: Run,
    decided: Iterable[Triple] = (),
    *,
    k: int = 20,
    seed: int = 0,
) -> Changes:
    """What changed from one run to its update, at most ``k`` of each kind.

    Looked at are the questions that the ``decided`` facts answer, and the best answers of some
    places of the graph, drawn at random.  The MRR is that of up to 500 validation facts, each run
    leaving out what it knows.
    """
    triples = list(dict.fromkeys(decided))
    random = generator(seed, Stream.CALIBRATION_QUERIES)
    questions = list(_questions(before, triples))
    answers = list(_moved_answers(before, after, questions, set(triples)))
    answers.sort(key=lambda moved: -len(moved.rose) - len(moved.fell))
    return Changes(
        facts=_moved_facts(before, after, questions, set(triples), random)[:k],
        answers=answers[:k],
        rules=_moved_rules(before, after)[:k],
        metrics=_metrics(before, after, random),
    )


Asked = tuple[Side, str, str]  # what is asked for, the given entity, the relation


def _questions(before: Run, decided: Sequence[Triple]) -> Iterator[Asked]:
    """The questions that the facts answer, of facts evenly chosen from all."""
    entities, relations = before.graph.entities, before.graph.relations
    step = max(1, -(-2 * len(decided) // QUESTIONS))
    found: dict[Asked, None] = {}
    for head, relation, tail in decided[::step]:
        if head in entities and relation in relations:
            found.setdefault(("tail", head, relation))
        if tail in entities and relation in relations:
            found.setdefault(("head", tail, relation))
    yield from found


def _ask(run: Run, question: Asked, k: int) -> list[Any]:
    side, given, relation = question
    if side == "tail":
        return list(run.query(head=given, relation=relation, k=k))
    return list(run.query(relation=relation, tail=given, k=k))


def _moved_answers(
    before: Run, after: Run, questions: Sequence[Asked], decided: set[Triple]
) -> Iterator[MovedAnswers]:
    """The answers that nobody decided about, by their ranks among each other."""
    for question in questions:
        side, given, relation = question
        ranks: list[dict[str, int]] = []
        for run in (before, after):
            answers = _ask(run, question, 2 * LISTED)
            left = [a for a in answers if (a.head, a.relation, a.tail) not in decided][:LISTED]
            ranks.append({getattr(answer, side): i for i, answer in enumerate(left, start=1)})
        old, new = ranks
        entities, far = after.graph.entities, LISTED + 1
        moved = [
            MovedAnswer(name, entities.label(entities.find(name)), old.get(name), new.get(name))
            for name in {**new, **old}
            if old.get(name) != new.get(name)
        ]
        rose = [m for m in moved if (m.after or far) < (m.before or far)]
        fell = [m for m in moved if (m.after or far) > (m.before or far)]
        if rose or fell:
            r = after.graph.relations
            other = "head" if side == "tail" else "tail"
            labels = {
                other: entities.label(entities.find(given)),
                "relation": r.label(r.find(relation)),
            }
            names = {"head": None, "tail": None, other: given}
            yield MovedAnswers(names["head"], relation, names["tail"], labels, rose, fell)


def _moved_facts(
    before: Run,
    after: Run,
    questions: Sequence[Asked],
    decided: set[Triple],
    random: np.random.Generator,
) -> list[MovedFact]:
    """Facts whose probability moved, the largest change first."""
    if before.judge is None or after.judge is None:
        return []
    names, relations = before.graph.entities.names, before.graph.relations.names
    found: dict[Triple, None] = {}
    for question in questions:
        for run in (before, after):
            answers = _ask(run, question, 2 * LISTED)
            found.update(dict.fromkeys((a.head, a.relation, a.tail) for a in answers))
    for h, r, t in _sampled(before, random).tolist():
        found.setdefault((names[h], relations[r], names[t]))
    triples = [
        triple
        for triple in found
        if triple not in decided and all(name in before.graph.entities for name in triple[::2])
    ]
    moved = []
    old, new = before.probability(triples), after.probability(triples)
    for triple, one, two in zip(triples, old, new, strict=True):
        if one is not None and two is not None and abs(two - one) >= _LEAST:
            moved.append(MovedFact(*triple, *_labels(after.graph, triple), one, two))
    return sorted(moved, key=lambda fact: -abs(fact.after - fact.before))


def _sampled(run: Run, random: np.random.Generator) -> np.ndarray:
    """The best answers of some places of the graph."""
    assert run.judge is not None
    evidence, parts = run.judge.evidence, []
    for side in SIDES:
        places = evidence.places(side)
        rows = np.sort(random.permutation(len(places.given))[:PLACES])
        chosen = Places(side, places.given[rows], places.relations[rows])
        parts.append(evidence.lists(chosen, 3).triples)
    return np.concatenate(parts)


def _labels(graph: Graph, triple: Triple) -> tuple[str, str, str]:
    entities, relations = graph.entities, graph.relations
    head, relation, tail = triple
    return (
        entities.label(entities.find(head)),
        relations.label(relations.find(relation)),
        entities.label(entities.find(tail)),
    )


# -- rules -----------------------------------------------------------------------------------------

_Key = tuple[Any, ...]
_Counted = dict[_Key, tuple[float, int]]  # a rule's confidence and number


def _moved_rules(before: Run, after: Run) -> list[MovedRule]:
    """Rules whose confidence moved, the largest change first."""
    changes: list[tuple[float, MovedRule]] = []
    for name, new in after.path_models.items():
        old = before.path_models.get(name)
        if old is None or new.values is not None:
            continue
        readers = RuleReader(old, before.graph), RuleReader(new, after.graph)
        for kind in ("path", "constant"):
            first, second = (_counted(model, kind) for model in (old, new))
            moved = []
            for key in {**second, **first}:
                was, now = first.get(key), second.get(key)
                gap = (now[0] if now else 0.0) - (was[0] if was else 0.0)
                if abs(gap) >= _LEAST:
                    moved.append((abs(gap), was, now))
            moved.sort(key=lambda row: -row[0])
            for gap, was, now in moved[:100]:
                reader, number = (readers[1], now[1]) if now else (readers[0], was[1])  # type: ignore[index]
                rule = getattr(reader, kind)(number, [])
                sentence = printable(f"{rule.head} ← {rule.body}")
                chances = (None if x is None else x[0] for x in (was, now))
                changes.append((gap, MovedRule(sentence, *chances)))
    return [rule for _, rule in sorted(changes, key=lambda row: -row[0])]


def _counted(model: PathModel, kind: str) -> _Counted:
    """The rules by what they say, which does not change when there are more relations."""
    rules, k = model.rules, max(model.rules.n_relations, 1)

    def directed(d: int) -> tuple[int, bool]:
        return (d % k, d >= k) if d >= 0 else (d, False)

    if kind == "path":
        rows, trust = rules.paths.tolist(), rules.path_confidence.tolist()
        return {tuple(map(directed, row)): (trust[i], i) for i, row in enumerate(rows)}
    rows, trust = rules.constants.tolist(), rules.constant_confidence.tolist()
    return {(directed(e), c, directed(s), d): (trust[i], i) for i, (e, c, s, d) in enumerate(rows)}


def _metrics(before: Run, after: Run, random: np.random.Generator) -> dict[str, float] | None:
    """The MRR of either run on some validation facts that both have."""
    valid, size = after.graph.valid, max(len(after.graph.entities), 1)
    count = min(_VALIDATION, int(_COMPARED / size))
    chosen = np.zeros(len(valid), dtype=bool)
    chosen[random.permutation(len(valid))[:count]] = True
    if not chosen.any():
        return None
    found = {}
    for name, run in (("before", before), ("after", after)):
        rest = np.concatenate([run.graph.test, run.graph.valid])  # known as well
        graph = replace(run.graph, valid=valid[chosen], test=rest, negatives={})
        try:
            ranking = rank_entities(run.scorer, graph, "valid")
        except DataError:
            return None
        found[name] = ranking.metrics()["mrr"]
    return found
