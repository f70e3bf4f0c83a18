"""The run of one trained model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bilink._text import warn
from bilink.data.graph import Graph
from bilink.errors import RunError
from bilink.models.model import Model
from bilink.models.scorer import Scorer
from bilink.runs.config import RunConfig
from bilink.runs.folder import RunFolder, check_folder
from bilink.runs.run import Run
from bilink.training.engine import Progress
from bilink.training.loop import INTERRUPTED


class TrainedRun(Run):
    """A trained model, and how it came about."""

    def __init__(
        self,
        graph: Graph,
        model: Model,
        config: RunConfig,
        history: list[dict[str, Any]],
        progress: Progress,
        stopped: str,
        path: Path | None = None,
    ):
        self.graph, self.path = graph, path
        self.model, self.config, self.history, self.progress = model, config, history, progress
        self.stopped = stopped  # why training ended

    @property
    def scorer(self) -> Scorer:
        """What ranks and answers."""
        return self.model.scorer

    @property
    def models(self) -> Mapping[str, Model]:
        """The one model."""
        return {self.model.family.title: self.model}

    def write(self, folder: RunFolder) -> None:
        """Write all files of the finished run to its folder."""
        check_folder(folder)
        folder.begin(self.graph)
        for record in self.history:
            folder.append_history(record)
        self.digest = folder.write_model(self.model, self.graph, self.progress.epoch)
        self._write_probability(folder)
        folder.write_config(self.config)  # last, since it makes the run valid
        self.path = folder.path

    def __repr__(self) -> str:
        return f"Run({self.model!r} of {self.graph.name!r})"


def read_trained(folder: RunFolder) -> TrainedRun:
    """Read a finished run from its folder."""
    config = folder.read_config()
    graph = folder.read_graph()
    model, digest = folder.read_model(graph)
    sizes = (len(model.entities), len(model.relations))
    fits = (model.family.name, model.dim) == (config.model, config.dim)
    if not fits or sizes != (len(graph.entities), len(graph.relations)):
        raise RunError(f"{folder.path}: the model is not the one that config.toml describes")
    history = folder.read_history()
    progress = _progress_of(history)
    stopped = "finished"
    if not folder.is_finished:
        stopped = INTERRUPTED
        warn(
            f"{folder.path} was to be trained for {config.training.epochs} epochs and was stopped: "
            f"its model is the one from before; go on with 'bilink resume {folder.path}'"
        )
    run = TrainedRun(graph, model, config, history, progress, stopped, folder.path)
    run.digest = digest
    return run


def _progress_of(history: list[dict[str, Any]]) -> Progress:
    """How far a finished run came, as its history tells."""
    progress = Progress(epoch=len(history))
    validated = [r for r in history if isinstance(r.get("validation_mrr"), int | float)]
    if validated:
        best = max(validated, key=lambda record: record["validation_mrr"])
        progress.best_mrr, progress.best_epoch = best["validation_mrr"], best["epoch"]
    return progress
