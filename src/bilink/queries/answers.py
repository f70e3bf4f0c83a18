"""The questions (h, r, ?) and (?, r, t), and their answers as a small table."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bilink.data.graph import Graph
from bilink.data.index import KnownAnswers
from bilink.data.vocabulary import printable
from bilink.errors import ConfigError
from bilink.models.scorer import Scorer, Side
from bilink.ranking.topk import top_candidates


@dataclass(frozen=True)
class Answer:
    """One candidate answer."""

    head: str
    relation: str
    tail: str
    label: str  # of the entity that was asked for, to show to people
    score: float  # higher is more likely; comparable within one question only
    probability: float | None  # None while the scores are not calibrated
    rank: int
    known: bool  # whether the graph holds this triple already


class Answers:
    """The answers to one question, best first.  Printed, they are a table."""

    def __init__(self, question: str, answers: list[Answer]):
        self.question = question
        self._answers = answers

    def __len__(self) -> int:
        return len(self._answers)

    def __iter__(self) -> Iterator[Answer]:
        return iter(self._answers)

    def __getitem__(self, i: int) -> Answer:
        return self._answers[i]

    def to_dict(self) -> dict[str, Any]:
        """As ``bilink query --json`` prints it."""
        return {"answers": [asdict(answer) for answer in self._answers]}

    def __repr__(self) -> str:
        labels = [printable(answer.label) for answer in self._answers]
        width = max(map(len, labels), default=0)
        lines = [self.question]
        for answer, label in zip(self._answers, labels, strict=True):
            mark = "known" if answer.known else "new"
            lines.append(f"{answer.rank:>4}  {label:<{width}}  {answer.score:>9.3f}  {mark}")
        return "\n".join(lines)


def ask(
    scorer: Scorer,
    graph: Graph,
    known: dict[str, KnownAnswers],
    *,
    head: str | None = None,
    relation: str | None = None,
    tail: str | None = None,
    k: int = 10,
    new: bool = False,
) -> Answers:
    """Answer (head, relation, ?) or (?, relation, tail) with the ``k`` best entities.

    With ``new``, facts that the graph holds already are left out.  The entity that is asked about
    is no answer, unless training has some entity that the relation joins to itself.
    """
    if relation is None or (head is None) == (tail is None):
        raise ConfigError("give a relation and either a head or a tail")
    if k < 1:
        raise ConfigError(f"k must be at least 1, not {k}")
    side: Side = "head" if head is None else "tail"
    given = graph.entities.find(head if head is not None else tail or "")
    r = graph.relations.find(relation)
    facts = known[side].of_query(given, r)
    exclude = facts if new else np.empty(0, dtype=np.int32)
    if r not in graph.reflexive_relations:
        exclude = np.append(exclude, given)
    ids, scores = top_candidates(scorer, side, given, r, k, exclude)
    facts_set = set(facts.tolist())
    names, given_name = graph.entities.names, graph.entities.names[given]
    answers = [
        Answer(
            head=names[i] if side == "head" else given_name,
            relation=graph.relations.names[r],
            tail=names[i] if side == "tail" else given_name,
            label=graph.entities.label(i),
            score=float(score),
            probability=None,
            rank=rank,
            known=int(i) in facts_set,
        )
        for rank, (i, score) in enumerate(zip(ids, scores, strict=True), start=1)
    ]
    subject, verb = printable(graph.entities.label(given)), printable(graph.relations.label(r))
    question = f"({subject}, {verb}, ?)" if side == "tail" else f"(?, {verb}, {subject})"
    return Answers(question, answers)
