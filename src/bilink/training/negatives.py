"""Which corruptions to draw, and which to reject."""

import numpy as np

from bilink._jit import kernel
from bilink.data.graph import Graph, triple_keys
from bilink.training.kernels import mix


def known_table(graph: Graph) -> np.ndarray:
    """The training triples as an open-addressing hash table of keys, at most half full.

    The keys are ``triple_keys``; −1 marks an empty slot.
    """
    keys = triple_keys(graph.train, len(graph.entities), len(graph.relations))
    table = np.full(1 << max(1, int(2 * len(keys) - 1).bit_length()), -1, dtype=np.int64)
    _fill(table, keys)
    return table


def position_pools(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """The entities that stand in each position of each relation in training, and where they start.

    Those of relation r's heads start at 2r, those of its tails at 2r + 1; each occurs once.
    """
    n, k = len(graph.entities), len(graph.relations)
    places = 2 * graph.train[:, 1].astype(np.int64)
    keys = np.concatenate([places * n + graph.train[:, 0], (places + 1) * n + graph.train[:, 2]])
    keys.sort()
    keys = keys[np.flatnonzero(np.diff(keys, prepend=-1))]
    starts = np.searchsorted(keys, np.arange(2 * k + 1, dtype=np.int64) * n)
    return (keys % n).astype(np.int32), starts


def head_chances(graph: Graph, corrupt: str) -> np.ndarray:
    """For each relation, the chance (of 2³¹) that a corruption replaces the head.

    One half; with "bernoulli" more where a head has many tails, because a random tail would then
    often be right (Wang et al., 2014).
    """
    chances = np.full(len(graph.relations), 0.5)
    if corrupt == "bernoulli":
        triples = np.bincount(graph.train[:, 1], minlength=len(chances))
        heads, tails = (_distinct(graph, column) for column in (0, 2))
        # tails per head / (tails per head + heads per tail); the number of triples cancels
        chances[triples > 0] = (tails / np.maximum(heads + tails, 1))[triples > 0]
    return (chances * 2**31).astype(np.int64)


def _distinct(graph: Graph, column: int) -> np.ndarray:
    """How many different entities stand in ``column`` of each relation."""
    keys = graph.train[:, 1].astype(np.int64) * len(graph.entities) + graph.train[:, column]
    keys.sort()
    relations = keys[np.flatnonzero(np.diff(keys, prepend=-1))] // len(graph.entities)
    return np.bincount(relations, minlength=len(graph.relations))


@kernel
def _fill(table, keys):
    """Insert the keys."""
    mask = np.uint64(table.shape[0] - 1)
    for key in keys:
        slot = mix(np.uint64(key)) & mask
        while table[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        table[slot] = key
