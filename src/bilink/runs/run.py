"""A run: something that scores, with the graph it knows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path

import numpy as np

from bilink.data.graph import SPLITS
from bilink.errors import BilinkError, DataError
from bilink.evaluation.calibration import Calibration, fit_calibration
from bilink.evaluation.classification import PRIOR, Classification, classify_triples
from bilink.evaluation.entity_ranking import EntityRanking, rank_entities
from bilink.evaluation.reliability import ASKED
from bilink.models.model import Model
from bilink.models.scorer import Probability
from bilink.paths.model import PathModel
from bilink.queries.explain import Explanation, explain
from bilink.queries.export import Vectors
from bilink.queries.query import Answering
from bilink.queries.rules import RuleList, list_rules
from bilink.runs.folder import RunFolder
from bilink.training.fold_in import Frozen


class Run(Answering):
    """A graph and what scores its triples: query it, evaluate it, score triples with it."""

    path: Path | None  # its folder, if it has one

    @property
    def models(self) -> Mapping[str, Model]:
        """The models with embeddings that the scorer is made of, by name."""
        raise NotImplementedError

    @property
    def path_models(self) -> Mapping[str, PathModel]:
        """The models of rules that the scorer is made of, by name."""
        return {}

    @property
    def member_names(self) -> Sequence[str]:
        """The members of an ensemble, in the order of its scorer."""
        return ()

    @cached_property
    def frozen(self) -> dict[str, Frozen]:
        """The models as new entities meet them."""
        return {name: Frozen.of(model, self.graph) for name, model in self.models.items()}

    def score(self, triples: Iterable[tuple[str, str, str]]) -> np.ndarray:
        """The score of each (head, relation, tail) of names; higher is more likely."""
        entities, relations = self.graph.entities.find, self.graph.relations.find
        ids = [(entities(h), relations(r), entities(t)) for h, r, t in triples]
        return self.scorer.score(np.array(ids, dtype=np.int32).reshape(-1, 3))

    def explain(self, head: str, relation: str, tail: str, k: int = 5) -> Explanation:
        """What speaks for a triple: rules, training facts, members, analogies, paths."""
        return explain(self, head, relation, tail, k)

    def rules(self, relation: str | None = None, k: int = 10) -> RuleList:
        """The ``k`` most confident rules, of one relation or of all; an error if there are none."""
        return list_rules(self.path_models, self.graph, relation, k)

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
        from bilink.runs.made import fold_in_run  # which knows all kinds of runs

        return fold_in_run(self, triples, names, out=out, force=force, seed=seed)

    def evaluate(
        self,
        split: str = "test",
        *,
        filter: Sequence[str] = SPLITS,
        ties: str = "realistic",
        memory: int | None = None,
        threads: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> EntityRanking:
        """Rank the held-out triples of ``split``; see ``bilink.rank_entities`` for the options."""
        return rank_entities(
            self.scorer,
            self.graph,
            split,
            filter=filter,
            ties=ties,
            memory=memory,
            threads=threads,
            progress=progress,
        )

    def classify(
        self,
        split: str = "test",
        *,
        seed: int = 0,
        plausible: bool = True,
        prior: float = PRIOR,
    ) -> Classification:
        """Tell true from false triples of ``split``; see ``bilink.classify_triples``.

        Probabilities are judged as well where the run has a calibration of facts.
        """
        calibration = self.calibration("facts")
        probability = None
        if calibration is not None:  # one false triple for each true one
            probability = calibration.with_prior(0.5).probabilities
        return classify_triples(
            self.scorer.score,
            self.graph,
            split,
            seed,
            plausible=plausible,
            prior=prior,
            probability=probability,
        )

    def calibrate(
        self,
        asked: str = "facts",
        *,
        method: str = "platt",
        prior: float | None = None,
        shrinkage: float = 0.0,
        seed: int = 0,
    ) -> Calibration:
        """Learn probabilities on valid, and keep them in the run's folder, if it has one.

        See ``bilink.fit_calibration`` for the options.
        """
        found = fit_calibration(
            self.scorer,
            self.graph,
            asked=asked,
            method=method,
            prior=prior,
            shrinkage=shrinkage,
            seed=seed,
        )
        self._calibrations[asked] = found
        if self.path is not None:
            RunFolder(self.path).write_calibration(found.to_dict())
        return found

    def calibrate_if_possible(self) -> None:
        """Calibrate what can be asked: nothing where there is no validation split to learn from."""
        for asked in ASKED:
            with suppress(DataError):
                self.calibrate(asked)

    def calibration(self, asked: str = "facts") -> Calibration | None:
        """What makes probabilities of scores, or None where the run was not calibrated.

        Of ``"facts"``, is a triple true; of ``"answers"``, is one of the best answers right.
        """
        if asked not in self._calibrations:
            kept = self._kept_calibration(asked)
            if kept is None:
                return None
            self._calibrations[asked] = kept
        return self._calibrations[asked]

    @property
    def probability(self) -> Probability | None:
        """How likely answers are right: a function of their triples of ids and their scores.

        None where the run was not calibrated.
        """
        calibration = self.calibration("answers")
        return None if calibration is None else calibration.probabilities

    @cached_property
    def _calibrations(self) -> dict[str, Calibration]:
        return {}

    def _write_calibrations(self, folder: RunFolder) -> None:
        for calibration in self._calibrations.values():
            folder.write_calibration(calibration.to_dict())

    def _kept_calibration(self, asked: str) -> Calibration | None:
        values = RunFolder(self.path).read_calibration(asked) if self.path is not None else None
        try:
            kept = Calibration.from_dict(values or {})
        except (KeyError, TypeError, ValueError, BilinkError):
            return None
        fits = kept.fingerprint == self.graph.fingerprint and len(kept.weights) == len(
            self.graph.relations
        )
        return kept if fits else None
