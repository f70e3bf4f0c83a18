"""A run whose model was not trained, but made to be consistent with its graph."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bilink.data.graph import SPLITS, Graph
from bilink.runs.folder import RunConfig, RunFolder
from bilink.theory.consistent_models import check_family
from bilink.theory.construct import Construction, construct
from bilink.training.config import TrainingConfig


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
            training=TrainingConfig(),
            made={"by": "construction", "splits": list(splits), **made.to_dict()},
        )
        folder.begin(graph)
        folder.write_model(made.model)
        folder.write_config(config)  # last, since it makes the run valid
    return made
