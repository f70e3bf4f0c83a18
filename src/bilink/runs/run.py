"""A run: a trained model with the graph it knows."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bilink.data.graph import SPLITS, Graph
from bilink.data.index import KnownAnswers, known_answers
from bilink.data.loading import load_graph
from bilink.errors import ConfigError, DataError, RunError
from bilink.evaluation.classification import Classification, classify_triples
from bilink.evaluation.entity_ranking import EntityRanking, rank_entities
from bilink.evaluation.metrics import gains
from bilink.models.model import Model
from bilink.models.registry import family
from bilink.models.scorer import SIDES, ModelScorer, Scorer
from bilink.queries.answers import Answers, ask
from bilink.ranking.ranks import MEMORY_BUDGET, least_memory, rank_triples
from bilink.runs.folder import RunConfig, RunFolder
from bilink.training import estimate
from bilink.training.checkpoints import Progress
from bilink.training.config import FIXED_ONCE_STARTED, TrainingConfig, default_config
from bilink.training.estimate import Plan
from bilink.training.loop import INTERRUPTED, fit

OnEpoch = Callable[[dict[str, Any]], None]


class Run:
    """A trained model with its graph: ask it, evaluate it, score triples with it."""

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
        self.graph, self.model, self.config = graph, model, config
        self.history, self.progress, self.path = history, progress, path
        self.stopped = stopped  # why training ended

    @property
    def scorer(self) -> Scorer:
        """What ranks and answers."""
        return self.model.scorer

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
        rows = list(triples)
        find, verbs = self.graph.entities.find, self.graph.relations.find
        ids = [(find(h), verbs(r), find(t)) for h, r, t in rows]
        return self.model.score(np.array(ids, dtype=np.int32).reshape(-1, 3))

    def evaluate(self, split: str = "test", **protocol: Any) -> EntityRanking:
        """Rank the held-out triples of ``split``; see ``bilink.rank_entities`` for options."""
        return rank_entities(self.scorer, self.graph, split, **protocol)

    def classify(self, split: str = "test", **protocol: Any) -> Classification:
        """Tell true from false triples of ``split``; see ``bilink.classify_triples``."""
        return classify_triples(self.model.score, self.graph, split, **protocol)

    def __repr__(self) -> str:
        return f"Run({self.model!r} of {self.graph.name!r})"


def check_options(model: str, dim: int, options: Mapping[str, Any]) -> None:
    """Complain about impossible options before a graph is loaded."""
    Model.empty(model, dim, 0, 0)
    default_config(model).with_options(options)


def plan(graph: Graph, model: str, dim: int, options: Mapping[str, Any]) -> Plan:
    """What training with these options will take in memory and time."""
    training = default_config(model).with_options(options)
    return estimate.plan(graph, _empty(graph, model, dim), training)


def train(
    data: Graph | str | Path,
    model: str = "complex",
    dim: int = 100,
    *,
    source: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    force: bool = False,
    options: Mapping[str, Any] | None = None,
    on_epoch: OnEpoch | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    **more_options: Any,
) -> Run:
    """Train ``model`` on ``data``, a graph, a path or a catalogue name.

    ``options`` and further keywords are those of ``TrainingConfig``, for example ``epochs=500`` or
    ``{"regularization.entity": 0.01}``.  With ``out``, the run is kept in that folder and can be
    resumed; a folder that exists is overwritten with ``force`` only.  ``source`` is what the run's
    config says of how the graph was loaded.
    """
    graph = data if isinstance(data, Graph) else load_graph(data)
    training = default_config(model).with_options({**(options or {}), **more_options})
    empty = _empty(graph, model, dim)
    config = RunConfig(
        data=source or {"source": graph.name if isinstance(data, Graph) else str(data)},
        fingerprint=graph.fingerprint,
        model=empty.family.name,
        dim=dim,
        training=training,
    )
    if out is None:
        return _train(graph, empty, config, None, on_epoch, should_stop)
    folder = RunFolder(out)
    with folder.created(force):
        folder.write_start(config, graph)
        return _train(graph, empty, config, folder, on_epoch, should_stop)


def resume(
    path: str | Path,
    *,
    options: Mapping[str, Any] | None = None,
    on_epoch: OnEpoch | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Run:
    """Go on with the run in ``path`` from its last checkpoint, or from the start without one.

    ``options`` may change what the rest of the run does, for example ``{"epochs": 1000}``, but not
    what it has started from.
    """
    folder = RunFolder(path)
    config = folder.read_config()
    if options:
        config = replace(config, training=_changed(config.training, options, folder))
    graph = folder.read_graph()
    empty = _empty(graph, config.model, config.dim)
    if folder.model.exists() and not folder.checkpoint.exists():
        raise RunError(f"{path} is finished, and its checkpoint is gone: it cannot go on")
    with folder.locked():
        return _train(graph, empty, config, folder, on_epoch, should_stop)


def _changed(
    training: TrainingConfig, options: Mapping[str, Any], folder: RunFolder
) -> TrainingConfig:
    """The options for the rest of a run, if they fit what is done already."""
    for key in options:
        if key in FIXED_ONCE_STARTED:
            raise ConfigError(f"{key} cannot change in the middle of a run; train a new one")
    changed, done = training.with_options(options), len(folder.read_history())
    if changed.epochs < done:
        raise ConfigError(f"epochs cannot be {changed.epochs}: {done} are done already")
    return changed


def load_source(config: RunConfig) -> Graph:
    """The graph that a config names, if it is still the same."""
    graph = load_graph(**config.data)
    if graph.fingerprint != config.fingerprint:
        raise DataError(
            f"the graph at {config.data['source']} is not the one of the config: its fingerprint "
            f"is {graph.fingerprint}, not {config.fingerprint}. Name the graph to train on it."
        )
    return graph


def load(path: str | Path) -> Run:
    """Read a finished run from its folder."""
    folder = RunFolder(path)
    config = folder.read_config()
    model = folder.read_model()
    graph = folder.read_graph()
    sizes = (len(model.entities), len(model.relations))
    fits = {
        "graph": graph.fingerprint == config.fingerprint,
        "model": (model.family.name, model.dim) == (config.model, config.dim)
        and sizes == (len(graph.entities), len(graph.relations)),
    }
    for part, right in fits.items():
        if not right:
            raise RunError(f"{path}: the {part} is not the one that config.toml describes")
    history = folder.read_history()
    return Run(graph, model, config, history, _progress_of(history), "finished", Path(path))


def _progress_of(history: list[dict[str, Any]]) -> Progress:
    """How far a finished run came, as its history tells."""
    progress = Progress(epoch=len(history))
    validated = [record for record in history if "validation_mrr" in record]
    if validated:
        best = max(validated, key=lambda record: record["validation_mrr"])
        progress.best_mrr, progress.best_epoch = best["validation_mrr"], best["epoch"]
    return progress


def _empty(graph: Graph, model: str, dim: int) -> Model:
    check_options(model, dim, {})
    needed = 4 * sum(
        rows * width
        for rows, width in zip(
            (len(graph.entities), len(graph.relations)), family(model).widths(dim), strict=True
        )
    )
    if needed > estimate.physical_memory():
        raise ConfigError(
            f"dim {dim} is too large: the parameters alone take {needed / 1e9:,.0f} GB, more than "
            "this machine has"
        )
    return Model.empty(model, dim, len(graph.entities), len(graph.relations))


def _train(
    graph: Graph,
    model: Model,
    config: RunConfig,
    folder: RunFolder | None,
    on_epoch: OnEpoch | None,
    should_stop: Callable[[], bool],
) -> Run:
    history: list[dict[str, Any]] = []

    def record_epoch(record: dict[str, Any]) -> None:
        if folder is not None:
            if not history:  # the options have carried an epoch, so they may stay
                folder.cut_history(record["epoch"] - 1)
                folder.write_config(config)
            folder.append_history(record)
        history.append(record)
        if on_epoch:
            on_epoch(record)

    result = fit(
        model,
        graph,
        config.training,
        validate=validation(graph, config),
        on_epoch=record_epoch,
        checkpoint=folder.checkpoint if folder else None,
        should_stop=should_stop,
    )
    if folder is not None:
        if result.stopped != INTERRUPTED:
            if history:  # the model is another one, so what was found before does not hold
                folder.remove("metrics.json")
            folder.write_model(result.model)
        history = folder.read_history()
    path = folder.path if folder else None
    return Run(graph, result.model, config, history, result.progress, result.stopped, path)


def validation(graph: Graph, config: RunConfig) -> Callable[[Model], float] | None:
    """The validation MRR on a fixed sample, filtered by train and valid: test is not looked at."""
    size = min(config.training.validation_triples, len(graph.valid))
    if size == 0:
        return None
    random = np.random.default_rng([config.training.seed, 2])
    sample = graph.valid[np.sort(random.choice(len(graph.valid), size, replace=False))]
    known = known_answers(graph, ("train", "valid"))
    threads = config.training.threads or None

    def validate(model: Model) -> float:
        scorer = ModelScorer(model.family, model.entities, model.relations)
        memory = max(MEMORY_BUDGET, least_memory(scorer, sample, known))
        ranks = rank_triples(scorer, sample, known, memory=memory, threads=threads)
        return float(np.mean([gains(ranks[side].values(), "mrr") for side in SIDES]))

    return validate
