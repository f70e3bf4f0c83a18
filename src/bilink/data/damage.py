"""A graph with a part of its facts hidden, or with errors planted, to see what is found of them."""

from dataclasses import replace
from typing import Any

import numpy as np

from bilink.data.building import first_places
from bilink.data.graph import SPLITS, Graph
from bilink.data.negatives import sample_negatives
from bilink.errors import ConfigError


def hide_facts(graph: Graph, share: float, seed: int = 0) -> tuple[Graph, np.ndarray]:
    """The graph without a ``share`` of the facts of each split, and the hidden facts.

    Each entity and each relation keeps a training fact.
    """
    _check(share)
    random, hidden = np.random.default_rng([seed, 1]), [graph.train[:0]]
    kept: dict[str, Any] = {}
    for split in SPLITS:
        facts = graph.split(split)
        order = random.permutation(len(facts))
        free = np.ones(len(facts), dtype=bool)
        if split == "train":  # the first to mention an entity or a relation stays
            for columns, size in (([0, 2], len(graph.entities)), ([1], len(graph.relations))):
                places = first_places(facts[order][:, columns].ravel(), size)
                free[order[places[places < len(facts) * len(columns)] // len(columns)]] = False
        rows = order[free[order]][: round(share * len(facts))]
        hidden.append(facts[np.sort(rows)])
        kept[split] = np.delete(facts, rows, axis=0)
    return replace(graph, **kept, negatives={}), np.concatenate(hidden)


def plant_errors(graph: Graph, share: float, seed: int = 0) -> tuple[Graph, np.ndarray]:
    """The graph with a ``share`` of its facts replaced by errors, and the errors.

    An error has another head or tail, which stands in that position of the relation elsewhere.
    """
    _check(share)
    random, errors = np.random.default_rng([seed, 2]), [graph.train[:0]]
    splits: dict[str, Any] = {}
    for i, split in enumerate(SPLITS):
        facts = graph.split(split).copy()
        rows = np.sort(random.permutation(len(facts))[: round(share * len(facts))])
        planted = np.unique(sample_negatives(graph, facts[rows], [seed, 3, i]), axis=0)
        splits[split] = np.concatenate([np.delete(facts, rows, axis=0), planted])
        errors.append(planted)
    return replace(graph, **splits, negatives={}), np.concatenate(errors)


def _check(share: float) -> None:
    if not 0 <= share < 1:
        raise ConfigError(f"a share of facts is at least 0 and below 1, not {share}")
