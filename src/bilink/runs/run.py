"""A run: something that scores, with the graph it knows."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bilink.data.graph import SPLITS, Graph
from bilink.data.index import KnownAnswers, known_answers
from bilink.ensembles.calibration import Calibration, fit_calibration
from bilink.errors import BilinkError, DataError, RunError
from bilink.evaluation.classification import Classification, classify_triples
from bilink.evaluation.entity_ranking import EntityRanking, rank_entities
from bilink.models.model import Model
from bilink.models.scorer import Probability, Scorer
from bilink.queries.answers import Answers, AnswerSets
from bilink.queries.asking import Asker
from bilink.queries.explain import Explanation, explain
from bilink.queries.export import Vectors
from bilink.queries.questions import Question
from bilink.runs.folder import RunFolder
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
        if len(self.graph.valid) and "probability" not in protocol:
            half = self.calibration().with_prior(0.5)  # one false triple for each true one
            protocol["probability"] = half.probabilities
        return classify_triples(self.scorer.score, self.graph, split, **protocol)

    def calibrate(self, asked: str = "facts", **options: Any) -> Calibration:
        """Learn probabilities on valid, and keep them; see ``bilink.fit_calibration``.

        They are kept in the run's folder, if it has one that can be written to.
        """
        found = fit_calibration(self.scorer, self.graph, asked=asked, **options)
        self._calibrations[asked] = found
        self.__dict__.pop("_asker", None)  # which knows the old probabilities
        if self.path is not None:
            with suppress(RunError):
                RunFolder(self.path).write_calibration(found.to_dict())
        return found

    def calibration(self, asked: str = "facts") -> Calibration:
        """What makes probabilities of scores: as it was kept, or learnt now.

        Of ``"facts"``, is a triple true; of ``"answers"``, is one of the best answers right.
        """
        if asked not in self._calibrations:
            kept = self._kept_calibration(asked)
            self._calibrations[asked] = self.calibrate(asked) if kept is None else kept
        return self._calibrations[asked]

    @property
    def probability(self) -> Probability | None:
        """How likely answers are right: a function of their triples of ids and their scores.

        None where there is nothing to learn it on, as without a validation split.
        """
        try:
            return self.calibration("answers").probabilities
        except DataError:
            return None

    @cached_property
    def _calibrations(self) -> dict[str, Calibration]:
        return {}

    def _kept_calibration(self, asked: str) -> Calibration | None:
        values = RunFolder(self.path).read_calibration(asked) if self.path is not None else None
        try:
            kept = Calibration.from_dict(values or {})
        except (KeyError, TypeError, ValueError, BilinkError):
            return None
        fits = kept.fingerprint == self.graph.fingerprint and len(kept.slopes) == len(
            self.graph.relations
        )
        return kept if fits else None
