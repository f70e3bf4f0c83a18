"""What a run will take, before it starts; and as much of a run as a given time allows."""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bilink.data.graph import SPLITS, Graph
from bilink.data.vocabulary import Vocabulary
from bilink.errors import ConfigError
from bilink.models.model import Model
from bilink.models.registry import Family
from bilink.training.batches import queries_of
from bilink.training.config import Config, MarginConfig, RgcnConfig, SoftmaxConfig
from bilink.training.engine import Engine, EpochPausedError
from bilink.training.loop import initialise, make_engine
from bilink.training.parts import MOST
from bilink.training.rgcn import memory as rgcn_memory
from bilink.training.tables import SCORES

_PROBE_ENTITIES = 2_000
_PROBE_RELATIONS = 4
_PROBE_SECONDS = 0.3
_PROBE_DIM = 64
_STATES = {"adagrad": 1, "row-adagrad": 0, "sgd": 0, "adam": 2}  # as large as the parameters
_BASE = 200 * 2**20  # the interpreter, its libraries and compiled kernels
_NAME = 70  # bytes of an entity's name
_TRIPLE = 24  # bytes that an engine keeps of each triple, beside the triple
_PLACE, _SORTED = 6, 12  # bytes: where parts have each entity, and the bucket of each triple
# By how much a step takes longer than its processor time, spread over the threads: parts of it run
# on one thread.
_SERIAL = 1.2


@dataclass(frozen=True)
class Plan:
    """The size of a run: parameters, bytes of memory, and an estimate of its seconds."""

    title: str
    parameters: int
    memory: int
    seconds: float
    epochs: int
    threads: int


def plan(graph: Graph, model: Model, config: Config) -> Plan:
    """Count the memory, and time a few steps on a small random graph.

    The probe's margin is always violated, as it is at the start of a run; later epochs move fewer
    rows and are faster, so that the time is an upper estimate.  A softmax is probed with all
    entities, since its time grows with their number.
    """
    parameters = len(graph.entities) * model.entities.shape[1] + model.relations.size
    title = "R-GCN" if isinstance(config, RgcnConfig) else model.family.title
    memory = memory_of(graph, model.family, model.dim, config)
    sampled, full, threads = epoch_seconds(graph, model, config)
    of_all = full_epochs(config)
    seconds = (config.epochs - of_all) * sampled + of_all * full
    if config.minutes:
        seconds = min(seconds, 60 * config.minutes)
    return Plan(title, parameters, memory, seconds, config.epochs, threads)


