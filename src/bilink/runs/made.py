"""Runs whose model was not trained: constructed from a graph, or converted."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bilink.data.graph import SPLITS, Graph
from bilink.errors import ConfigError, RunError
from bilink.models.model import Model
from bilink.runs.combined import CombinedRun
from bilink.runs.config import RunConfig
from bilink.runs.folder import RunFolder
from bilink.runs.loading import load
from bilink.runs.run import Run
from bilink.runs.trained import TrainedRun
from bilink.theory.consistent_models import Construction, check_family, construct
from bilink.theory.conversions import Certificate, convert, mixture_as_rescal
from bilink.training.config import MarginConfig


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
        folder.write_model(made.model, graph)
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
        folder.write_model(model, source.graph)
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
