"""Cross-fitting: models that each did not see a part of the facts, and so can judge it.

All facts are dealt into folds.  For each fold a model is trained on the training facts of the
others, as the run was, and rules are counted on the same facts.  Fold runs are kept in a work
folder, so that what was begun is gone on with.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from bilink._files import write_error
from bilink._random import Stream, generator
from bilink._text import shortened
from bilink.data.graph import Graph
from bilink.ensembles.fitting import EnsembleConfig, fit_ensemble
from bilink.errors import ConfigError, RunError
from bilink.models.scorer import Scorer
from bilink.paths.mining import mine
from bilink.queries.doubts import ERRORS, Doubts, check_audit, doubt_facts
from bilink.runs.combined import CombinedRun
from bilink.runs.config import RunConfig
from bilink.runs.folder import AUDIT, DOUBTS, RunFolder
from bilink.runs.job import Job, ShouldStop, prepare
from bilink.runs.paths import PathRun, train_paths
from bilink.runs.run import Run
from bilink.runs.trained import TrainedRun, read_trained
from bilink.training.loop import INTERRUPTED
from bilink.training.presets import choose, preset

FOLDS = 5
OnFoldEpoch = Callable[[int, dict[str, Any]], None]  # the fold and the record of its epoch


class Workers(Protocol):
    """Where folds are trained, such as an executor of ``bilink.distributed``."""

    threads: int

    def map(
        self, function: Callable[[Any], Any], items: Iterable[Any], should_stop: ShouldStop
    ) -> Iterator[Any]:
        """Like the built-in ``map``, but that it ends once ``should_stop`` is true."""


@dataclass(frozen=True, eq=False)
class CrossFit:
    """For each fact of ``graph.triples`` the number of its fold; for each fold, the run without."""

    fold: np.ndarray
    runs: Sequence[Run]


def audit(
    run: Run,
    k: int = 50,
    *,
    errors: float = ERRORS,
    work: str | Path | None = None,
    seed: int = 0,
    **training: Any,
) -> Doubts | None:
    """The facts of the run's graph that are more likely wrong than right, at most ``k``.

    Each is judged by a model and by rules that did not see it.

    Parameters
    ----------
    run
        The run whose graph and kind of model are taken.
    k
        How many facts to list.
    errors
        The share of facts that is expected to be wrong.
    work
        The folder for models and results; ``audit`` in the folder of the run unless given.
    seed
        Deals the facts to folds, and draws the errors that are planted.
    training
        The options of ``cross_fit``.

    Returns
    -------
    Doubts or None
        None if it was interrupted.

    Examples
    --------
    >>> print(bilink.audit(bilink.load("runs/mine"), k=20))  # doctest: +SKIP
    """
    if not isinstance(run, Run):
        raise ConfigError(f"expected a run, not {shortened(str(run))}; bilink.load reads one")
    check_audit(k, errors)
    if work is None and run.path is not None:
        work = run.path / AUDIT
    fitted = cross_fit(run, work=work, seed=seed, **training)
    if fitted is None:
        return None
    scorers = fold_scorers(run.graph, fitted)
    found = doubt_facts(run.graph, scorers, fitted.fold, k=k, errors=errors, seed=seed)
    if work is not None:
        RunFolder(work).write_doubts(found.to_dict(), run.digest)
    return found


def kept_doubts(run: Run) -> list[dict[str, Any]] | None:
    """What the last audit left in the run's folder, or None; see ``Doubts.to_dict``."""
    if run.path is None:
        return None
    return RunFolder(run.path).read_doubts(run.graph, run.digest)


def cross_fit(
    run: Run,
    folds: int = FOLDS,
    *,
    work: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
    workers: Workers | None = None,
    on_epoch: OnFoldEpoch | None = None,
    should_stop: ShouldStop = lambda: False,
) -> CrossFit | None:
    """Train as many models as there are ``folds``; None if ``should_stop`` ended it.

    They have the run's model, dim and training options, but for what ``options`` change.  For
    an ensemble, its first member is trained with the default options of its model.  ``workers``
    train several folds at a time, and need a ``work`` folder that all of them see; without them,
    ``on_epoch`` is called after each epoch.
    """
    if isinstance(run, PathRun):
        if work is not None:
            _make(Path(work))
        return _count_folds(run, folds, seed)
    if workers is not None and work is None:
        raise ConfigError("workers need a work folder for the models that they train")
    config = _config(run)
    if workers is not None and config.training.threads == 0:
        config = replace(
            config, training=config.training.with_options({"threads": workers.threads})
        )
    fold = deal(len(run.graph.triples), folds, seed)
    items = []
    for i in range(folds):
        graph = _without(run.graph, fold, i)
        job = prepare(graph, config.model, config.dim, options, former=config)
        items.append((job, None if work is None else Path(work) / f"fold-{i}"))
    if work is not None:
        _make(Path(work))
    if workers is not None:
        paths = list(workers.map(_train_in_folder, items, should_stop))
        if len(paths) < folds:
            return None
        return CrossFit(fold, [read_trained(RunFolder(path)) for path in paths])
    runs = []
    for i, (job, path) in enumerate(items):
        made = _train(job, path, i, on_epoch, should_stop)
        if made.stopped == INTERRUPTED:
            return None
        runs.append(made)
    return CrossFit(fold, runs)


