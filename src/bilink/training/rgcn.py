"""R-GCN (Schlichtkrull et al., 2018): a graph convolution makes the entities of a DistMult.

An engine like the other two: what it trains is the encoder (``convolution``) and the relations;
what it leaves in the model after each epoch are the rows that the encoder makes of the entities, so
that nobody else knows how they were made.  A step passes all edges of the graph, and some or all
facts are held against corrupted ones.
"""

from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from bilink._extras import needs
from bilink._memory import available_memory
from bilink._random import Stream, generator
from bilink._threads import ThreadPool, cores
from bilink.data.graph import Graph
from bilink.errors import ConfigError
from bilink.models.model import Model
from bilink.models.registry import Family
from bilink.training.config import RgcnConfig
from bilink.training.engine import EpochPausedError, EpochTotals, Pause, Position
from bilink.training.optimizers import Optimizer

if TYPE_CHECKING:
    from bilink.training.convolution import Messages

DECODER = "distmult"
_PART = 1 << 24  # numbers of the decoder's rows that are held at once
_LIBRARY = 400 * 2**20  # what torch itself takes


def torch_formulas() -> ModuleType:
    """The module of formulas on tensors, if torch is installed."""
    with needs("torch", extra="torch", purpose="training R-GCN"):
        from bilink.training import convolution
    return convolution


class RgcnEngine:
    """Moves the parameters of an encoder and of the relations.

    An epoch is determined by the parameters, the optimizer's state, the seed, the epoch's number
    and the number of threads.
    """

    def __init__(self, model: Model, graph: Graph, config: RgcnConfig):
        check_decoder(model.family, config)
        self._torch = torch_formulas()
        self.model, self._config = model, config
        self.triples = graph.train
        self.threads = config.threads or cores()
        self._pool = ThreadPool(self.threads)
        self._edges = Edges(graph, config)
        sizes = len(model.entities), len(model.relations), model.dim
        self._layers, self._input = initial(config, *sizes)
        self._encoder = self._torch.Encoder(self._layers, self._input)
        arrays = [*self._arrays().values(), model.relations]
        self._optimizers = [
            Optimizer(rows.reshape(-1, rows.shape[-1]), config.optimizer, self._pool)
            for rows in arrays
        ]
        self._step = np.zeros(1, dtype=np.int64)
        self.position: Position | None = None

    def _arrays(self) -> dict[str, np.ndarray]:
        """The parameters of the encoder, by name."""
        found = {
            f"layer_{i}_{name}": array
            for i, own in enumerate(self._layers)
            for name, array in own.items()
        }
        return found if self._input is None else {**found, "input": self._input}

    @property
    def state(self) -> dict[str, np.ndarray]:
        """The encoder's parameters and the optimizer's arrays, by name."""
        arrays = self._arrays()
        found = dict(arrays)
        for name, optimizer in zip([*arrays, "relation"], self._optimizers, strict=True):
            found |= {f"{name}_{part}": array for part, array in optimizer.state.items()}
        return {**found, "step": self._step}

    def begin(self, epoch: int) -> Position:
        """The start of an epoch."""
        return Position(len(self.triples), np.zeros(1, dtype=np.int64), np.zeros((1, 2)))

    def run_epoch(self, epoch: int, factor: float = 1.0, pause: Pause | None = None) -> EpochTotals:
        """Pass once over the training triples, in an order drawn from (seed, epoch).

        ``factor`` is on the step size.  ``pause`` is asked after each step.
        """
        config, facts = self._config, len(self.triples)
        if epoch == 0 and self.position is None:  # the initial rows are what entities start as
            self._start()[:] = self.model.entities
        order = generator(config.seed, Stream.EPOCH, epoch).permutation(facts)
        rate = np.float32(config.learning_rate * config.decay**epoch * factor)
        at, size = self.position or self.begin(epoch), config.batch_size or facts
        with self._torch.threads(self.threads), self._pool.running():
            for start in range(int(at.done[0]), facts, size):
                chosen = order[start : start + size]
                loss, beaten = self._take_step(chosen, rate, (epoch, start))
                at.totals[0] += len(chosen) * loss, beaten
                at.done[0] = start + len(chosen)
                if at.done[0] < facts and pause is not None and pause(at.share):
                    self.position = at
                    raise EpochPausedError
            self.model.entities[:] = self._encoder.rows(self._edges.all)
        self.position = None
        loss, beaten = (at.totals[0] / [facts, facts * config.negatives]).tolist()
        if not self.model.is_finite():  # the loss is that before the last step
            loss = float("nan")
        return EpochTotals(loss, beaten, facts * config.negatives)

    def _start(self) -> np.ndarray:
        """What an entity is to itself, before it has heard of others."""
        return self._layers[0]["self"] if self._input is None else self._input

    def _take_step(
        self, chosen: np.ndarray, rate: np.float32, number: tuple[int, int]
    ) -> tuple[float, int]:
        """The mean loss of some facts, and how many negatives beat their fact."""
        config, (n, dim) = self._config, self.model.entities.shape
        epoch, start = number
        random = generator(config.seed, Stream.CONVOLUTION, epoch + 1, start)
        sample = self._torch.Sample.of(
            self.triples[chosen].astype(np.int64),
            random.integers(n, size=(len(chosen), config.negatives)),
            random.random(len(chosen)) < 0.5,
        )
        loss, beaten, gradients = self._encoder.gradients(
            self._edges.kept(random),
            _masks(random, config.dropout.loops, (n, dim), config.layers),
            self.model.relations,
            sample,
            (config.regularization.entity, config.regularization.relation),
            part_size(dim, config.negatives),
        )
        self._step += 1
        for optimizer, gradient in zip(self._optimizers, gradients, strict=True):
            rows = np.ascontiguousarray(gradient).reshape(optimizer.params.shape)
            optimizer.step(rows, rate, int(self._step[0]))
        return loss, beaten


