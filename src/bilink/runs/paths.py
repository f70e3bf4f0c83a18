"""The run of a path model: rules are mined, weighed on validation, and used like any model."""

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bilink._documents import converted
from bilink._random import Stream, generator
from bilink._text import counted
from bilink.data.graph import Graph
from bilink.data.loading import load_graph
from bilink.ensembles.aggregation import BY_CLUSTER, check_aggregation, fit_aggregation
from bilink.errors import ConfigError, RunError
from bilink.evaluation.entity_ranking import VALIDATION_FILTER, rank_entities
from bilink.models.model import Model
from bilink.paths.clusters import clustered
from bilink.paths.mining import mine
from bilink.paths.model import NAME, PathModel, load_paths_and_digest, save_paths
from bilink.paths.rules import MiningConfig, Rules
from bilink.paths.scorer import PathScorer, fixed_weights
from bilink.queries.rules import RuleReader
from bilink.runs.config import read_source
from bilink.runs.folder import RunFolder, check_folder
from bilink.runs.run import Run

Say = Callable[[str], None]
_PREVIEWED = 500  # validation triples
_TWO_STEPS = 1_000_000  # training triples up to which a preview counts paths of two steps


@dataclass(frozen=True, kw_only=True)
class PathConfig:
    """What is needed to repeat a run of paths."""

    data: Mapping[str, Any]  # the arguments of load_graph
    fingerprint: str  # of the graph
    mining: MiningConfig
    aggregation: str = "auto"
    model: str = NAME


class PathRun(Run):
    """Rules of a graph, weighed: query it, evaluate it, read its rules."""

    def __init__(
        self, graph: Graph, model: PathModel, config: PathConfig, path: Path | None = None
    ):
        self.graph, self.model, self.config, self.path = graph, model, config, path

    @property
    def scorer(self) -> PathScorer:
        """What ranks and answers."""
        return self.model.scorer

    @property
    def models(self) -> Mapping[str, Model]:
        """Nothing is embedded."""
        return {}

    @property
    def path_models(self) -> Mapping[str, PathModel]:
        """The one path model."""
        return {NAME: self.model}

    def weighed_again(self) -> "PathRun":
        """The same rules, weighed on all of the validation split."""
        model = _weighed(self.model.rules, self.graph, self.config, lambda text: None)
        return PathRun(self.graph, model, self.config)

    def write(self, folder: RunFolder) -> None:
        """Write all files of the run to its folder."""
        check_folder(folder)
        folder.begin(self.graph)
        self.digest = save_paths(self.model, folder.model)
        self._write_probability(folder)
        folder.write_sections(
            data={**self.config.data, "fingerprint": self.config.fingerprint},
            model={"name": NAME},
            paths={**self.config.mining.to_dict(), "aggregation": self.config.aggregation},
        )
        self.path = folder.path

    def __repr__(self) -> str:
        return f"Run({self.model!r} of {self.graph.name!r})"


def train_paths(
    data: Graph | str | Path,
    options: Mapping[str, Any] | None = None,
    *,
    out: str | Path | None = None,
    force: bool = False,
    calibrate: bool = True,
    threads: int | None = None,
    say: Say = lambda text: None,
    progress: Callable[[int], None] | None = None,
    source: Mapping[str, Any] | None = None,
    triples: np.ndarray | None = None,
) -> PathRun:
    """Mine the rules of ``data`` and weigh them on its validation split, or on ``triples`` of it.

    ``options`` are those of ``MiningConfig``, and ``aggregation``.  With ``out``, the run is kept
    in that folder.  ``source`` says where a graph was read from.
    """
    mining, aggregation = split_options(options or {})
    graph = data if isinstance(data, Graph) else load_graph(data)
    source = source or {"source": graph.name if isinstance(data, Graph) else str(data)}
    config = PathConfig(
        data=source, fingerprint=graph.fingerprint, mining=mining, aggregation=aggregation
    )
    folder = RunFolder(out) if out is not None else None
    with folder.created(force) if folder else nullcontext():  # before the work is done in vain
        rules = _mined(graph, config, threads, say, progress)
        run = PathRun(graph, _weighed(rules, graph, config, say, triples), config)
        if calibrate:
            run.calibrate_if_possible()
        if folder:
            run.write(folder)
    return run


def split_options(options: Mapping[str, Any]) -> tuple[MiningConfig, str]:
    """The options of mining, and the aggregation, checked."""
    given = dict(options)
    aggregation = str(given.pop("aggregation", "auto"))
    check_aggregation(aggregation)
    return MiningConfig().with_options(given), aggregation


def _mined(
    graph: Graph,
    config: PathConfig,
    threads: int | None,
    say: Say,
    progress: Callable[[int], None] | None,
) -> Rules:
    if not len(graph.train):
        raise ConfigError(f"graph {graph.name!r} has no training triples to mine")
    started = time.perf_counter()
    rules = mine(graph, config.mining, threads=threads, progress=progress)
    hubs = f"; {rules.hubs:,} hubs are not crossed" if rules.hubs else ""
    say(
        f"{len(rules.paths):,} paths and {len(rules.constants):,} rules with constants "
        f"in {time.perf_counter() - started:.1f} s{hubs}"
    )
    return clustered(rules, graph, threads) if config.aggregation in BY_CLUSTER else rules


