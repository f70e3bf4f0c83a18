"""What a run will take, before it starts."""

import time
from dataclasses import dataclass, replace

import numpy as np

from bilink.data.graph import Graph
from bilink.data.vocabulary import Vocabulary
from bilink.models.model import Model
from bilink.training.config import Config, MarginConfig, SoftmaxConfig
from bilink.training.engine import Engine
from bilink.training.loop import initialise, make_engine
from bilink.training.tables import SCORES

_PROBE_ENTITIES = 2_000
_PROBE_RELATIONS = 4
_PROBE_SECONDS = 0.3
_STATES = {"adagrad": 1, "row-adagrad": 0, "sgd": 0, "adam": 2}  # as large as the parameters
_BASE = 200 * 2**20  # the interpreter, its libraries and compiled kernels


@dataclass(frozen=True)
class Plan:
    """The size of a run: parameters, bytes of memory, and an upper estimate of its seconds."""

    title: str
    parameters: int
    memory: int
    seconds: float
    epochs: int
    threads: int


def plan(graph: Graph, model: Model, config: Config) -> Plan:
    """Count the memory and time a few steps on a small random graph.

    The probe's margin is always violated, as it is at the start of a run; later epochs move fewer
    rows and are faster, so that the time is an upper estimate.  A softmax is probed with all
    entities, since its time grows with their number, and apart in the epochs that are over all.
    """
    parameters = model.entities.size + model.relations.size
    softmax = isinstance(config, SoftmaxConfig)
    copies = 1 + _STATES[config.optimizer] + (len(graph.valid) > 0) + softmax
    memory = copies * parameters * model.entities.itemsize + _BASE + softmax * SCORES
    memory += 24 * len(graph.train) + sum(graph.split(s).nbytes for s in ("train", "valid", "test"))
    per_triple, threads = _probe(model, config, len(graph.train))
    seconds = per_triple * len(graph.train)
    if config.minutes:
        seconds = min(seconds, 60 * config.minutes)
    return Plan(model.family.title, parameters, memory, seconds, config.epochs, threads)


def _probe(model: Model, config: Config, most: int) -> tuple[float, int]:
    """Seconds that all epochs take for each triple, tried with at most so many; and threads."""
    random = np.random.default_rng(0)
    n, full = len(model.entities), 0
    k = min(_PROBE_RELATIONS, len(model.relations))
    size = max(200, min(20_000, 2_000_000 // model.relations.shape[1]))
    worst: Config = replace(config, learning_rate=1e-6)
    if isinstance(worst, MarginConfig):
        n, worst = min(_PROBE_ENTITIES, n), replace(worst, margin=1e6)
    else:
        size = max(1, min(worst.batch_size, most))  # two batches, one for each side
        full = min(worst.full_epochs, worst.epochs)
    triples = np.stack([random.integers(0, high, size) for high in (n, k, n)], axis=1)
    names = tuple(map(str, range(n)))
    none = np.empty((0, 3))
    graph = Graph(
        "probe", Vocabulary("entity", names), Vocabulary("relation", names[:k]), triples, none, none
    )
    small = Model.empty(model.family.name, model.dim, n, k)
    initialise(small, worst)
    engine = make_engine(small, graph, worst)
    kinds = [(0, config.epochs - full), (config.epochs - 1, full)]  # an epoch, and how many like it
    seconds = sum(count * _seconds(engine, epoch) for epoch, count in kinds if count)
    return seconds / size, engine.threads


def _seconds(engine: Engine, epoch: int) -> float:
    """The least time of an epoch like this one."""
    engine.run_epoch(epoch)  # compiles, or reads the compiled kernel from disk
    best, started = float("inf"), time.perf_counter()
    while time.perf_counter() - started < _PROBE_SECONDS:
        before = time.perf_counter()
        engine.run_epoch(epoch)
        best = min(best, time.perf_counter() - before)
    return best
