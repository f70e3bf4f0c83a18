"""A run: something that scores, with the graph it knows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bilink._text import html_table, warn
from bilink.data.graph import SPLITS
from bilink.errors import DataError
from bilink.evaluation.classification import PRIOR, Classification, classify_triples
from bilink.evaluation.entity_ranking import EntityRanking, rank_entities
from bilink.evaluation.evidence import Evidence
from bilink.evaluation.probability import (
    Judge,
    Probability,
    fit_probability,
    fitting_products,
)
from bilink.models.model import Model
from bilink.paths.model import PathModel
from bilink.queries.explain import Explanation, explain
from bilink.queries.export import Vectors
from bilink.queries.query import Answering
from bilink.queries.rules import RuleList, list_rules
from bilink.runs.folder import RunFolder
from bilink.training.fold_in import Frozen

if TYPE_CHECKING:
    from bilink.runs.decisions import Decisions
    from bilink.runs.update import Update

CALIBRATION_PRODUCTS = 2e13  # multiplications up to which training ends with a calibration


class Run(Answering):
    """A graph and what scores its triples: query it, evaluate it, score triples with it."""

    path: Path | None  # its folder, if it has one
    digest: str | None = None  # of its model in that folder, by which findings name it

    def _repr_html_(self) -> str:
        parts = {
            "graph": self.graph,
            "made of": ", ".join(self.member_names) or next(iter(self._parts()), ""),
            "folder": self.path or "none; run.save(folder) makes one",
            "probabilities": self.calibration or "none; run.calibrate() learns them",
        }
        return html_table(("run", ""), list(parts.items()))

    def _parts(self) -> list[Model | PathModel]:
        return [*self.models.values(), *self.path_models.values()]

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

    def write(self, folder: RunFolder) -> None:
        """Write all files of the run to its folder; ``save`` makes one."""
        raise NotImplementedError

    def save(self, folder: str | Path, *, force: bool = False) -> None:
        """Keep the run in a new folder, which ``bilink.load`` reads.

        Parameters
        ----------
        folder
            Where to; an empty folder, or one that does not exist.
        force
            Replace the run that is there.

        Examples
        --------
        >>> run.save("runs/mine")  # doctest: +SKIP
        """
        place = RunFolder(folder)
        with place.created(force):
            self.write(place)

    def score(self, triples: Iterable[tuple[str, str, str]]) -> np.ndarray:
        """The score of each (head, relation, tail) of names; higher is more likely.

        Examples
        --------
        >>> run.score([("Monaco", "borders", "France")])  # doctest: +SKIP
        """
        return self.scorer.score(self.graph.ids(triples))

    def probability(
        self, triples: Iterable[tuple[str, str, str]], missing: float | None = None
    ) -> list[float | None]:
        """How likely each (head, relation, tail) of names is true.

        Parameters
        ----------
        triples
            A list of (head, relation, tail).
        missing
            The share of all facts that is thought missing; 0.1 unless given.

        Returns
        -------
        list
            None stands for a training fact, which the model has seen and cannot judge, and for a
            run without probabilities.

        Examples
        --------
        >>> run.probability([("Monaco", "uses currency", "Euro")])  # doctest: +SKIP
        """
        return self.chances(self.graph.ids(triples), missing)

    def explain(
        self, head: str, relation: str, tail: str, k: int = 5, missing: float | None = None
    ) -> Explanation:
        """How likely a triple is, and what speaks for it: rules, facts, members, analogies.

        Examples
        --------
        >>> print(run.explain("Monaco", "uses currency", "Euro", k=2))  # doctest: +SKIP
        """
        return explain(self, head, relation, tail, k, missing)

    def rules(self, relation: str | None = None, k: int = 10) -> RuleList:
        """The ``k`` most confident rules, of one relation or of all; an error if there are none."""
        return list_rules(self.path_models, self.graph, relation, k)

    def vectors(self) -> Vectors:
        """Candidates and queries as vectors whose inner product is the score."""
        return Vectors(self.scorer, self.graph)

    def update(
        self,
        triples: Iterable[tuple[str, str, str]] = (),
        *,
        rejected: Iterable[tuple[str, str, str]] = (),
        decisions: bool = False,
        epochs: int = 0,
        out: str | Path | None = None,
        force: bool = False,
        seed: int = 0,
    ) -> "Update":
        """The run with new facts and without rejected ones, and counts of what became of them.

        Facts between known entities enter the graph; new entities and relations get embeddings from
        their facts, all else frozen; rules are counted anew, and what evidence is worth is learnt
        anew where a relation or more than 1 % of the facts are new.  Ids stay, and new names follow
        them.  With ``epochs``, training then goes on for as many from
        where the parameters are.  With ``out``, the new run is kept in that folder.

        What is ``rejected`` is no answer any more, its probability is the lowest, and it leaves the
        graph if that held it.  ``decisions`` adds what was accepted and rejected in
        ``run.decisions``.

        Examples
        --------
        >>> found = run.update([("Freedonia", "borders", "Austria")])  # doctest: +SKIP
        >>> found.run.query(head="Freedonia", relation="continent")  # doctest: +SKIP
        """
        from bilink.runs.update import update_run  # which knows all kinds of runs

        if decisions:
            triples = [*triples, *self.decisions.triples("accept")]
            rejected = [*rejected, *self.decisions.triples("reject")]
        return update_run(
            self, triples, rejected=rejected, epochs=epochs, out=out, force=force, seed=seed
        )

    @cached_property
    def decisions(self) -> "Decisions":
        """What people decided about facts of the run; kept in its folder."""
        from bilink.runs.decisions import Decisions  # which reads files of triples

        return Decisions(self)

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
        """Rank the held-out triples of ``split``; see ``bilink.rank_entities`` for the options.

        Examples
        --------
        >>> run.evaluate().metrics()["mrr"]  # doctest: +SKIP
        """
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
        """Tell true from false triples of ``split``; see ``bilink.classify_triples``."""
        return classify_triples(
            self.scorer.score,
            self.graph,
            split,
            seed,
            plausible=plausible,
            prior=prior,
        )

    def calibrate(self, *, seed: int = 0) -> Probability:
        """Learn probabilities on valid, and keep them in the run's folder, if it has one."""
        found = fit_probability(self.scorer, self.graph, evidence=self._evidence, seed=seed)
        self._learnt = found
        if self.path is not None:
            RunFolder(self.path).write_probability(found.to_dict(), self.digest)
        return found

    def calibrate_if_possible(self) -> None:
        """Calibrate, or leave it where there is too little to learn from, or it would take long."""
        if fitting_products(self.scorer, self.graph) > CALIBRATION_PRODUCTS:
            how = f"bilink calibrate {self.path}" if self.path else "run.calibrate()"
            warn(f"probabilities take long to learn on so large a graph, and were left out: {how}")
            return
        with suppress(DataError):
            self.calibrate()

    def take_calibration(self, learnt: Probability) -> None:
        """Judge by what another run has learnt, whose graph differs little."""
        self._learnt = replace(learnt, fingerprint=self.graph.fingerprint)

    @property
    def calibration(self) -> Probability | None:
        """What makes probabilities of evidence, or None where none were learnt."""
        return self._kept_probability if self._learnt is None else self._learnt

    @cached_property
    def _kept_probability(self) -> Probability | None:
        """What stands in the run's folder."""
        if self.path is None:
            return None
        values = RunFolder(self.path).read_probability(self.digest)
        if values is None:
            return None
        try:
            kept = Probability.from_dict(values)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            warn(
                f"the probabilities of {self.path} are damaged or of another version ({error}); "
                f"learn them again with: bilink calibrate {self.path}"
            )
            return None
        return kept if kept.fingerprint == self.graph.fingerprint else None

    @property
    def judge(self) -> Judge | None:
        """What makes probabilities, or None where none were learnt."""
        learnt = self.calibration
        return None if learnt is None else Judge(self._evidence, learnt)

    _learnt: Probability | None = None

    @cached_property
    def _evidence(self) -> Evidence:
        return Evidence(self.scorer, self.graph, self.known)

    def _write_probability(self, folder: RunFolder) -> None:
        if self._learnt is not None:
            folder.write_probability(self._learnt.to_dict(), self.digest)
