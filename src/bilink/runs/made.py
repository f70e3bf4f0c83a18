"""Runs whose model was not trained: constructed from a graph, converted, or with new entities."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bilink.data.graph import SPLITS, Graph
from bilink.errors import ConfigError, DataError, RunError
from bilink.models.model import Model
from bilink.runs.combined import CombinedRun
from bilink.runs.folder import RunConfig, RunFolder
from bilink.runs.loading import load
from bilink.runs.paths import PathRun
from bilink.runs.run import Run
from bilink.runs.trained import TrainedRun
from bilink.theory.consistent_models import Construction, check_family, construct
from bilink.theory.conversions import Certificate, convert, mixture_as_rescal
from bilink.training.config import MarginConfig
from bilink.training.fold_in import fold_in


def construct_run(
    graph: Graph,
    model: str,
    out: str | Path,
    *,
    splits: Sequence[str] = SPLITS,
    effort: float = 1.0,
    threads: int = 1,
    source: Mapping[str, Any] | None = None,
    force: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Construction:
    """Write a model that scores all facts of ``splits`` above all non-facts to the folder ``out``.

    It can be asked and evaluated like any other run, but not resumed.  Where rounding leaves no
    margin the model is written all the same, and the result is not ``certified``.
    """
    check_family(model)
    folder = RunFolder(out)
    with folder.created(force):
        made = construct(
            graph, model, splits=splits, effort=effort, threads=threads, progress=progress
        )
        config = RunConfig(
            data=source or {"source": graph.name},
            fingerprint=graph.fingerprint,
            model=made.model.family.name,
            dim=made.model.dim,
            training=MarginConfig(),
            made={"by": "construction", "splits": list(splits), **made.to_dict()},
        )
        folder.begin(graph)
        folder.write_model(made.model)
        folder.write_config(config)  # last, since it makes the run valid
        load(out).calibrate_if_possible()
    return made


def convert_run(
    path: str | Path,
    to: str,
    out: str | Path,
    *,
    construction: str = "tight",
    dim: int | None = None,
    force: bool = False,
) -> Certificate:
    """Write the run in ``path`` to ``out`` with its model converted to the family ``to``.

    The new run has the graph, the training options and the history of the old one; the table
    ``[made]`` of its config says what was done.  It can be asked and evaluated like any other, but
    not resumed.  An ensemble becomes a RESCAL model of the summed size.
    """
    if Path(out).resolve() == Path(path).resolve():
        raise RunError(f"{out} is the run that is converted; choose another --out")
    source = load(path)
    model, certificate = _converted(source, to, construction, dim)
    trained = source if isinstance(source, TrainedRun) else None
    config = RunConfig(
        data=trained.config.data if trained else {"source": source.graph.name},
        fingerprint=source.graph.fingerprint,
        model=model.family.name,
        dim=model.dim,
        training=trained.config.training if trained else MarginConfig(),
        made={"by": "conversion", "run": str(path), **certificate.to_dict()},
    )
    folder = RunFolder(out)
    with folder.created(force):
        folder.begin(source.graph)
        for record in trained.history if trained else ():
            folder.append_history(record)
        folder.write_model(model)
        folder.write_config(config)  # last, since it makes the run valid
        load(out).calibrate_if_possible()
    return certificate


def _converted(
    source: Run, to: str, construction: str, dim: int | None
) -> tuple[Model, Certificate]:
    if isinstance(source, TrainedRun):
        return convert(source.model, to, construction, dim)
    if not isinstance(source, CombinedRun) or source.path_models:
        raise ConfigError(
            "rules are sparse matrices of the size of the graph, which have no small equivalent; "
            "convert models without paths"
        )
    if construction != "tight" or dim is not None:
        raise ConfigError(
            "an ensemble becomes RESCAL of its members' summed size; a construction and a dim are "
            "for single models, so convert the members and combine them"
        )
    weights = source.scorer.weights
    if to.lower() != "rescal" or source.scorer.offsets is not None:
        raise ConfigError(
            "an ensemble can be converted to rescal, unless it is a mean of probabilities, which "
            "is no bilinear form"
        )
    if not np.array_equal(weights["head"], weights["tail"]):
        raise ConfigError(
            "this ensemble weighs heads and tails differently, so it is two bilinear forms and not "
            "one; make it with --same-sides"
        )
    return mixture_as_rescal(list(source.models.values()), weights["tail"])


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
    assert isinstance(run, TrainedRun | CombinedRun | PathRun)
    if out is not None and run.path is not None and run.path.resolve() == Path(out).resolve():
        raise RunError(f"{out} is the run that is added to; choose another --out")
    graph, facts, count = _with_new(run.graph, list(triples), names)
    models = {name: fold_in(f, facts, count, seed=seed) for name, f in run.frozen.items()}
    made = {"by": "fold-in", "run": str(run.path or ""), "entities": count, "triples": len(facts)}
    if isinstance(run, TrainedRun):
        (model,) = models.values()
        config = replace(run.config, fingerprint=graph.fingerprint, made=made)
        result: Any = TrainedRun(graph, model, config, run.history, run.progress, run.stopped)
    elif isinstance(run, PathRun):  # rules hold for whoever comes
        own = replace(run.config, fingerprint=graph.fingerprint)
        result = PathRun(graph, run.model.on(graph), own)
    else:
        rules = {name: model.on(graph) for name, model in run.path_models.items()}
        members = {name: rules[name] if name in rules else models[name] for name in run.members}
        scorer = run.scorer.with_members([member.scorer for member in members.values()])
        result = CombinedRun(graph, members, scorer, run.config, run.data)
    result.calibrate_if_possible()
    if out is not None:
        folder = RunFolder(out)
        with folder.created(force):
            result.write(folder)
    return result


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
