"""False triples made of true ones, by replacing the head or the tail (Socher et al., 2013).

The replacement stands in the same position of the same relation somewhere in training, so that the
triple is plausible: (Vienna, capital of, Norway) rather than (Vienna, capital of, Euro).
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from bilink.data.graph import COLUMNS, SPLITS, Graph, position
from bilink.data.index import KnownAnswers, known_answers
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
                    pools = None if any_entity else train.positions
                    drawn = _draw(graph, side, pools, true, negatives[rows], random)
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


def _draw(
    graph: Graph,
    side: str,
    positions: tuple[np.ndarray, np.ndarray] | None,
    true: np.ndarray,
    triples: np.ndarray,
    random: np.random.Generator,
) -> np.ndarray:
    """For each triple an entity that makes none of ``true``; −1 where its pool has none left.

    The pool of a relation is its position on ``side``; without ``positions``, one pool of all
    entities serves all relations.  The k-th free place of a pool is k + the number of taken places
    before it, so that no draw is rejected, however few places are free.
    """
    n, n_relations = len(graph.entities), len(graph.relations)
    given, column = COLUMNS[side]
    if positions is None:
        pool_of = np.zeros(n_relations, dtype=np.int64)
        entities, starts = np.arange(n), np.array([0, n])
    else:
        pool_of = 2 * np.arange(n_relations, dtype=np.int64) + (side == "tail")
        entities, starts = positions
    # Of the true triples, those whose ``side`` is in its pool, with its place there as its id.
    asked = np.zeros(n_relations, dtype=bool)
    asked[triples[:, 1]] = True
    true = true[asked[true[:, 1]]]
    keys = np.repeat(np.arange(len(starts) - 1), np.diff(starts)) * n + entities
    at = position(keys, pool_of[true[:, 1]] * n + true[:, column])
    true, at = true[at >= 0], at[at >= 0]
    true[:, column] = at - starts[pool_of[true[:, 1]]]
    taken = KnownAnswers.of(true, side, n, n_relations)
    start, stop = taken.spans(triples[:, given], triples[:, 1])
    pool = pool_of[triples[:, 1]]
    free = np.diff(starts)[pool] - (stop - start)
    k = random.integers(0, np.maximum(free, 1))
    # Taken place number i of a query (from 0) has answers[i] − i free places before it.
    first = np.repeat(taken.offsets[:-1], np.diff(taken.offsets))
    free_before = taken.answers - (np.arange(len(first)) - first)
    before = np.searchsorted(first * n + free_before, start * n + k, side="right") - start
    place = starts[pool] + k + np.where(stop > start, before, 0)
    return np.where(free > 0, np.append(entities, -1)[place], -1)