def _weighed(
    rules: Rules, graph: Graph, config: PathConfig, say: Say, triples: np.ndarray | None = None
) -> PathModel:
    scorer = PathScorer(rules, graph, fixed_weights("max", len(graph.relations)))
    how = config.aggregation
    found = fit_aggregation(scorer, graph, how, seed=config.mining.seed, triples=triples)
    say(f"weighed on {len(graph.valid if triples is None else triples):,} validation triples")
    return PathModel(rules, *found, graph)


@dataclass(frozen=True)
class PathPreview:
    """What a graph gives away before anything is trained: what short paths alone reach."""

    length: int  # steps of the paths, at most
    paths: int  # rules of so many steps
    triples: int  # validation triples that were ranked
    mrr: float | None  # of the best rule, filtered by train and valid; None without valid
    hits10: float | None
    seconds: float
    given_away: list[dict[str, Any]]  # relations whose facts follow from those of another one

    def sentences(self) -> list[str]:
        """For people."""
        lines = []
        if self.length < 2:
            lines.append(
                f"paths of one step only, not ranked: there are more than {_TWO_STEPS:,} "
                "training triples; --model paths counts more"
            )
        if self.mrr is not None:
            lines.append(
                f"short paths alone, counted and not trained: validation MRR {self.mrr:.3f}, "
                f"Hits@10 {self.hits10:.3f} on {self.triples:,} triples"
            )
        return lines + _leakage(self.given_away)


def _leakage(given_away: list[dict[str, Any]]) -> list[str]:
    if not given_away:
        return []
    first, others = given_away[0], len(given_away) - 1
    more = f", and {counted(others, 'more relation')} likewise" if others else ""
    return [
        f"given away: {first['share']:.0%} of {first['relation']!r} follow from "
        f"{first['rule']}{more}"
    ]


def leakage_sentence(model: PathModel, graph: Graph) -> str:
    """For people, which relations the rules give away; nothing if there are none."""
    return "".join(_leakage(_given_away(model, graph)))


def preview_paths(graph: Graph) -> PathPreview:
    """Count paths of one and two steps, and rank some validation triples by the best rule.

    On a large graph that would take hours, so it is paths of one step, and nothing is ranked.
    """
    started = time.perf_counter()
    length = 2 if len(graph.train) <= _TWO_STEPS else 1
    rules = mine(graph, MiningConfig(length=length, constants=False))
    weights = fixed_weights("max", len(graph.relations))
    random = generator(0, Stream.VALIDATION)
    sample = graph.valid[random.permutation(len(graph.valid))[:_PREVIEWED]]
    found: dict[str, float] = {}
    if length < 2:
        sample = sample[:0]
    if len(sample):
        scorer = PathScorer(rules, graph, weights)
        options: dict[str, Any] = {"filter": VALIDATION_FILTER, "triples": sample}
        found = rank_entities(scorer, graph, "valid", **options).metrics()
    model = PathModel(rules, weights, {}, graph)
    return PathPreview(
        length=length,
        paths=len(rules.paths),
        triples=len(sample),
        mrr=found.get("mrr"),
        hits10=found.get("hits@10"),
        seconds=time.perf_counter() - started,
        given_away=_given_away(model, graph),
    )


def _given_away(model: PathModel, graph: Graph) -> list[dict[str, Any]]:
    """Relations most of whose facts follow from one path of one step, the most frequent first."""
    rules, reader = model.rules, RuleReader(model, graph)
    facts = np.bincount(graph.train[:, 1], minlength=len(graph.relations))
    found = []
    for relation in np.argsort(-facts, kind="stable").tolist():
        for i in rules.of_relation(relation):
            support = rules.path_counts[i, 0]
            if (
                rules.paths[i, 2] < 0
                and min(rules.path_confidence[i], support / facts[relation]) > 0.5
            ):
                rule = reader.path(i, [])
                found.append(
                    {
                        "relation": rule.relation,
                        "rule": f"{rule.head} ← {rule.body}",
                        "confidence": rule.confidence,
                        "share": float(support / facts[relation]),
                    }
                )
                break
    return found


@dataclass(frozen=True)
class _Sections:
    """What stands in the ``config.toml`` of a run of paths."""

    data: dict[str, Any]
    paths: dict[str, Any]


def read_paths(folder: RunFolder) -> PathRun:
    """Read a run of paths from its folder."""
    file = folder.path / "config.toml"
    sections = converted(folder.read_sections(), _Sections, str(file))
    source = read_source(sections.data, file)
    try:
        mining, aggregation = split_options(sections.paths)
    except ConfigError as error:
        raise RunError(f"{file}: {error}") from None
    graph = folder.read_graph()
    if not folder.model.exists():
        raise RunError(f"{folder.path} has no model.safetensors; mine its rules again")
    model, digest = load_paths_and_digest(folder.model, graph)
    config = PathConfig(
        data=source, fingerprint=graph.fingerprint, mining=mining, aggregation=aggregation
    )
    run = PathRun(graph, model, config, folder.path)
    run.digest = digest
    return run
