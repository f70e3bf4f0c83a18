"""Tomorrow's facts: a run whose graph has grown, without training from the start.

What was rejected is kept in the graph, among the negatives of train: it is no answer any more, its
probability is the lowest, and if the graph held it, it does so no longer.

Facts between known entities enter the graph: they are known from now on, rules walk along them, and
probabilities count them.  New entities and relations get rows from their facts, all else frozen
(``training.fold_in``).  Rules are counted anew.  What evidence is worth is learnt anew where many
facts or a relation are new.  On request, training goes on for a few epochs from where the
parameters are.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np

from bilink._text import closest, counted, printable
from bilink.data.building import check_size
from bilink.data.graph import SPLITS, Graph, named_triples
from bilink.data.index import known_answers, rejected_facts
from bilink.data.vocabulary import Vocabulary
from bilink.errors import ConfigError, DataError, RunError
from bilink.models.model import Model
from bilink.models.scorer import SIDES
from bilink.paths.clusters import clustered
from bilink.paths.mining import mine
from bilink.paths.model import PathModel
from bilink.runs.combined import CombinedRun
from bilink.runs.folder import RunFolder
from bilink.runs.job import OnEpoch, ShouldStop
from bilink.runs.paths import PathRun
from bilink.runs.run import Run
from bilink.runs.trained import TrainedRun
from bilink.training.fold_in import fold_in
from bilink.training.loop import check_warm_start, fit

Triple = tuple[str, str, str]
_MANY = 0.01  # share of new facts from which on it is learnt anew what evidence is worth
_LOOKED_AT = 10  # new names that are compared with known ones
_ALIKE = 0.85  # names are that look like a misspelling of each other; numbers never do


@dataclass(frozen=True)
class Update:
    """The run that knows the new facts, and what became of each triple that was given."""

    run: Run
    given: int
    repeated: int  # given more than once
    known: int  # which the graph held already
    between_known: int  # new facts of known entities and relations
    of_new: int  # new facts that mention a new entity or a new relation
    entities: tuple[str, ...]  # new ones
    relations: tuple[str, ...]
    rejected: int = 0  # triples, but for those that were rejected before
    removed: int = 0  # of these, facts that the graph held

    @property
    def facts(self) -> int:
        """How many facts are new."""
        return self.between_known + self.of_new

    def to_dict(self) -> dict[str, Any]:
        """As ``bilink update --json`` prints it."""
        facts = ("facts", "between_known", "of_new", "rejected", "removed")
        counts = ("given", "repeated", "known", *facts)
        return {
            "run": None if self.run.path is None else str(self.run.path),
            **{name: getattr(self, name) for name in counts},
            "entities": list(self.entities),
            "relations": list(self.relations),
        }

    def sentences(self) -> list[str]:
        """For people: every triple is accounted for."""
        lines = []
        if self.given:
            lines += [
                f"{counted(self.given, 'triple')}: {counted(self.facts, 'new fact')}, "
                f"{self.known:,} known already, {self.repeated:,} given more than once",
                f"of the new facts, {self.between_known:,} are between known entities and "
                f"{self.of_new:,} mention something new",
            ]
        if self.rejected:
            held = f"; {self.removed:,} left the graph, which held them" if self.removed else ""
            lines.append(f"{counted(self.rejected, 'triple')} rejected{held}")
        for names, one, more in (
            (self.entities, "entity", "entities"),
            (self.relations, "relation", "relations"),
        ):
            if names:
                shown = ", ".join(map(repr, names[:5])) + (", …" if len(names) > 5 else "")
                lines.append(f"{counted(len(names), f'new {one}', f'new {more}')}: {shown}")
        return lines

    def near_misses(self) -> list[str]:
        """New entities and relations whose names look like misspelt known ones."""
        graph, lines = self.run.graph, []
        for new, vocabulary in ((self.entities, graph.entities), (self.relations, graph.relations)):
            known = vocabulary.names[: len(vocabulary) - len(new)]
            for name in new[:_LOOKED_AT]:
                for close in closest(name, known, n=1):
                    alike = SequenceMatcher(None, name.casefold(), close.casefold()).ratio()
                    if alike >= _ALIKE and not any(map(str.isdigit, name)):
                        lines.append(f"{name!r} is new, but looks like {close!r}; misspelt?")
        return lines


def update_run(
    run: Run,
    triples: Iterable[Triple] = (),
    *,
    rejected: Iterable[Triple] = (),
    epochs: int = 0,
    out: str | Path | None = None,
    force: bool = False,
    seed: int = 0,
    on_epoch: OnEpoch | None = None,
    should_stop: ShouldStop = lambda: False,
) -> Update:
    """``run`` with ``triples`` among its facts and without ``rejected``; see ``Run.update``."""
    assert isinstance(run, TrainedRun | CombinedRun | PathRun)
    if out is not None and run.path is not None and run.path.resolve() == Path(out).resolve():
        raise RunError(f"{out} is the run that is updated; choose another --out")
    if epochs < 0:
        raise ConfigError(f"epochs must be at least 0, not {epochs}")
    if epochs and not isinstance(run, TrainedRun):
        what = "rules are counted" if isinstance(run, PathRun) else "an ensemble is fitted"
        raise ConfigError(f"{what} and not trained, so there are no epochs to go on with")
    if epochs and isinstance(run, TrainedRun) and not run.history:
        raise ConfigError("the run was made and not trained, so there are no epochs to go on with")
    if epochs and isinstance(run, TrainedRun):
        check_warm_start(run.config.training)
    grown = _grow(run.graph, named_triples(triples), named_triples(rejected))
    folder = RunFolder(out) if out is not None else None
    if folder is None:
        made = _made(run, grown, epochs, seed, on_epoch, should_stop)
    else:
        with folder.created(force):  # before the work is done in vain
            made = _made(run, grown, epochs, seed, on_epoch, should_stop)
            made.write(folder)
    return grown.result(made)


@dataclass(frozen=True, eq=False)
class _Grown:
    """A graph with new facts, and how they were counted."""

    graph: Graph
    facts: np.ndarray  # the new ones
    entities: int  # that are new
    relations: int
    counts: Mapping[str, int]

    @property
    def changes(self) -> int:
        """How many facts are new or rejected."""
        return len(self.facts) + self.counts["rejected"]

    def result(self, run: Run) -> Update:
        entities, relations = self.graph.entities.names, self.graph.relations.names
        return Update(
            run=run,
            **self.counts,
            entities=entities[len(entities) - self.entities :],
            relations=relations[len(relations) - self.relations :],
        )


def _grow(graph: Graph, triples: list[Triple], rejected: list[Triple]) -> _Grown:
    """The graph with what is new in ``triples``; old ids stay, new names follow in their order."""
    old_entities, old_relations = len(graph.entities), len(graph.relations)
    entity, relation = _Finder(graph.entities), _Finder(graph.relations)
    rows = np.array(
        [(entity(h), relation(r), entity(t)) for h, r, t in triples], dtype=np.int64
    ).reshape(-1, 3)
    _, first = np.unique(rows, axis=0, return_index=True)
    distinct = rows[np.sort(first)]
    is_new = (distinct >= (old_entities, old_relations, old_entities)).any(axis=1)
    known = known_answers(graph, SPLITS)
    held = np.zeros(len(distinct), dtype=bool)
    held[~is_new] = known.holds(distinct[~is_new])
    facts = distinct[~held].astype(np.int32)
    wrong = np.unique(_known_ids(rejected, entity, relation), axis=0)
    _check_contradiction(distinct, rejected, wrong, entity, relation)
    is_old = (wrong < (old_entities, old_relations, old_entities)).all(axis=1)
    fresh = np.ones(len(wrong), dtype=bool)
    fresh[is_old] = ~rejected_facts(graph).holds(wrong[is_old])
    if not len(facts) and not fresh.any():
        what = f"the graph holds all {counted(len(distinct), 'triple')} already"
        raise DataError(
            f"nothing is new: {what if triples else 'no fact was accepted or rejected'}"
        )
    check_size(old_entities + len(entity.new), old_relations + len(relation.new), graph.name)
    counts = {
        "given": len(rows),
        "repeated": len(rows) - len(distinct),
        "known": int(held.sum()),
        "between_known": int((~held & ~is_new).sum()),
        "of_new": int(is_new.sum()),
        "rejected": int(fresh.sum()),
        "removed": int(known.holds(wrong[is_old]).sum()),
    }
    former = graph.negatives.get("train", graph.train[:0])
    wrong = np.concatenate([former, wrong])
    wrong = wrong[~_are_among(wrong, distinct)]
    train, valid, test = (part[~_are_among(part, wrong)] for part in map(graph.split, SPLITS))
    train = np.concatenate([train, facts])
    if not len(train):
        raise DataError(f"graph {graph.name!r} would be left without training facts")
    grown = replace(
        graph,
        entities=entity.grown(),
        relations=relation.grown(),
        negatives={**graph.negatives, "train": np.unique(wrong, axis=0)},
        train=train,
        valid=valid,
        test=test,
    )
    return _Grown(grown, facts, len(entity.new), len(relation.new), counts)


def _known_ids(triples: list[Triple], entity: "_Finder", relation: "_Finder") -> np.ndarray:
    rows = [(entity.known(h), relation.known(r), entity.known(t)) for h, r, t in triples]
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def _are_among(triples: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Which of the triples stand among the others."""
    if not len(others):
        return np.zeros(len(triples), dtype=bool)
    _, places = np.unique(
        np.concatenate([others, triples]).astype(np.int64), axis=0, return_inverse=True
    )
    places = places.ravel()
    return np.isin(places[len(others) :], places[: len(others)])


