"""PTransE (Lin et al., 2015): TransE and weighed paths, trained together, added up."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bilink._random import Stream, generator
from bilink.data.graph import Graph
from bilink.errors import ConfigError
from bilink.models.scorer import SIDES, Side
from bilink.paths.flows import FlowScorer
from bilink.paths.mining import mine
from bilink.paths.model import NAME as PATHS
from bilink.paths.model import PathModel
from bilink.paths.rules import MiningConfig
from bilink.paths.scorer import fixed_weights
from bilink.runs.combined import CombinedRun, combine
from bilink.runs.job import Job, OnEpoch, ShouldStop, prepare
from bilink.runs.paths import PathConfig, PathRun
from bilink.training.engine import Engine
from bilink.training.path_loss import PathEngine, PathLoss

NAME = "ptranse"
PATH_OPTIONS = ("length", "support", "confidence", "prior", "per_relation", "hub", "effort")
RATE = "path_rate"  # the step size of the path loss; 0 trains TransE alone
_FACTS = 200  # of a relation, by which the flow along its paths is measured
_UNIT = 1e-3  # of flow, from which on its logarithm counts
_SMALL = 0.01  # what a path without confidence is worth, as Lin et al. have it


@dataclass(frozen=True)
class PTransE:
    """A graph, its paths, and the job that trains the translations; ready to run."""

    job: Job  # of TransE
    paths: FlowScorer
    loss: PathLoss
    config: PathConfig

    def run(
        self,
        *,
        out: str | Path | None = None,
        force: bool = False,
        on_epoch: OnEpoch | None = None,
        should_stop: ShouldStop = lambda: False,
    ) -> CombinedRun:
        """Train the translations with the paths; then weigh the two parts on validation."""
        graph, rules = self.job.graph, self.loss.rules
        trained = self.job.run(on_epoch=on_epoch, should_stop=should_stop, calibrate=False)
        agreement = self.loss.agreement(trained.model.relations)
        values = ((1 - _SMALL) * rules.path_confidence + _SMALL) * agreement
        k = len(graph.relations)
        names: dict[Side, list[str]] = {side: ["flow"] * k for side in SIDES}
        model = PathModel(rules, fixed_weights("max", k), names, graph, values, _UNIT)
        flows = PathRun(graph, model, self.config)
        return combine([trained, flows], out=out, force=force)


def prepare_ptranse(
    data: Graph | str | Path,
    dim: int | None = None,
    options: Mapping[str, Any] | None = None,
    *,
    preset: str | None = None,
    say: Callable[[str], None] = lambda text: None,
    **reading: Any,
) -> PTransE:
    """Count the paths of a graph, and how much flows along each.

    ``options`` are those of training, of mining (``PATH_OPTIONS``), and ``path_rate``.
    """
    given = dict(options or {})
    rate = _parsed_rate(given.pop(RATE, 0.1))
    mining = {"length": 2, **{name: given.pop(name) for name in PATH_OPTIONS if name in given}}
    config = MiningConfig(constants=False).with_options(mining)
    job = prepare(data, "transe", dim, given, preset=preset, **reading)
    graph, training = job.graph, job.config.training
    rules = mine(graph, config)
    say(f"{len(rules.paths):,} paths")
    scorer = FlowScorer(rules, graph, np.ones(len(rules.paths)))
    loss = PathLoss.of(rules, _flows(scorer, graph, training.seed))
    say(f"{np.count_nonzero(loss.weights):,} of them join facts")

    def wrap(engine: Engine) -> Engine:
        return PathEngine(engine, loss, rate, training.seed) if rate else engine

    about = PathConfig(
        data=job.config.data, fingerprint=graph.fingerprint, mining=config, model=PATHS
    )
    return PTransE(replace(job, wrap=wrap), scorer, loss, about)


def _parsed_rate(value: Any) -> float:
    try:
        rate = float(value)
    except (TypeError, ValueError):
        rate = -1.0
    if not 0 <= rate < float("inf"):
        raise ConfigError(f"{RATE} must be a number of at least 0, not {value!r}")
    return rate


def _flows(scorer: FlowScorer, graph: Graph, seed: int) -> np.ndarray:
    """W(p, r): what flows along each path between facts of its relation, of a sample scaled up."""
    flows = np.zeros(len(scorer.values))
    order = np.argsort(graph.train[:, 1], kind="stable")
    starts = np.searchsorted(graph.train[order, 1], np.arange(len(graph.relations) + 1))
    for relation in range(len(graph.relations)):
        mine = order[starts[relation] : starts[relation + 1]]
        random = generator(seed, Stream.PATH_FACTS, relation)
        sample = random.permutation(mine)[:_FACTS]
        if len(sample):
            scale = len(mine) / len(sample)
            flows += scale * scorer.reliability(graph.train[sample][:, [0, 2]], relation)
    return flows