def _masks(
    random: np.random.Generator, rate: float, shape: tuple[int, int], count: int
) -> list[np.ndarray] | None:
    """Factors 0 or 1 / (1 − rate), for each layer."""
    if not rate:
        return None
    scale = np.float32(1 / (1 - rate))
    return [scale * (random.random(shape, dtype=np.float32) >= rate) for _ in range(count)]


class Edges:
    """The training triples in both directions, by the entity that hears; all, or some of them."""

    def __init__(self, graph: Graph, config: RgcnConfig):
        self._torch, self._drop = torch_formulas(), config.dropout.edges
        h, r, t = graph.train.T.astype(np.int64)
        n, k = len(graph.entities), len(graph.relations)
        targets, sources = np.concatenate([t, h]), np.concatenate([h, t])
        relations = np.concatenate([r, r + k])
        order = np.lexsort([sources, relations, targets])
        self._facts = order % len(graph.train)  # an edge and its inverse are one fact
        self._targets, self._sources = targets[order], sources[order]
        self._relations, self._entities = relations[order], n
        groups = self._targets
        if config.normalization == "relation":
            pairs = groups * 2 * k + self._relations
            groups = np.cumsum(np.diff(pairs, prepend=pairs[:1]) != 0)
        self._groups = groups  # edges that are divided by their number
        self.all: Messages = self._messages(slice(None))

    def kept(self, random: np.random.Generator) -> "Messages":
        """What is left when each fact is dropped, with its inverse, at random."""
        if not self._drop:
            return self.all
        left = random.random(len(self._facts) // 2, dtype=np.float32) >= self._drop
        return self._messages(np.flatnonzero(left[self._facts]))

    def _messages(self, which: np.ndarray | slice) -> "Messages":
        groups = self._groups[which]
        counts = np.bincount(self._targets[which], minlength=self._entities)
        start = np.concatenate([[0], np.cumsum(counts)])
        weight = (1 / np.maximum(np.bincount(groups), 1)).astype(np.float32)[groups]
        edges = self._sources[which], self._relations[which]
        return self._torch.Messages.of(start, *edges, weight)


def initial(
    config: RgcnConfig, n: int, k: int, dim: int
) -> tuple[list[dict[str, np.ndarray]], np.ndarray | None]:
    """Random parameters of each layer, and the input of the first one, which is still zero.

    With a basis, the first layer needs none.  What an entity is to itself starts as the rows that
    the model starts with, which the engine puts there.
    """
    random = generator(config.seed, Stream.CONVOLUTION)
    basis = config.decomposition == "basis"
    layers = []
    for i in range(config.layers):
        first = basis and i == 0
        inputs = n if first else dim
        scale = config.init_scale if first else dim**-0.5
        own: dict[str, np.ndarray] = {"self": np.zeros((inputs, dim))}
        if not first:
            own["self"][:] = scale * random.standard_normal((dim, dim))
        if basis:
            own["bases"] = scale * random.standard_normal((config.bases, inputs, dim))
            own["coefficients"] = random.standard_normal((2 * k, config.bases))
        else:
            size = dim // config.blocks
            shape = 2 * k, config.blocks, size, size
            own["blocks"] = size**-0.5 * random.standard_normal(shape)
        layers.append({name: array.astype(np.float32) for name, array in own.items()})
    return layers, None if basis else np.zeros((n, dim), dtype=np.float32)


def part_size(dim: int, negatives: int) -> int:
    """How many facts the decoder sees at once."""
    return max(1, _PART // (dim * (3 + negatives)))


def memory(graph: Graph, dim: int, config: RgcnConfig) -> int:
    """Bytes that training takes, about."""
    n, k, edges = len(graph.entities), len(graph.relations), 2 * len(graph.train)
    if config.decomposition == "basis":
        matrices = config.bases + 1
        params = matrices * dim * (n + (config.layers - 1) * dim)
        params += 2 * k * config.bases * config.layers
        rows = (2 * matrices + 2) * n * dim * config.layers + edges * (config.bases + 1)
    else:
        params = n * dim + config.layers * dim * (dim + 2 * k * dim // config.blocks)
        rows = (6 * n * dim + 4 * edges * dim) * config.layers
    copies = 2 + {"adam": 2, "adagrad": 1}[config.optimizer]  # gradients, optimizer
    numbers = copies * (params + k * dim) + rows + 5 * n * dim + 6 * _PART
    return 4 * numbers + 8 * 10 * edges + _LIBRARY


def check_decoder(family: Family, config: RgcnConfig) -> None:
    """Refuse a model that is no decoder of R-GCN."""
    if family.name != DECODER:
        raise ConfigError(
            f"R-GCN makes the entities of a {DECODER}, not of a {family.name}; take --model rgcn"
        )


def check_size(graph: Graph, dim: int, config: RgcnConfig) -> None:
    """Refuse, before anything is done, what cannot be trained here."""
    torch_formulas()
    if config.decomposition == "block" and dim % config.blocks:
        raise ConfigError(f"dim {dim} cannot be cut into {config.blocks} blocks of equal size")
    needed, free = memory(graph, dim, config), available_memory()
    if needed > free:
        raise ConfigError(
            f"training R-GCN on this graph takes about {needed / 1e9:.1f} GB, and {free / 1e9:.1f} "
            "GB are free: a step passes the whole graph, so only a smaller dim helps"
        )
