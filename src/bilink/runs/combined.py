"""The run of an ensemble: made of other runs, and then used like any of them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bilink._documents import converted
from bilink._text import shortened
from bilink.data.graph import Graph
from bilink.ensembles.fitting import EnsembleConfig, fit_ensemble
from bilink.ensembles.mixture import MixtureScorer
from bilink.ensembles.report import weight_shares
from bilink.errors import ConfigError, DataError, RunError
from bilink.models.model import Model
from bilink.models.scorer import SIDES
from bilink.models.storage import (
    load_model_and_digest,
    load_tensors,
    save_model,
    save_with_digest,
)
from bilink.paths.model import NAME as PATHS
from bilink.paths.model import PathModel, load_paths_and_digest, save_paths
from bilink.runs.config import read_source
from bilink.runs.folder import RunFolder, check_folder
from bilink.runs.paths import PathRun
from bilink.runs.run import Run
from bilink.runs.trained import TrainedRun

FORMAT, VERSION = "bilink-weights", 1


class CombinedRun(Run):
    """An ensemble of trained models of one graph, rules among them."""

    def __init__(
        self,
        graph: Graph,
        members: Mapping[str, Model | PathModel],
        scorer: MixtureScorer,
        config: EnsembleConfig,
        data: Mapping[str, Any],
        path: Path | None = None,
    ):
        self.graph, self.path, self.config, self.data = graph, path, config, data
        self.members = dict(members)  # models by name
        self._scorer = scorer

    @property
    def scorer(self) -> MixtureScorer:
        """What ranks and answers."""
        return self._scorer

    def shares(self) -> list[dict[str, Any]]:
        """For each relation, which share of the score each member carries on either side."""
        return weight_shares(self._scorer, list(self.members), self.graph, self.config.seed)

    @property
    def member_names(self) -> Sequence[str]:
        """The members in the order of the scorer."""
        return list(self.members)

    @property
    def models(self) -> Mapping[str, Model]:
        """The members that embed entities, by name."""
        return {name: m for name, m in self.members.items() if isinstance(m, Model)}

    @property
    def path_models(self) -> Mapping[str, PathModel]:
        """The members that are made of rules, by name."""
        return {name: m for name, m in self.members.items() if isinstance(m, PathModel)}

    def write(self, folder: RunFolder) -> None:
        """Write all files of the run to its folder."""
        check_folder(folder)
        folder.begin(self.graph)
        members: list[dict[str, Any]] = []
        digests = []
        for i, (name, model) in enumerate(self.members.items()):
            if isinstance(model, PathModel):
                digests.append(save_paths(model, folder.member(i)))
                members.append({"name": name, "model": PATHS})
            else:
                fingerprint = self.graph.fingerprint
                digests.append(save_model(model, folder.member(i), graph=fingerprint))
                members.append({"name": name, "model": model.family.name, "dim": model.dim})
        header = {**_HEADER, "graph": self.graph.fingerprint, "members": " ".join(digests)}
        self.digest = save_with_digest(_tensors(self._scorer), header, folder.weights)
        self._write_probability(folder)
        folder.write_sections(
            data={**self.data, "fingerprint": self.graph.fingerprint},
            ensemble=self.config.to_dict(),
            members=members,
        )
        self.path = folder.path

    def __repr__(self) -> str:
        return f"Run({self.config.method} of {', '.join(self.members)} of {self.graph.name!r})"


_HEADER = {"format": FORMAT, "version": str(VERSION)}


def combine(
    runs: Sequence[Run],
    *,
    out: str | Path | None = None,
    force: bool = False,
    progress: Callable[[int], None] | None = None,
    **options: Any,
) -> CombinedRun:
    """Make an ensemble of trained runs, which is a run like any other.

    Parameters
    ----------
    runs
        Trained runs of the same graph; no ensembles.
    out
        The folder to keep it in, with its members.
    force
        Replace a former run in that folder.
    progress
        Called with the number of steps just done.
    options
        Those of ``EnsembleConfig``, for example ``method="average"``.

    Examples
    --------
    >>> runs = [bilink.load("runs/complex"), bilink.load("runs/rules")]  # doctest: +SKIP
    >>> both = bilink.combine(runs, out="runs/both")  # doctest: +SKIP
    """
    config = EnsembleConfig(**options)
    members = _members(runs, out)
    first = runs[0]
    assert isinstance(first, TrainedRun | PathRun)
    graph, data = first.graph, first.config.data
    folder = RunFolder(out) if out is not None else None
    with folder.created(force) if folder else nullcontext():  # first: no work is done in vain
        scorer = fit_ensemble([m.scorer for m in members.values()], graph, config, progress)
        made = CombinedRun(graph, members, scorer, config, data)
        made.calibrate_if_possible()
        if folder:
            made.write(folder)
    return made


def _members(runs: Sequence[Run], out: str | Path | None) -> dict[str, Model | PathModel]:
    """The models of the runs by name, if they go together."""
    members: dict[str, Model | PathModel] = {}
    if not isinstance(runs, Sequence) or not all(isinstance(run, Run) for run in runs):
        raise ConfigError(f"expected a list of runs, not {shortened(str(runs))}")
    for run in runs:
        if not isinstance(run, TrainedRun | PathRun):
            raise ConfigError(f"{run.path} is an ensemble itself; give its members instead")
        if run.graph.fingerprint != runs[0].graph.fingerprint:
            raise DataError(
                f"{run.path} and {runs[0].path} know different graphs "
                f"({run.graph.fingerprint} and {runs[0].graph.fingerprint})"
            )
        if out is not None and run.path is not None and run.path.resolve() == Path(out).resolve():
            raise RunError(f"{out} is a member of the ensemble; choose another --out")
        members[_name(run, members)] = run.model
    if not members:
        raise ConfigError("an ensemble needs at least one member")
    return members


def _name(run: TrainedRun | PathRun, taken: Mapping[str, Any]) -> str:
    """What a member is called: its folder's name, or its model's, with a number if need be."""
    name = run.path.name if run.path is not None else run.config.model
    numbered = (f"{name} {i}" for i in range(2, len(taken) + 3))
    return name if name not in taken else next(n for n in numbered if n not in taken)


def _tensors(scorer: MixtureScorer) -> dict[str, np.ndarray]:
    tensors: dict[str, np.ndarray]
    tensors = {side: np.ascontiguousarray(scorer.weights[side]) for side in SIDES}
    return tensors if scorer.offsets is None else {**tensors, "offsets": scorer.offsets}


@dataclass(frozen=True)
class _Member:
    name: str
    model: str


@dataclass(frozen=True)
class _Sections:
    """What stands in the ``config.toml`` of an ensemble."""

    data: dict[str, Any]
    ensemble: dict[str, Any]
    members: list[_Member]


def read_combined(folder: RunFolder) -> CombinedRun:
    """Read an ensemble from its folder."""
    file = folder.path / "config.toml"
    sections = converted(folder.read_sections(), _Sections, str(file))
    data = read_source(sections.data, file)
    graph = folder.read_graph()
    members: dict[str, Model | PathModel] = {}
    digests = []
    for i, member in enumerate(sections.members):
        members[member.name], digest = _read_member(folder.member(i), member, graph)
        digests.append(digest)
    tensors, header = load_tensors(folder.weights, FORMAT, VERSION, graph=graph.fingerprint)
    try:
        if header.get("members", "") not in ("", " ".join(map(str, digests))):
            raise ValueError("its weights are of other members")
        config = EnsembleConfig.from_dict(sections.ensemble)
        scorer = _scorer(members, tensors, len(graph.relations))
        if (config.method == "platt") != ("offsets" in tensors):
            raise ValueError("its weights do not fit its method")
    except (KeyError, TypeError, ValueError, IndexError, ConfigError) as error:
        raise RunError(f"{folder.path} is damaged: {error}") from None
    run = CombinedRun(graph, members, scorer, config, data, folder.path)
    run.digest = header.get("digest")
    return run


def _read_member(path: Path, member: _Member, graph: Graph) -> tuple[Model | PathModel, str | None]:
    if member.model == PATHS:
        return load_paths_and_digest(path, graph)
    model, digest = load_model_and_digest(path, graph.fingerprint)
    if (len(model.entities), len(model.relations)) != (len(graph.entities), len(graph.relations)):
        raise RunError(f"{path} does not fit the graph of its ensemble")
    return model, digest


def _scorer(
    members: Mapping[str, Model | PathModel], tensors: dict[str, np.ndarray], rows: int
) -> MixtureScorer:
    if "slopes" in tensors:  # as version 0.1.0 kept the same weights for all relations
        tensors |= dict.fromkeys(SIDES, np.tile(tensors.pop("slopes"), (rows, 1)))
    weights = {side: tensors[side] for side in SIDES}
    if any(len(table) != rows for table in weights.values()):
        raise ValueError("its weights do not fit its relations")
    if not all(np.isfinite(table).all() for table in tensors.values()):
        raise ValueError("a weight is not finite")
    return MixtureScorer([m.scorer for m in members.values()], weights, tensors.get("offsets"))
