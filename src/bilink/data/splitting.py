"""Dealing the triples of one graph into train, valid and test."""

import numpy as np

from bilink._text import counted, warn
from bilink.errors import ConfigError

FRACTIONS = (0.8, 0.1, 0.1)


def split_triples(
    triples: np.ndarray,
    n_entities: int,
    n_relations: int,
    fractions: tuple[float, float, float] = FRACTIONS,
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Deal distinct ``triples`` at random so that train mentions every entity and relation.

    In a random order, the first triple of each entity and of each relation stays in train; valid
    and test are drawn from the others.  Each part keeps the order of ``triples``.  Linear in the
    number of triples; equal arguments give equal parts.
    """
    valid_share, test_share = _check(fractions)
    if seed < 0:
        raise ConfigError(f"seed must be at least 0, not {seed}")
    n = len(triples)
    order = np.random.default_rng(seed).permutation(n)
    free = order[~_first_mentions(triples[order], n_entities, n_relations)]
    wanted = np.array([round(n * valid_share), round(n * test_share)])
    if wanted.sum() > len(free):
        valid = round(len(free) * wanted[0] / wanted.sum())
        warn(
            f"only {counted(len(free), 'triple')} of {n:,} can be held out, not {wanted.sum():,}: "
            "every entity and relation must keep one in train"
        )
        wanted = np.array([valid, len(free) - valid])
    part = np.zeros(n, dtype=np.int8)
    part[free[: wanted[0]]] = 1
    part[free[wanted[0] : wanted.sum()]] = 2
    return triples[part == 0], triples[part == 1], triples[part == 2]


def _check(fractions: tuple[float, float, float]) -> tuple[float, float]:
    train, valid, test = fractions
    if not (train > 0 and valid >= 0 and test >= 0 and abs(train + valid + test - 1) < 1e-6):
        raise ConfigError(
            f"fractions of train, valid and test must be positive and add up to 1, not {fractions}"
        )
    return valid, test


def _first_mentions(triples: np.ndarray, n_entities: int, n_relations: int) -> np.ndarray:
    """Which rows are the first to mention some entity or some relation."""
    first = np.zeros(len(triples), dtype=bool)
    if len(triples):
        first[first_rows(triples[:, [0, 2]], n_entities)] = True
        first[first_rows(triples[:, [1]], n_relations)] = True
    return first


def first_rows(ids: np.ndarray, n: int) -> np.ndarray:
    """The first row of ``ids`` (rows, k) that holds each of the ids 0..n-1 that occur."""
    places = first_places(ids.ravel(), n)
    return places[places < ids.size] // ids.shape[1]


def first_places(ids: np.ndarray, n: int) -> np.ndarray:
    """The first position of each of the ids 0..n-1; ``len(ids)`` for one that does not occur."""
    places = np.full(n, len(ids), dtype=np.int64)
    # Assigned back to front: where an id repeats, its first position is written last.
    places[ids[::-1]] = np.arange(len(ids) - 1, -1, -1)
    return places
