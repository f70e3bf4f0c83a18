"""A run: something that scores, with the graph it knows."""

from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bilink.data.graph import SPLITS, Graph
from bilink.data.index import KnownAnswers, known_answers
from bilink.ensembles.calibration import Calibration, fit_calibration
from bilink.errors import BilinkError, DataError, RunError
from bilink.evaluation.classification import Classification, Probability, classify_triples
from bilink.evaluation.entity_ranking import EntityRanking, rank_entities
from bilink.models.scorer import Scorer
from bilink.queries.answers import Answers, ask
from bilink.runs.folder import RunFolder


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
