"""A run: something that scores, with the graph it knows."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bilink.data.graph import SPLITS, Graph
from bilink.data.index import KnownAnswers, known_answers
from bilink.evaluation.classification import Classification, classify_triples
from bilink.evaluation.entity_ranking import EntityRanking, rank_entities
from bilink.models.model import Model
from bilink.models.scorer import Scorer
from bilink.queries.answers import Answers, ask
from bilink.queries.explain import Explanation, explain
from bilink.queries.export import Vectors
from bilink.training.fold_in import Frozen


class Run:
    """A graph and what scores its triples: ask it, evaluate it, score triples with it."""

    graph: Graph
    path: Path | None  # its folder, if it has one

    @property
    def scorer(self) -> Scorer:
        """What ranks and answers."""
        raise NotImplementedError

    @property
    def models(self) -> Mapping[str, Model]:
        """What the scorer is made of, by name."""
        raise NotImplementedError

    @cached_property
    def frozen(self) -> dict[str, Frozen]:
        """The models as new entities meet them; looked at once."""
        return {name: Frozen.of(model, self.graph) for name, model in self.models.items()}

    @cached_property
    def _known(self) -> dict[str, KnownAnswers]:
        return known_answers(self.graph, SPLITS)

    def query(
        self,
        *,
        head: str | None = None,
        relation: str | None = None,
        tail: str | None = None,
        k: int = 10,
        new: bool = False,
    ) -> Answers:
        """The ``k`` best answers to (head, relation, ?) or (?, relation, tail).

        Names and unambiguous labels are understood.  ``new`` leaves out what the graph holds.
        """
        return ask(
            self.scorer,
            self.graph,
            self._known,
            head=head,
            relation=relation,
            tail=tail,
            k=k,
            new=new,
        )

    def score(self, triples: Iterable[tuple[str, str, str]]) -> np.ndarray:
        """The score of each (head, relation, tail) of names; higher is more likely."""
        find, verbs = self.graph.entities.find, self.graph.relations.find
        ids = [(find(h), verbs(r), find(t)) for h, r, t in triples]
        return self.scorer.score(np.array(ids, dtype=np.int32).reshape(-1, 3))

    def explain(self, head: str, relation: str, tail: str, k: int = 5) -> Explanation:
        """What speaks for a triple: training facts, members, analogies, paths; approximate."""
        return explain(self.scorer, self.models, self.graph, self._known, head, relation, tail, k)

    def vectors(self) -> Vectors:
        """Candidates and queries as vectors whose inner product is the score."""
        return Vectors(self.scorer, self.graph)

    def fold_in(
        self,
        triples: Iterable[tuple[str, str, str]],
        names: Sequence[str] | None = None,
        *,
        out: str | Path | None = None,
        force: bool = False,
        seed: int = 0,
    ) -> "Run":
        """A run with the new entities of ``triples``, placed with all else frozen.

        ``names`` are the new entities; without them, all that the graph does not know are new.
        With ``out``, the new run is kept in that folder.
        """
        from bilink.runs.folded import fold_in_run  # which knows all kinds of runs

        return fold_in_run(self, triples, names, out=out, force=force, seed=seed)

    def evaluate(self, split: str = "test", **protocol: Any) -> EntityRanking:
        """Rank the held-out triples of ``split``; see ``bilink.rank_entities`` for options."""
        return rank_entities(self.scorer, self.graph, split, **protocol)

    def classify(self, split: str = "test", **protocol: Any) -> Classification:
        """Tell true from false triples of ``split``; see ``bilink.classify_triples``."""
        return classify_triples(self.scorer.score, self.graph, split, **protocol)