def _without(graph: Graph, fold: np.ndarray, i: int) -> Graph:
    """The graph without the training facts of a fold."""
    train = graph.train[fold[: len(graph.train)] != i]
    if not len(train):
        raise ConfigError(f"graph {graph.name!r} has too few training facts for an audit")
    return replace(graph, train=train)


def fold_scorers(graph: Graph, fitted: CrossFit) -> list[Scorer]:
    """What judges the facts of each fold: its model, and rules that were counted without them."""
    facts = graph.triples
    return [_with_rules(graph, part, facts[fitted.fold == i]) for i, part in enumerate(fitted.runs)]


def _with_rules(whole: Graph, part: Run, held_out: np.ndarray) -> Scorer:
    """The scorer of a fold's model and of rules, weighed by the facts that neither has seen."""
    if isinstance(part, PathRun) or not part.scorer.is_product:
        return part.scorer
    graph = replace(part.graph, valid=held_out, test=whole.test[:0], negatives={})
    rules = train_paths(graph, calibrate=False)
    # A fact is judged by how likely it is, wherever it ranks.
    return fit_ensemble([part.scorer, rules.scorer], graph, EnsembleConfig(objective="likelihood"))


def _count_folds(run: PathRun, folds: int, seed: int) -> CrossFit:
    """Rules are counted anew without each fold; the weights of their aggregation stay."""
    fold = deal(len(run.graph.triples), folds, seed)
    runs = []
    for i in range(folds):
        graph = _without(run.graph, fold, i)
        model = replace(run.model, rules=mine(graph, run.config.mining), graph=graph)
        runs.append(PathRun(graph, model, run.config))
    return CrossFit(fold, runs)


def deal(n: int, folds: int, seed: int = 0) -> np.ndarray:
    """A fold for each of ``n`` facts, at random, as evenly as can be."""
    if not 2 <= folds <= max(n, 2):
        raise ConfigError(f"folds must be at least 2 and at most the {n:,} facts, not {folds}")
    return generator(seed, Stream.AUDIT_FOLDS).permutation(n) % folds


def _config(run: Run) -> RunConfig:
    """How the run was trained."""
    if isinstance(run, TrainedRun):
        if run.config.made:
            raise ConfigError(
                f"{run.path} was made by {run.config.made.get('by')} and not trained; "
                "audit the run that it was made of"
            )
        return run.config
    if not isinstance(run, CombinedRun):
        raise ConfigError("only a run that was trained can be trained again on parts of its graph")
    if not run.models:
        raise ConfigError("this ensemble has no model that could be trained again")
    first = next(iter(run.models.values()))
    name = first.family.name
    return RunConfig(
        data=run.data,
        fingerprint=run.graph.fingerprint,
        model=name,
        dim=first.dim,
        training=preset(choose(name, first.dim, run.graph, {}), name),
    )


def _make(work: Path) -> None:
    for path in (work, *work.glob("*")):
        if path.is_symlink():
            raise RunError(f"{path} is a link to another folder, which is not touched; remove it")
    try:
        work.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(work, error) from error
    strangers = [path.name for path in work.iterdir() if not _ours(path.name)]
    if strangers:
        raise RunError(
            f"{work} holds {sorted(strangers)[0]!r}, which is no part of an audit; "
            "choose another --work"
        )


def _ours(name: str) -> bool:
    return name.startswith((".", "fold-")) or name == DOUBTS


def _train(
    job: Job, path: Path | None, i: int, on_epoch: OnFoldEpoch | None, should_stop: ShouldStop
) -> TrainedRun:
    def tell(record: dict[str, Any]) -> None:
        if on_epoch:
            on_epoch(i, record)

    if path is None:
        return job.run(on_epoch=tell, should_stop=should_stop, calibrate=False)
    return job.run_or_read(path, on_epoch=tell, should_stop=should_stop)


def _train_in_folder(item: tuple[Job, Path]) -> str:
    """Train one fold, in another process; what is handed back is where it is."""
    job, path = item
    job.run_or_read(path)
    return str(path)
