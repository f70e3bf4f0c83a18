"""Buckets: the small graphs that a graph is cut into where it is trained in parts.

Entities are dealt into parts at random, and each pair of parts makes a bucket: the entities of
both, and the triples between them in either direction.  A triple within one part goes to any of the
buckets of that part.  So all buckets are about as large, and negatives come from two parts in each.
Buckets follow one another such that one part changes at a time.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from bilink._random import Stream, generator, seeds
from bilink.data.graph import Graph
from bilink.data.vocabulary import Vocabulary

# Streams of random numbers of a deal.
_TRIPLES, _SEEDS = 1, 2


def bucket_order(parts: int) -> list[tuple[int, int]]:
    """All pairs of parts; each shares a part with the one before it.

    To and fro: (0, 1), (0, 2), (0, 3), (1, 3), (1, 2), (2, 3).  With two in memory, no order needs
    to read fewer parts: one for each pair, and another one for the first.
    """
    order: list[tuple[int, int]] = []
    for i in range(parts - 1):
        others = range(i + 1, parts)
        order += [(i, j) for j in (others if i % 2 == 0 else reversed(others))]
    assert all(set(a) & set(b) for a, b in pairwise(order))
    return order


def part_sizes(entities: int, parts: int) -> list[int]:
    """How many entities are in each part."""
    return [entities // parts + (p < entities % parts) for p in range(parts)]


def deal_entities(entities: int, parts: int, seed: int, deal: int) -> np.ndarray:
    """The part of each entity, int16."""
    part_of = np.repeat(np.arange(parts, dtype=np.int16), part_sizes(entities, parts))
    generator(seed, Stream.PARTS, deal).shuffle(part_of)
    return part_of


def bucket_seed(seed: int, epoch: int, bucket: int) -> int:
    """The seed of an epoch in a bucket."""
    state = seeds(seed, Stream.PARTS, epoch, _SEEDS, bucket).generate_state(1, np.uint64)
    return int(state[0] >> np.uint64(1))


@dataclass(frozen=True)
class Deal:
    """Which part each entity is in, and the bucket of each triple."""

    graph: Graph
    parts: int
    part_of: np.ndarray  # int16, of each entity
    row_of: np.ndarray  # int32, of each entity: its row in the part
    _train: "_Sorted"
    _negatives: "_Sorted"

    @classmethod
    def of(
        cls, graph: Graph, part_of: np.ndarray, row_of: np.ndarray, parts: int, seed: int, deal: int
    ) -> "Deal":
        """Sort the triples into buckets."""
        random = generator(seed, Stream.PARTS, deal, _TRIPLES)
        numbers = np.zeros((parts, parts), dtype=np.int16)
        for number, (i, j) in enumerate(bucket_order(parts)):
            numbers[i, j] = numbers[j, i] = number
        negatives = graph.negatives.get("train", graph.train[:0])
        found = [_sorted(triples, part_of, numbers, random) for triples in (graph.train, negatives)]
        return cls(graph, parts, part_of, row_of, *found)

    def bucket(self, number: int, first: int, second: int) -> Graph:
        """The graph of bucket ``number``: the entities of one part, then those of the other."""
        sizes = part_sizes(len(self.part_of), self.parts)
        offsets = np.zeros(self.parts, dtype=np.int32)
        offsets[second] = sizes[first]

        def local(triples: np.ndarray) -> np.ndarray:
            triples = triples.copy()
            for column in (0, 2):
                ids = triples[:, column]
                triples[:, column] = self.row_of[ids] + offsets[self.part_of[ids]]
            return triples

        graph, none = self.graph, self.graph.train[:0]
        return Graph(
            name=f"{graph.name}, bucket {number}",
            entities=Vocabulary(
                "entity", ("",) * (sizes[first] + sizes[second])
            ),  # nobody asks for a name
            relations=graph.relations,
            train=local(graph.train[self._train.of(number)]),
            valid=none,
            test=none,
            negatives={
                "train": local(graph.negatives.get("train", none)[self._negatives.of(number)])
            },
        )


@dataclass(frozen=True)
class _Sorted:
    """Places of triples, sorted by their buckets."""

    order: np.ndarray
    starts: np.ndarray

    def of(self, bucket: int) -> np.ndarray:
        """Where the triples of a bucket are."""
        return self.order[self.starts[bucket] : self.starts[bucket + 1]]


def _sorted(
    triples: np.ndarray, part_of: np.ndarray, numbers: np.ndarray, random: np.random.Generator
) -> _Sorted:
    first, second = part_of[triples[:, 0]], part_of[triples[:, 2]]
    parts = len(numbers)
    other = random.integers(parts - 1, size=len(triples), dtype=np.int16)  # any but the first
    other += other >= first
    buckets = numbers[first, np.where(first == second, other, second)]
    # A stable sort of small integers takes time in proportion to their number.
    order = np.argsort(buckets, kind="stable")
    if len(order) <= np.iinfo(np.int32).max:
        order = order.astype(np.int32)
    counts = np.bincount(buckets, minlength=parts * (parts - 1) // 2)
    return _Sorted(order, np.append(0, np.cumsum(counts)))
