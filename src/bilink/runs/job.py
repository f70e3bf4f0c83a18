"""A job: a graph and a config, ready to be trained."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from bilink._memory import parse_bytes, physical_memory
from bilink._random import Stream, generator
from bilink.data.graph import Graph
from bilink.data.index import answers_of
from bilink.data.loading import graph_or_source, load_graph
from bilink.errors import ConfigError, DataError, RunError
from bilink.evaluation.entity_ranking import VALIDATION_FILTER, rank_entities
from bilink.models.model import Model
from bilink.models.registry import family
from bilink.models.scorer import ModelScorer
from bilink.paths.model import NAME as PATHS
from bilink.runs.config import RunConfig
from bilink.runs.folder import RunFolder
from bilink.runs.paths import train_paths
from bilink.runs.trained import TrainedRun, read_trained
from bilink.training import estimate, presets
from bilink.training.config import FIXED_ONCE_STARTED, Config
from bilink.training.engine import Engine
from bilink.training.estimate import Plan
from bilink.training.loop import INTERRUPTED, OnProgress, check_engine, fit
from bilink.training.parts import NOW, check_parts, fit_in_parts
from bilink.training.presets import Tuning

# Multiplications that a validation may always take, some ten seconds on two cores; and those for
# each training triple and number of a row, about a tenth of a pass over the triples.
VALIDATION_PRODUCTS = 5e11
PRODUCTS_PER_TRIPLE = 150
FEWEST = 100  # validation triples, however large the graph

OnEpoch = Callable[[dict[str, Any]], None]
ShouldStop = Callable[[], bool]


def train(
    data: Any,
    model: str | None = None,
    dim: int | None = None,
    *,
    budget: str | float | None = None,
    memory: str | int | None = None,
    out: str | Path | None = None,
    force: bool = False,
    preset: str | None = None,
    options: Mapping[str, Any] | None = None,
    on_epoch: OnEpoch | None = None,
    should_stop: ShouldStop = lambda: False,
    **more_options: Any,
) -> Any:
    """Learn from ``data`` what else may be true.

    Parameters
    ----------
    data
        A file, a folder with train, valid and test, the name of a catalogue graph, a data frame
        (polars or pandas), an iterable of (head, relation, tail), a directed NetworkX graph, or a
        ``Graph``.
    model
        Without one, or with ``"auto"``, rules are counted, models are trained and combined: the
        best that ``budget`` buys.  ``"paths"`` counts rules and trains nothing; its options are
        those of ``MiningConfig``.  Any other model, such as ``"complex"``, is trained alone;
        ComplEx is, if only options are given.  ``"rgcn"`` leaves a DistMult behind.
    dim
        The size of embeddings; 100 unless given.
    budget
        A time such as ``"10m"``, or minutes; without one, the size of the graph decides.  A single
        model is trained for as many epochs as fit into it.
    memory
        For graphs that do not fit, such as ``"4GB"``, or a number of bytes: the entities are dealt
        into as few parts (the option ``parts``) as let two of them fit, and the others wait in
        ``out``.
    out
        The folder to keep the run in, from which it can be resumed.
    force
        Replace a former run in that folder.
    preset
        What options start from: ``"paper"``, ``"margin"``, ``"softmax"`` or ``"sampled"``.  Without
        one, the model and the graph decide.
    options, more_options
        Options of ``Config``, for example ``epochs=500`` or ``{"regularization.entity": 0.01}``.
    on_epoch
        Called with the record of each epoch.
    should_stop
        Asked now and then; training ends when it returns true.

    Returns
    -------
    Run
        What can be asked, evaluated, explained and saved.

    Examples
    --------
    >>> run = bilink.train("triples.csv", budget="5m", out="runs/mine")  # doctest: +SKIP
    >>> run = bilink.train("atlas", model="complex", dim=50, epochs=20)  # doctest: +SKIP
    """
    from bilink.runs.auto import is_auto, minutes_of, train_auto  # which trains jobs itself

    data = graph_or_source(data)
    if model is not None and not isinstance(model, str):
        raise ConfigError(f"model must be a name such as 'complex', not {model!r}")
    given = {**(options or {}), **more_options}
    hooks: dict[str, Any] = {"on_epoch": on_epoch, "should_stop": should_stop}
    minutes = minutes_of(budget)
    if is_auto(model, bool(given or preset or memory is not None) or dim is not None):
        return train_auto(data, minutes, out=out, force=force, **hooks).run
    name = (model or "complex").lower()
    if name in (PATHS, "ptranse") and minutes is not None:
        raise ConfigError(f"{name} takes no budget; leave it out, or name another model")
    if name in (PATHS, "ptranse") and memory is not None:
        raise ConfigError(f"{name} takes no memory; leave it out, or name another model")
    if name == PATHS:
        return train_paths(data, given, out=out, force=force)
    if name == "ptranse":
        from bilink.runs.ptranse import prepare_ptranse  # which prepares a job itself

        made = prepare_ptranse(data, dim or 100, given, preset=preset)
        return made.run(out=out, force=force, **hooks)
    job = prepare(data, model, dim, given, preset=preset, memory=memory)
    if minutes is not None:
        job = job.fitted_to(60 * minutes)
    elif preset is None:
        from bilink.runs.tuning import tuned

        job = tuned(job, given)
    return job.run(out=out, force=force, **hooks)


def prepare(
    data: Graph | str | Path | None = None,
    model: str | None = None,
    dim: int | None = None,
    options: Mapping[str, Any] | None = None,
    *,
    preset: str | None = None,
    former: RunConfig | None = None,
    memory: str | int | None = None,
    **reading: Any,
) -> "Job":
    """Check the options of a run, and load its graph.

    What is not given is taken from ``former``, the config of another run, or from ``preset``, or
    from the preset that suits the model and the graph.  With ``memory``, there are as few parts as
    fit, or those that are given must fit.  ``reading`` says how ``load_graph`` should read
    ``data``.
    """
    model, preset = presets.decoder(
        model or (former.model if former else "complex"), preset, options or {}
    )
    dim = dim if dim is not None else (former.dim if former else 100)
    if not isinstance(dim, Integral) or dim < 1:
        raise ConfigError(f"dim must be at least 1, not {dim}")
    name = family(model).name
    if data is None and former is None:
        raise ConfigError("name the graph to train on, for example: bilink train atlas")
    if data is None and former is not None:
        source, graph = former.data, load_source(former)
    elif isinstance(data, Graph):
        source, graph = {"source": data.name}, data
    else:
        how = {key: value for key, value in reading.items() if value is not None}
        source = {"source": str(data), **how}
        graph = load_graph(**source)
    given = options or {}
    if former is not None and preset is None:
        training = former.training.with_options(given)
    else:
        training = presets.started(preset or presets.choose(name, dim, graph, given), name, given)
    if memory is not None:
        size = parse_bytes(memory) if isinstance(memory, str) else memory
        fixed = "parts" in given
        training = estimate.within(graph, family(name), dim, training, size, fixed=fixed)
    config = RunConfig(
        data=source,
        fingerprint=graph.fingerprint,
        model=name,
        dim=dim,
        training=training,
    )
    return Job(graph, config)


@dataclass(frozen=True)
class Job:
    """A graph and a config, ready to be trained."""

    graph: Graph
    config: RunConfig
    wrap: Callable[[Engine], Engine] | None = None  # adds to what an engine does in an epoch

    def __post_init__(self) -> None:
        sizes = (len(self.graph.entities), len(self.graph.relations))
        widths = family(self.config.model).widths(self.config.dim)
        needed = 4.0 * sum(rows * width for rows, width in zip(sizes, widths, strict=True))
        if self.config.training.parts > 1:
            check_parts(self.graph, self.config.training)
            if self.wrap is not None:
                raise ConfigError("paths and a model cannot be trained together in parts")
            needed *= 2 / self.config.training.parts
        if needed > physical_memory():
            raise ConfigError(
                f"dim {self.config.dim} is too large: the parameters alone take "
                f"{needed / 1e9:,.0f} GB, more than this machine has; memory=4GB and the like "
                "train it in parts"
            )
        config = self.config
        check_engine(family(config.model), config.dim, self.graph, config.training)

    @property
    def validation_triples(self) -> int:
        """How many triples validation ranks; see ``validation_size``."""
        asked = min(self.config.training.validation_triples, len(self.graph.valid))
        width = family(self.config.model).widths(self.config.dim)[0]
        return min(asked, max(FEWEST, validation_size(self.graph, width)))

    def plan(self) -> Plan:
        """What training will take in memory and time."""
        return estimate.plan(self.graph, self._empty(), self.config.training)

    def with_tuning(self, tuning: Tuning) -> "Job":
        """The same with what was found out about the graph."""
        training = presets.with_tuning(self.config.training, self.config.model, tuning)
        return replace(self, config=replace(self.config, training=training))

    def fitted_to(self, seconds: float) -> "Job":
        """The same with fewer epochs, where all of them would take longer than ``seconds``."""
        training = estimate.fitted_to(self.graph, self._empty(), self.config.training, seconds)
        return replace(self, config=replace(self.config, training=training))

    def run(
        self,
        *,
        out: str | Path | None = None,
        force: bool = False,
        on_epoch: OnEpoch | None = None,
        on_progress: OnProgress | None = None,
        should_stop: ShouldStop = lambda: False,
        calibrate: bool = True,
    ) -> TrainedRun:
        """Train from the start; with ``out``, in a new folder.

        ``on_progress`` is told how far a long epoch or validation is.  With ``calibrate``,
        probabilities are learnt on the validation split at the end.
        """
        folder = RunFolder(out) if out is not None else None
        if folder is None and self.config.training.parts > 1:
            raise ConfigError("training in parts keeps them in the folder of the run; name out")
        begin = self._begin()
        with folder.created(force) if folder else nullcontext():
            if folder:
                folder.begin(self.graph)
                folder.write_config(self.config)  # last, since it makes the run valid
            return self._train(folder, on_epoch, on_progress, should_stop, calibrate, begin)

    def run_or_read(
        self,
        path: str | Path,
        *,
        on_epoch: OnEpoch | None = None,
        should_stop: ShouldStop = lambda: False,
    ) -> TrainedRun:
        """The run of this very job in ``path``: read, gone on with, or made in place of another.

        It is not calibrated.  One that cannot be read is not replaced: it may be of a later bilink.
        """
        folder = RunFolder(path)
        if folder.exists:
            found = folder.read_config()  # where the graph was read from makes no difference
            if replace(found, data=self.config.data) == self.config:
                if folder.is_finished:
                    return read_trained(folder)
                return self.resume(folder, on_epoch, should_stop=should_stop, calibrate=False)
        options: dict[str, Any] = {"on_epoch": on_epoch, "should_stop": should_stop}
        return self.run(out=path, force=True, calibrate=False, **options)

    def resume(
        self,
        folder: RunFolder,
        on_epoch: OnEpoch | None = None,
        on_progress: OnProgress | None = None,
        should_stop: ShouldStop = lambda: False,
        calibrate: bool = True,
    ) -> TrainedRun:
        """Go on in ``folder`` from its checkpoint, or from the start without one."""
        with folder.locked():
            begin = None if folder.is_begun else self._begin()
            return self._train(folder, on_epoch, on_progress, should_stop, calibrate, begin)

    def _begin(self) -> Callable[[Model], None] | None:
        """What puts a model where the run of the option ``start`` has ended."""
        path = self.config.training.start
        if not path:
            return None
        run = read_trained(RunFolder(path))
        found, wanted = run.model, family(self.config.model)
        same = found.family is wanted
        lifts = wanted.begin is not None and found.family.name == "transe"
        if run.graph.fingerprint != self.config.fingerprint:
            raise ConfigError(f"start={path} is a run of another graph")
        if found.dim != self.config.dim or not (same or lifts):
            other = " or transe" if wanted.begin is not None else ""
            raise ConfigError(
                f"start={path} is a run of {found.family.name}, dim {found.dim}; {wanted.name} of "
                f"dim {self.config.dim} starts from {wanted.name}{other} of the same dim"
            )

        def begin(model: Model) -> None:
            model.entities[:] = found.entities
            if same:
                model.relations[:] = found.relations
            elif wanted.begin is not None:
                wanted.begin(model.relations, found.relations)

        return begin

    def _empty(self) -> Model:
        """A model of zeros; in parts, of the entities that are in memory."""
        entities, parts = len(self.graph.entities), self.config.training.parts
        if parts > 1:
            entities = min(entities, 2 * -(-entities // parts))
        sizes = entities, len(self.graph.relations)
        return Model.empty(self.config.model, self.config.dim, *sizes)

    def _train(
        self,
        folder: RunFolder | None,
        on_epoch: OnEpoch | None,
        on_progress: OnProgress | None,
        should_stop: ShouldStop,
        calibrate: bool,
        begin: Callable[[Model], None] | None,
    ) -> TrainedRun:
        history: list[dict[str, Any]] = []
        digest: str | None = None

        def record_epoch(record: dict[str, Any]) -> None:
            if folder is not None:
                if not history:  # the options have carried an epoch, so they may stay
                    folder.cut_history(record["epoch"] - 1)
                    folder.write_config(self.config)
                folder.append_history(record)
            history.append(record)
            if on_epoch:
                on_epoch(record)

        training = self.config.training
        hooks: dict[str, Any] = {
            "validate": validation(self.graph, training, self.validation_triples, on_progress),
            "on_epoch": record_epoch,
            "on_progress": on_progress,
            "should_stop": should_stop,
        }
        if training.parts > 1 and folder is not None:
            folder.make_parts()
            kind = family(self.config.model), self.config.dim
            result = fit_in_parts(*kind, self.graph, training, folder.parts, **hooks)
        else:
            checkpoint = folder.checkpoint if folder else None
            more: dict[str, Any] = {"wrap": self.wrap, "begin": begin, "checkpoint": checkpoint}
            result = fit(self._empty(), self.graph, training, **hooks, **more)
        trained, model = bool(history), result.model
        if folder is not None:
            if result.stopped != INTERRUPTED:
                if history or folder.read_config() != self.config:
                    folder.write_config(self.config)
                digest = folder.write_model(model, self.graph, result.progress.epoch)
                if training.parts > 1:
                    model, _ = folder.read_model(self.graph, in_file=True)  # and not in NOW
                    folder.remove_parts(NOW)
            history = folder.read_history()
        run = TrainedRun(
            self.graph,
            model,
            self.config,
            history,
            result.progress,
            result.stopped,
            folder.path if folder else None,
        )
        run.digest = digest
        if calibrate and result.stopped != INTERRUPTED and (trained or run.calibration is None):
            run.calibrate_if_possible()
        return run


def resume(
    path: str | Path,
    *,
    options: Mapping[str, Any] | None = None,
    on_epoch: OnEpoch | None = None,
    on_progress: OnProgress | None = None,
    should_stop: ShouldStop = lambda: False,
) -> TrainedRun:
    """Go on with the run in ``path`` from its last checkpoint, or from the start without one.

    ``options`` may change what the rest of the run does, for example ``{"epochs": 1000}``, but not
    what it has started from.
    """
    folder = RunFolder(path)
    config = folder.read_config()  # an error for what was not trained
    if config.made:
        raise RunError(
            f"{path} was made by {config.made.get('by')} and not trained, so it cannot go on"
        )
    config = replace(config, training=_changed(config.training, options or {}, folder))
    if folder.model.exists() and not folder.is_begun:
        raise RunError(f"{path} is finished, and its checkpoint is gone: it cannot go on")
    job = Job(folder.read_graph(), config)
    return job.resume(folder, on_epoch, on_progress, should_stop)


def _changed(training: Config, options: Mapping[str, Any], folder: RunFolder) -> Config:
    """The options for the rest of a run, if they fit what is done already."""
    for key in options:
        if key in FIXED_ONCE_STARTED:
            raise ConfigError(f"{key} cannot change in the middle of a run; train a new one")
    changed, done = training.with_options(options), len(folder.read_history())
    if options and changed.epochs < done:
        raise ConfigError(f"epochs cannot be {changed.epochs}: {done} are done already")
    return changed


def load_source(config: RunConfig) -> Graph:
    """The graph that a config names, if it is still the same."""
    if config.made:
        raise ConfigError(
            f"the config is of a run that was made by {config.made.get('by')} and not trained; "
            "there is nothing to repeat"
        )
    graph = load_graph(**config.data)
    if graph.fingerprint != config.fingerprint:
        raise DataError(
            f"the graph at {config.data['source']} is not the one of the config: its fingerprint "
            f"is {graph.fingerprint}, not {config.fingerprint}. Name the graph to train on it."
        )
    return graph


def validation_size(graph: Graph, width: int) -> int:
    """How many triples can be validated in a bounded share of the time of training.

    Each is held against all entities twice.  It depends on nothing but the graph and the size of
    its rows, so that a run keeps its sample on any machine and when it is resumed.
    """
    allowed = max(VALIDATION_PRODUCTS, PRODUCTS_PER_TRIPLE * len(graph.train) * width)
    return int(allowed / (2 * len(graph.entities) * width))


def validation(
    graph: Graph,
    training: Config,
    most: int | None = None,
    on_progress: OnProgress | None = None,
) -> Callable[[Model], float] | None:
    """The validation MRR on a fixed sample of at most ``most``; test is not looked at."""
    size = min(training.validation_triples, len(graph.valid))
    size = size if most is None else min(size, most)
    if size == 0:
        return None
    random = generator(training.seed, Stream.VALIDATION)
    sample = graph.valid[np.sort(random.choice(len(graph.valid), size, replace=False))]
    known = answers_of(graph, VALIDATION_FILTER, sample)

    def validate(model: Model) -> float:
        done = 0

        def progress(queries: int) -> None:
            nonlocal done
            done += queries
            if on_progress:
                on_progress("validating", done / (2 * len(sample)))

        scorer = ModelScorer(model.family, model.entities, model.relations)  # as they are now
        ranking = rank_entities(
            scorer,
            graph,
            "valid",
            filter=VALIDATION_FILTER,
            triples=sample,
            known=known,
            threads=training.threads or None,
            progress=progress,
        )
        return ranking.metrics()["mrr"]

    return validate
