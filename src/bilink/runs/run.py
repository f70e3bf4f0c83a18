"""A run: something that scores, with the graph it knows."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bilink.data.graph import SPLITS, Graph
from bilink.data.index import KnownAnswers, known_answers
from bilink.evaluation.classification import Classification, classify_triples
from bilink.evaluation.entity_ranking import EntityRanking, rank_entities
from bilink.models.scorer import Scorer
from bilink.queries.answers import Answers, AnswerSets
from bilink.queries.asking import Asker, Probability
from bilink.queries.questions import Question


class Run:
    """A graph and what scores its triples: ask it, evaluate it, score triples with it."""

    graph: Graph
    path: Path | None  # its folder, if it has one

    @property
    def scorer(self) -> Scorer:
        """What ranks and answers."""
        raise NotImplementedError

    @cached_property
    def _known(self) -> dict[str, KnownAnswers]:
        return known_answers(self.graph, SPLITS)

    @property
    def probability(self) -> Probability | None:
        """From triples of ids and their scores to probabilities, where the run is calibrated."""
        return None

    @cached_property
    def _asker(self) -> Asker:
        return Asker(self.scorer, self.graph, self._known, self.probability)

    def query(
        self,
        *,
        head: str | None = None,
        relation: str | None = None,
        tail: str | None = None,
        k: int = 10,
        new: bool = False,
        only: str | Sequence[str] | None = None,
        **search: Any,
    ) -> Answers:
        """The ``k`` best answers to (h, r, ?), (?, r, t), (h, ?, t) or (?, r, ?).

        Names and unambiguous labels are understood.  ``new`` leaves out what the graph holds;
        ``only`` limits the answers to entities ``"seen"`` in that position of the relation, or to a
        list of names.  ``search`` is for pairs: ``progress``, called with the number of heads just
        done, ``stop``, which ends the search when it returns true, and ``memory`` in bytes.
        """
        return self._asker.ask(
            head=head, relation=relation, tail=tail, k=k, new=new, only=only, **search
        )

    def query_all(self, questions: Sequence[Question], **options: Any) -> AnswerSets:
        """The answers to many questions, such as ``bilink.read_questions`` reads from a file."""
        return self._asker.ask_all(questions, **options)

    def new_facts(self, k: int = 10, **options: Any) -> Answers:
        """The ``k`` best facts of all relations that the graph does not hold."""
        return self._asker.facts(k=k, **options)

    def score(self, triples: Iterable[tuple[str, str, str]]) -> np.ndarray:
        """The score of each (head, relation, tail) of names; higher is more likely."""
        find, verbs = self.graph.entities.find, self.graph.relations.find
        ids = [(find(h), verbs(r), find(t)) for h, r, t in triples]
        return self.scorer.score(np.array(ids, dtype=np.int32).reshape(-1, 3))

    def evaluate(self, split: str = "test", **protocol: Any) -> EntityRanking:
        """Rank the held-out triples of ``split``; see ``bilink.rank_entities`` for options."""
        return rank_entities(self.scorer, self.graph, split, **protocol)

    def classify(self, split: str = "test", **protocol: Any) -> Classification:
        """Tell true from false triples of ``split``; see ``bilink.classify_triples``."""
        return classify_triples(self.scorer.score, self.graph, split, **protocol)
