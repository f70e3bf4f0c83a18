"""False triples made of true ones, by replacing the head or the tail (Socher et al., 2013).

The replacement stands in the same position of the same relation somewhere in training, so that the
triple is plausible: (Vienna, capital of, Norway) rather than (Vienna, capital of, Euro).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bilink.data.graph import COLUMNS, SPLITS, Graph
from bilink.data.index import FactIndex, KnownAnswers, known_answers
from bilink.errors import ConfigError, DataError

Sides = Literal["random", "head", "tail", "both"]
SIDES: tuple[Sides, ...] = ("random", "head", "tail", "both")


def sample_negatives(
    graph: Graph,
    triples: np.ndarray,
    seed: int | Sequence[int] = 0,
    *,
    count: int = 1,
    sides: Sides = "random",
    known: Sequence[str] = SPLITS,
    plausible: bool = True,
) -> np.ndarray:
    """``count`` false triples for each of ``triples``, in their order, as an array of shape (m, 3).

    ``sides`` says what is replaced: the head or the tail at random, always the one named, or
    ``"both"``: ``count`` triples with another head, followed by ``count`` with another tail.

    Each replacement is drawn uniformly, with repetition, from the entities that training has in
    that position of the relation and that do not make a triple of the splits ``known``.  Where
    there are none, the other position is tried (if ``sides`` is random), then any entity.  Without
    ``plausible``, any entity may be drawn from the start.  A triple gets no negatives, and fewer
    rows come back, only if all its replacements are known.
    """
    if sides not in SIDES:
        raise ConfigError(f"sides must be one of {', '.join(SIDES)}, not {sides!r}")
    if count < 1:
        raise ConfigError(f"count must be at least 1, not {count}")
    random = random_numbers(seed)
    triples = _checked(graph, triples)
    true = np.concatenate([graph.train[:0], *(graph.split(split) for split in known)])
    train = known_answers(graph, ("train",))
    negatives = np.repeat(triples, 2 * count if sides == "both" else count, axis=0)
    if sides == "random":
        heads = random.random(len(negatives)) < 0.5  # whether the head is replaced, else the tail
    else:
        pattern = {"head": [True], "tail": [False], "both": [True] * count + [False] * count}
        heads = np.resize(pattern[sides], len(negatives))
    made = np.zeros(len(negatives), dtype=bool)
    for any_entity in (False, True) if plausible else (True,):
        for swapped in (False, True) if sides == "random" else (False,):
            for side, (_, column) in COLUMNS.items():
                rows = np.flatnonzero(~made & (heads == ((side == "head") != swapped)))
                if len(rows):
                    pools = _Pools.of(graph, train, side, any_entity)
                    drawn = _draw(pools, true, negatives[rows], random)
                    rows, drawn = rows[drawn >= 0], drawn[drawn >= 0]
                    negatives[rows, column] = drawn
                    made[rows] = True
    return negatives[made]


def random_numbers(seed: int | Sequence[int]) -> np.random.Generator:
    """The random generator of a seed, which must not be negative."""
    if np.min(seed) < 0:
        raise ConfigError(f"seed must be at least 0, not {np.min(seed)}")
    return np.random.default_rng(seed)


def _checked(graph: Graph, triples: np.ndarray) -> np.ndarray:
    triples = np.asarray(triples, dtype=np.int32).reshape(-1, 3)
    limits = (len(graph.entities), len(graph.relations), len(graph.entities))
    if len(triples) and (triples.min() < 0 or (triples.max(axis=0) >= limits).any()):
        raise DataError(f"the triples have ids that graph {graph.name!r} does not have")
    return triples


@dataclass(frozen=True, eq=False)
class _Pools:
    """Where replacements of one side are drawn from: a pool for each relation, or one for all."""

    side: str
    n_entities: int
    pool: np.ndarray  # of each relation
    keys: np.ndarray  # pool · n_entities + entity, sorted, unique; then a larger one
    starts: np.ndarray  # where each pool starts in keys, and where the last one stops

    @classmethod
    def of(cls, graph: Graph, train: FactIndex, side: str, any_entity: bool) -> "_Pools":
        """The entities in this position of each relation in training, or one pool of them all."""
        n, k = len(graph.entities), len(graph.relations)
        if any_entity:
            pool = np.zeros(k, dtype=np.int64)
            entities, starts = np.arange(n), np.array([0, n])
        else:
            pool = 2 * np.arange(k, dtype=np.int64) + (side == "tail")
            entities, starts = train.positions
        pools = np.arange(len(starts) - 1)
        keys = np.repeat(pools, np.diff(starts)) * n + entities
        return cls(side, n, pool, np.append(keys, len(pools) * n), starts)

    def with_places(self, triples: np.ndarray) -> np.ndarray:
        """Those triples whose ``side`` is in its pool, with its place there instead of its id."""
        column = COLUMNS[self.side][1]
        pools = self.pool[triples[:, 1]]
        wanted = pools * self.n_entities + triples[:, column]
        at = np.searchsorted(self.keys, wanted)
        inside = self.keys[at] == wanted
        placed = triples[inside]
        placed[:, column] = (at - self.starts[pools])[inside]
        return placed


def _draw(
    pools: _Pools, true: np.ndarray, triples: np.ndarray, random: np.random.Generator
) -> np.ndarray:
    """For each triple an entity that makes none of ``true``; −1 where its pool has none left.

    The k-th free place of a pool is k + the number of taken places before it, so that no draw is
    rejected, however few places are free.
    """
    n, relations = pools.n_entities, triples[:, 1]
    asked = np.zeros(len(pools.pool), dtype=bool)
    asked[relations] = True
    placed = pools.with_places(true[asked[true[:, 1]]])
    taken = KnownAnswers.of(placed, pools.side, n, len(pools.pool))
    start, stop = taken.spans(triples[:, COLUMNS[pools.side][0]], relations)
    pool = pools.pool[relations]
    free = np.diff(pools.starts)[pool] - (stop - start)
    k = random.integers(0, np.maximum(free, 1))
    # Taken place number i of a query (from 0) has answers[i] − i free places before it.
    first = np.repeat(taken.offsets[:-1], np.diff(taken.offsets))
    free_before = taken.answers - (np.arange(len(first)) - first)
    before = np.searchsorted(first * n + free_before, start * n + k, side="right") - start
    place = pools.starts[pool] + k + np.where(stop > start, before, 0)
    return np.where(free > 0, pools.keys[place] % n, -1)