def _check_contradiction(
    accepted: np.ndarray,
    names: list[Triple],
    wrong: np.ndarray,
    entity: "_Finder",
    relation: "_Finder",
) -> None:
    both = _are_among(wrong, accepted)
    if both.any():
        ids = tuple(wrong[both][0].tolist())
        named = next(
            n for n in names if tuple(_known_ids([n], entity, relation)[0].tolist()) == ids
        )
        raise DataError(f"{' · '.join(map(printable, named))} is given as true and as rejected")


class _Finder:
    """The ids of names, new ones behind those that are known."""

    def __init__(self, vocabulary: Vocabulary):
        self._vocabulary = vocabulary
        self.new: dict[str, int] = {}

    def __call__(self, name: str) -> int:
        if name in self._vocabulary:
            return self._vocabulary.find(name)
        return self.new.setdefault(name, len(self._vocabulary) + len(self.new))

    def known(self, name: str) -> int:
        """The id of a name that must be there."""
        return self.new[name] if name in self.new else self._vocabulary.find(name)

    def grown(self) -> Vocabulary:
        return replace(self._vocabulary, names=(*self._vocabulary.names, *self.new))


def _made(
    run: TrainedRun | CombinedRun | PathRun,
    grown: _Grown,
    epochs: int,
    seed: int,
    on_epoch: OnEpoch | None,
    should_stop: ShouldStop,
) -> Any:
    sizes = grown.entities, grown.relations
    models: dict[str, Model] = run.models  # type: ignore[assignment]
    if any(sizes):
        models = {
            name: fold_in(frozen, grown.facts, *sizes, seed=seed)
            for name, frozen in run.frozen.items()
        }
    rules = {name: _recounted(model, grown.graph) for name, model in run.path_models.items()}
    result: TrainedRun | CombinedRun | PathRun
    if isinstance(run, TrainedRun):
        (model,) = models.values()
        result = _trained(run, grown, model)
        if epochs:
            result = _go_on(result, epochs, on_epoch, should_stop)
    elif isinstance(run, PathRun):
        config = replace(run.config, fingerprint=grown.graph.fingerprint)
        result = PathRun(grown.graph, next(iter(rules.values())), config)
    else:
        members = {name: rules[name] if name in rules else models[name] for name in run.members}
        weights = {side: _padded(run.scorer.weights[side], sizes[1]) for side in SIDES}
        scorer = run.scorer.with_members([m.scorer for m in members.values()], weights)
        result = CombinedRun(grown.graph, members, scorer, run.config, run.data)
    if sizes[1] or run.calibration is None or grown.changes > _MANY * len(run.graph.triples):
        result.calibrate_if_possible()
    else:
        result.take_calibration(run.calibration)
    return result


