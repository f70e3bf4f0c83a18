"""Margin training: the paper's algorithm, one triple after the other, lock-free on threads."""

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from bilink._jit import kernel, mix
from bilink._random import Stream, seeds
from bilink._threads import cores
from bilink.data.graph import Graph, triple_keys
from bilink.data.index import known_answers, rejected_facts
from bilink.models.model import Model
from bilink.training import margin_kernels as kernels
from bilink.training.config import MarginConfig
from bilink.training.engine import EpochPausedError, EpochTotals, Pause, Position
from bilink.training.optimizers import Optimizer

_PIECE = 1 << 14  # triples that a thread takes at once; between two pieces it may pause


class MarginEngine:
    """Moves the parameters of a model, one training triple after the other.

    An epoch is determined by the parameters, the optimizer's state, the seed and the epoch's
    number, so that a run goes on from any epoch as if it had never stopped.  With one thread the
    result is the same bit for bit; with more, threads write to shared rows without locks, and the
    order of their writes is left to chance.
    """

    def __init__(self, model: Model, graph: Graph, config: MarginConfig):
        self.model, self._config = model, config
        self.triples = graph.train
        self.threads = config.threads or cores()
        self._optimizers = [
            Optimizer(rows, config.optimizer) for rows in (model.entities, model.relations)
        ]
        known = known_table(graph) if config.filter_negatives else np.array([-1])
        self._sampling = kernels.Sampling(
            known,
            *known_answers(graph, ("train",)).positions,
            int(config.plausible * 2**31),
            head_chances(graph, config.corrupt),
            int(config.corrupt == "both"),
            config.negatives,
            *rejected_answers(graph),
        )
        self._train_chunk = model.family.bind(kernels.train_chunk)
        scales = np.empty(0)
        if config.coordinates == "paper" and model.family.relation_scales is not None:
            scales = model.family.relation_scales(model.relations.shape[1])
        self._scales = scales.astype(model.relations.dtype)
        self.position: Position | None = None

    @property
    def state(self) -> dict[str, np.ndarray]:
        """The optimizer's arrays, by name."""
        entities, relations = self._optimizers
        return {"entity_state": entities.first, "relation_state": relations.first}

    def adopt(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on with the optimizer's arrays of another engine, in place."""
        for optimizer, kind in zip(self._optimizers, ("entity", "relation"), strict=True):
            optimizer.adopt(state[f"{kind}_state"], optimizer.second)

    def begin(self, epoch: int) -> Position:
        """The start of an epoch, with random numbers of its own for each thread."""
        streams = seeds(self._config.seed, Stream.EPOCH, epoch)
        return Position(
            total=len(self.triples),
            done=np.zeros(self.threads, dtype=np.int64),
            totals=np.zeros((self.threads, 3)),
            random=streams.spawn(1)[0].generate_state(self.threads, np.uint64).view(np.int64),
        )

    def run_epoch(self, epoch: int, factor: float = 1.0, pause: Pause | None = None) -> EpochTotals:
        """Pass once over the training triples, in an order drawn from (seed, epoch).

        ``factor`` is on the step size.  ``pause`` is asked after each piece of a thread.
        """
        order = np.arange(len(self.triples), dtype=place_type(len(self.triples)))
        random = np.random.default_rng(seeds(self._config.seed, Stream.EPOCH, epoch))
        random.shuffle(order)
        at, model = self.position or self.begin(epoch), self.model
        first, second = self.state.values()
        params = kernels.Parameters(model.entities, model.relations, first, second, self._scales)
        config, number = self._config, model.entities.dtype.type
        rules = kernels.Rules(
            number(config.margin),
            kernels.LOSSES[config.loss],
            number(config.learning_rate * config.decay**epoch * factor),
            number(config.regularization.entity),
            number(config.regularization.relation),
            self._optimizers[0].number,
            number(config.epsilon),
            kernels.CONSTRAINTS[config.constraint],
            config.steps == "triple",
        )

        stopped, asking = threading.Event(), threading.Lock()

        def train(i: int, part: np.ndarray) -> None:
            own = at.random[i : i + 1].view(np.uint64), at.totals[i]
            while at.done[i] < len(part) and not stopped.is_set():
                piece = part[at.done[i] : at.done[i] + _PIECE]
                self._train_chunk(params, self.triples, piece, self._sampling, rules, *own)
                at.done[i] += len(piece)
                if pause is not None and at.done[i] < len(part):
                    with asking:
                        if pause(at.share):
                            stopped.set()

        # Off the main thread even when there is one, so that signals are heard meanwhile.
        with ThreadPoolExecutor(self.threads) as pool:
            parts = enumerate(np.array_split(order, self.threads))
            jobs = [pool.submit(train, *part) for part in parts]
            try:
                for job in jobs:
                    job.result()
            finally:
                stopped.set()  # after an error the other threads end with their piece
        if at.done.sum() < at.total:
            self.position = at
            raise EpochPausedError
        self.position = None
        loss, violated, pairs = at.totals.sum(axis=0).tolist()
        return EpochTotals(loss / max(pairs, 1), violated / max(pairs, 1), int(pairs))


def place_type(n: int) -> type[np.signedinteger]:
    """The smallest type, of the two that kernels know, that holds the places of ``n`` things."""
    return np.int32 if n <= np.iinfo(np.int32).max else np.int64


def known_table(graph: Graph) -> np.ndarray:
    """The training triples as an open-addressing hash table of keys, at most half full.

    The keys are ``triple_keys``; −1 marks an empty slot.
    """
    keys = triple_keys(graph.train, len(graph.entities), len(graph.relations))
    table = np.full(1 << max(1, int(2 * len(keys) - 1).bit_length()), -1, dtype=np.int64)
    _fill(table, keys)
    return table


def rejected_answers(graph: Graph) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Queries that have rejected answers, as sorted keys; where those of each start; the answers.

    See ``margin_kernels.Sampling``.
    """
    rejected, parts = rejected_facts(graph), []
    for is_head, side in enumerate(("tail", "head")):
        found = rejected[side]
        keys = 2 * np.repeat(found.keys, np.diff(found.offsets)) + is_head
        parts.append((keys, found.answers.astype(np.int64)))
    keys, answers = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.argsort(keys, kind="stable")
    distinct, starts = np.unique(keys[order], return_index=True)
    return distinct, np.append(starts, len(keys)).astype(np.int64), answers[order]


def head_chances(graph: Graph, corrupt: str) -> np.ndarray:
    """For each relation, the chance (of 2³¹) that a corruption replaces the head.

    One half; with "bernoulli" more where a head has many tails, because a random tail would then
    often be right (Wang et al., 2014).
    """
    chances = np.full(len(graph.relations), 0.5)
    if corrupt == "bernoulli":
        triples = np.bincount(graph.train[:, 1], minlength=len(chances))
        _, starts = known_answers(graph, ("train",)).positions
        heads, tails = np.diff(starts).reshape(-1, 2).T  # how many different ones
        # tails per head / (tails per head + heads per tail); the number of triples cancels
        chances[triples > 0] = (tails / np.maximum(heads + tails, 1))[triples > 0]
    return (chances * 2**31).astype(np.int64)


@kernel
def _fill(table, keys):
    """Insert the keys."""
    mask = np.uint64(table.shape[0] - 1)
    for key in keys:
        slot = mix(np.uint64(key)) & mask
        while table[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        table[slot] = key