def memory_of(graph: Graph, family: Family, dim: int, config: Config) -> int:
    """Bytes of memory that training takes, in one piece or in parts.

    In parts, the rows of two of them are held, and those of one more while it is read or written.
    Distances are validated on a copy of all entities, or two while it is made.
    """
    if isinstance(config, RgcnConfig):
        return _BASE + rgcn_memory(graph, dim, config)
    n, k, triples = len(graph.entities), len(graph.relations), len(graph.train)
    entity, relation = family.widths(dim)
    softmax, states = isinstance(config, SoftmaxConfig), _STATES[config.optimizer]
    copies, rows, share = 1 + states + softmax, n, 1.0
    if config.parts > 1:
        part = -(-n // config.parts)
        rows, share = 2 * part, 2 / (config.parts * (config.parts - 1))
        copies += full_epochs(config) > 0  # gradients of all candidates at hand
        more = (1 + states) * part * entity * 4 + _PLACE * n + _SORTED * triples
    else:
        more = (len(graph.valid) > 0) * 4 * (n * entity + k * relation)  # the best so far
    if family.form.extra and config.validation_triples and len(graph.valid):
        more += 8 * n * (entity + family.form.extra)
    more += _BASE + softmax * SCORES + int(share * _TRIPLE * triples) + _NAME * n
    more += sum(graph.split(split).nbytes for split in SPLITS)
    return int(4 * copies * (rows * entity + k * relation) + more)


def within(
    graph: Graph, family: Family, dim: int, config: Config, memory: int, *, fixed: bool = False
) -> Config:
    """The config in as few parts as fit into ``memory``; with ``fixed``, in as many as it has."""
    least = 0
    fixed = fixed or isinstance(config, RgcnConfig)  # which is not trained in parts
    for parts in (config.parts,) if fixed else (1, *range(3, MOST + 1)):
        if parts <= max(1, len(graph.entities)):
            config = replace(config, parts=parts)
            if (least := memory_of(graph, family, dim, config)) <= memory:
                return config
    at_least = "" if fixed else "at least "
    raise ConfigError(
        f"{family.title} of dim {dim} takes {at_least}{least / 1e9:,.1f} GB in {config.parts} "
        f"parts, more than {memory / 1e9:,.1f} GB; give it more memory, or a smaller dim"
    )


def fitted_to(graph: Graph, model: Model, config: Config, seconds: float) -> Config:
    """The config with fewer epochs, if they would take longer; the learning rate ends as before.

    Epochs over all entities become epochs over a sample of them before any are left out.
    """
    sampled, full, _ = epoch_seconds(graph, model, config)
    epochs, of_all = config.epochs, full_epochs(config)
    if (epochs - of_all) * sampled + of_all * full <= seconds:
        return config
    left = seconds - epochs * sampled  # for epochs over all entities in place of others
    of_all = max(0, min(of_all, int(left / max(full - sampled, 1e-9))))
    if left < 0:
        epochs = max(1, int(seconds / sampled))
    options: dict[str, Any] = {"epochs": epochs, "decay": config.decay ** (config.epochs / epochs)}
    if isinstance(config, SoftmaxConfig) and config.negatives:
        options["full_epochs"] = of_all = min(of_all, epochs)
        options["rounding"] = config.rounding if of_all else 0.0
    return replace(config, **options)


def full_epochs(config: Config) -> int:
    """How many epochs are over all entities."""
    if not isinstance(config, SoftmaxConfig):
        return 0
    return min(config.full_epochs, config.epochs) if config.negatives else config.epochs


def epoch_seconds(graph: Graph, model: Model, config: Config) -> tuple[float, float, int]:
    """Seconds of an epoch over a sample of negatives and of one over all entities; and threads.

    The two are the same where there is one kind of epochs only.
    """
    if isinstance(config, RgcnConfig):
        seconds, threads = _step_seconds(graph, model, config)
        return seconds, seconds, threads
    if not isinstance(config, SoftmaxConfig):
        seconds, threads = _probe(model, config, len(graph.train), 0)
        return seconds * len(graph.train), seconds * len(graph.train), threads
    parts = 1 if config.queries == "per-fact" else config.answers_per_query
    queries = 2 * len(graph.train)
    if config.parts == 1:
        queries = len(queries_of(graph, parts))
    size = max(1, min(config.batch_size, len(graph.train)))  # two batches, one for each side
    found = dict.fromkeys((full_epochs(config) == config.epochs, full_epochs(config) > 0), 0.0)
    for of_all in found:
        epoch = config.epochs - 1 if of_all else 0
        found[of_all], threads = _probe(model, config, size, epoch)
    times = [queries * found.get(of_all, next(iter(found.values()))) for of_all in (False, True)]
    return times[0], times[1], threads


def _step_seconds(graph: Graph, model: Model, config: RgcnConfig) -> tuple[float, int]:
    """Seconds of an epoch of R-GCN, from a step on the graph itself; and threads.

    A step of it passes the whole graph, so that only its vectors can be shorter.
    """
    sizes = len(model.entities), len(model.relations)
    dim = min(model.dim, max(1, _PROBE_DIM // config.blocks) * config.blocks)
    probed = Model.empty(model.family.name, dim, *sizes)
    initialise(probed, config)
    engine = make_engine(probed, graph, config)
    before, worked = time.perf_counter(), time.process_time()
    try:
        engine.run_epoch(0, 0.0, lambda share: True)
    except EpochPausedError:
        assert engine.position is not None
        share = engine.position.share
    else:
        share = 1.0
    took, worked = time.perf_counter() - before, time.process_time() - worked
    seconds = min(took, _SERIAL * worked / engine.threads) * model.dim / dim
    return seconds / share, engine.threads


def _probe(model: Model, config: Config, most: int, epoch: int) -> tuple[float, int]:
    """Seconds of such an epoch for each triple, or for each query of a softmax; and threads."""
    random = np.random.default_rng(0)
    n, k = len(model.entities), min(_PROBE_RELATIONS, len(model.relations))
    size, probed = most, replace(config, learning_rate=1e-6)
    if isinstance(probed, MarginConfig):
        n, probed = min(_PROBE_ENTITIES, n), replace(probed, margin=1e6)
        size = max(200, min(20_000, 2_000_000 // model.relations.shape[1]))
    else:
        k = len(model.relations)
    triples = np.stack([random.integers(0, high, size) for high in (n, k, n)], axis=1)
    names = tuple(map(str, range(max(n, k))))
    none = np.empty((0, 3))
    graph = Graph(
        "probe",
        Vocabulary("entity", names[:n]),
        Vocabulary("relation", names[:k]),
        triples,
        none,
        none,
    )
    small = Model.empty(model.family.name, model.dim, n, k)
    initialise(small, probed)
    engine = make_engine(small, graph, probed)
    seconds, pairs = _seconds(engine, epoch)
    return seconds / (size if isinstance(probed, MarginConfig) else pairs), engine.threads


def _seconds(engine: Engine, epoch: int) -> tuple[float, int]:
    """The least time of an epoch like this one, and how many pairs or queries it compares.

    What else runs on the machine makes an epoch longer, but not its processor time.
    """
    pairs = engine.run_epoch(epoch).pairs  # compiles, or reads the compiled kernel from disk
    best, started = float("inf"), time.perf_counter()
    while time.perf_counter() - started < _PROBE_SECONDS:
        before, worked = time.perf_counter(), time.process_time()
        engine.run_epoch(epoch)
        took, worked = time.perf_counter() - before, time.process_time() - worked
        best = min(best, took, _SERIAL * worked / engine.threads)
    return best, pairs