def _trained(run: TrainedRun, grown: _Grown, model: Model) -> TrainedRun:
    made = {
        "by": "update",
        "run": str(run.path or ""),
        "entities": grown.entities,
        "relations": grown.relations,
        "facts": len(grown.facts),
        "rejected": grown.counts["rejected"],
    }
    config = replace(run.config, fingerprint=grown.graph.fingerprint, made=made)
    return TrainedRun(grown.graph, model, config, run.history, run.progress, run.stopped)


def _go_on(
    run: TrainedRun, epochs: int, on_epoch: OnEpoch | None, should_stop: ShouldStop
) -> TrainedRun:
    """Train for some more epochs from where the parameters are."""
    done = len(run.history)
    options = {"epochs": done + epochs, "minutes": 0, "keep": "last", "patience": 0}
    training = run.config.training.with_options(options)  # validation knows nothing of what is new
    history = list(run.history)

    def record(entry: dict[str, Any]) -> None:
        history.append(entry)
        if on_epoch:
            on_epoch(entry)

    arrays = (
        np.ascontiguousarray(x, np.float32) for x in (run.model.entities, run.model.relations)
    )
    result = fit(
        Model(run.model.family, run.model.dim, *(x.copy() for x in arrays)),
        run.graph,
        training,
        on_epoch=record,
        should_stop=should_stop,
        start=done,
    )
    config = replace(run.config, training=training)
    return TrainedRun(run.graph, result.model, config, history, result.progress, result.stopped)


def _recounted(model: PathModel, graph: Graph) -> PathModel:
    """The rules of the grown graph, weighed as before; those that resource flows along stay."""
    if model.values is not None:
        return model.on(graph)
    rules = mine(graph, model.rules.config)
    if model.rules.clusters is not None:
        rules = clustered(rules, graph)
    more = len(graph.relations) - model.rules.n_relations
    return replace(
        model,
        rules=rules,
        weights={side: _padded(model.weights[side], more) for side in SIDES},
        chosen={side: [*model.chosen[side], *["mean"] * more] for side in SIDES},
        graph=graph,
    )


def _padded(rows: np.ndarray, count: int) -> np.ndarray:
    """With as many rows more, each the mean of all."""
    return np.vstack([rows, np.tile(rows.mean(axis=0), (count, 1))]).astype(rows.dtype)
