"""A run with more entities than it was trained with."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bilink.data.graph import Graph
from bilink.ensembles.mixture import MixtureScorer
from bilink.ensembles.platt import PlattScorer
from bilink.errors import DataError, RunError
from bilink.models.model import Model
from bilink.runs.combined import CombinedRun
from bilink.runs.folder import RunFolder
from bilink.runs.run import Run
from bilink.runs.trained import TrainedRun
from bilink.training.fold_in import fold_in


def fold_in_run(
    run: Run,
    triples: Iterable[tuple[str, str, str]],
    names: Sequence[str] | None = None,
    *,
    out: str | Path | None = None,
    force: bool = False,
    seed: int = 0,
) -> Run:
    """``run`` with the new entities of ``triples``, which join its training facts.

    All else stays as it is: nothing is trained again.  ``names`` are the new entities; without
    them, every entity that the graph does not know is new.  With ``out``, the result is kept.
    """
    assert isinstance(run, TrainedRun | CombinedRun)
    if out is not None and run.path is not None and run.path.resolve() == Path(out).resolve():
        raise RunError(f"{out} is the run that is added to; choose another --out")
    graph, facts, count = _with_new(run.graph, list(triples), names)
    models = {name: fold_in(f, facts, count, seed=seed) for name, f in run.frozen.items()}
    made = {"by": "fold-in", "run": str(run.path or ""), "entities": count, "triples": len(facts)}
    if isinstance(run, TrainedRun):
        (model,) = models.values()
        config = replace(run.config, fingerprint=graph.fingerprint, made=made)
        result: Any = TrainedRun(graph, model, config, run.history, run.progress, run.stopped)
    else:
        result = CombinedRun(graph, models, _rejoined(run, models), run.config, run.data)
    if out is not None:
        folder = RunFolder(out)
        with folder.created(force):
            result.write(folder)
    return result


def _rejoined(run: CombinedRun, members: dict[str, Model]) -> MixtureScorer:
    """The ensemble's scorer over other members, with the same weights."""
    scorers, scorer = [model.scorer for model in members.values()], run.scorer
    if isinstance(scorer, PlattScorer):
        return PlattScorer(scorers, scorer.slopes, scorer.offsets)
    return MixtureScorer(scorers, scorer.weights)


def _with_new(
    graph: Graph, triples: list[tuple[str, str, str]], names: Sequence[str] | None
) -> tuple[Graph, np.ndarray, int]:
    """The graph with new entities and facts; the facts that mention one; how many are new."""
    for triple in triples:
        if isinstance(triple, str) or len(triple) != 3:
            raise DataError(f"expected head, relation and tail, not {triple!r}")
    if names is not None:
        _check_new_names(graph, names, triples)
    old = len(graph.entities)
    ids: dict[str, int] = {}
    for name in dict.fromkeys(names or ()):
        ids[name] = old + len(ids)

    new_names = list(ids)

    def find(name: str) -> int:
        if name not in ids:
            if names is not None or name in graph.entities:
                ids[name] = graph.entities.find(name)
            else:
                ids[name] = old + len(new_names)
                new_names.append(name)
        return ids[name]

    rows = [(find(h), graph.relations.find(r), find(t)) for h, r, t in triples]
    facts = np.unique(np.array(rows, dtype=np.int32).reshape(-1, 3), axis=0)
    facts = facts[(facts[:, [0, 2]] >= old).any(axis=1)]
    new = sorted((i, name) for name, i in ids.items() if i >= old)
    if not new:
        raise DataError("all entities of these triples are in the graph already; none is new")
    entities = replace(graph.entities, names=(*graph.entities.names, *(name for _, name in new)))
    return (
        replace(graph, entities=entities, train=np.concatenate([graph.train, facts])),
        facts,
        len(new),
    )


def _check_new_names(
    graph: Graph, names: Sequence[str], triples: list[tuple[str, str, str]]
) -> None:
    mentioned = {name for head, _, tail in triples for name in (head, tail)}
    for name in names:
        if name in graph.entities:
            raise DataError(f"the graph has an entity {name!r} already")
        if name not in mentioned:
            raise DataError(f"no triple mentions the new entity {name!r}")
