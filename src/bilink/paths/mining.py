"""Mining: all rules of a graph, counted exactly for one and two steps and for constants.

Paths of three steps are too many to be counted one and all.  Those that join sampled facts of a
relation are found, and the most frequent of them are counted on sampled starts.  What is sampled is
measured in steps and not in seconds, so that the result is the same on every machine.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from bilink._random import Stream, generator
from bilink._threads import cores
from bilink.data.graph import Graph
from bilink.paths.adjacency import Adjacency
from bilink.paths.counting import (
    Limits,
    close_triple,
    count_constants,
    count_double,
    count_single,
    count_triple,
)
from bilink.paths.rules import NONE, STEPS, MiningConfig, Rules, confidence

Progress = Callable[[int], None]

# Paths of three steps, for an effort of 1; with fewer than _MANY relations there is more for each.
_STEPS = 400_000_000  # neighbours that are looked at to find bodies, of all relations together
_BODIES = 300  # of a relation that are counted
_STARTS = 400  # that a body is counted on
_WALKS = 20_000  # steps after which no further start is walked from
_MANY, _MOST = 100, 8.0


def mine(
    graph: Graph,
    config: MiningConfig | None = None,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Rules:
    """The rules of the training facts of ``graph``; the same whatever the number of threads.

    ``progress`` is called with the number of directed relations just done, of 2K for each length
    of paths and as many for constants.
    """
    config = config or MiningConfig()
    adjacency = Adjacency.of_graph(graph)
    miner = _Miner(adjacency, config, graph, threads or cores(), progress or (lambda done: None))
    parts = [miner.single()]
    if config.length > 1:
        parts.append(miner.double())
    if config.length > 2:
        parts.append(miner.triple())
    paths, counts = _best_paths(np.concatenate(parts), config)
    constants, constant_counts = miner.constants()
    return Rules(
        n_relations=len(graph.relations),
        config=config,
        paths=paths,
        path_counts=counts,
        constants=constants,
        constant_counts=constant_counts,
        hubs=int(np.count_nonzero(adjacency.degrees > config.hub)),
    )


def parts_of(graph: Graph, config: MiningConfig) -> int:
    """What ``progress`` adds up to."""
    return 2 * len(graph.relations) * (config.length + config.constants)


def _best_paths(rows: np.ndarray, config: MiningConfig) -> tuple[np.ndarray, np.ndarray]:
    """The most confident paths of each relation, of rows (r, d₁, d₂, d₃, support, groundings)."""
    counts = rows[:, STEPS + 1 :]
    order = np.lexsort(
        (*rows.T[STEPS:0:-1], -counts[:, 0], -confidence(counts, config.prior), rows[:, 0])
    )
    rows = rows[order]
    starts = np.searchsorted(rows[:, 0], rows[:, 0])
    rows = rows[np.arange(len(rows)) - starts < config.per_relation]
    return rows[:, : STEPS + 1].astype(np.int32), rows[:, STEPS + 1 :].copy()


class _Miner:
    """Counts one graph."""

    def __init__(
        self,
        adjacency: Adjacency,
        config: MiningConfig,
        graph: Graph,
        threads: int,
        progress: Progress,
    ):
        self._adjacency, self._edges, self._config = adjacency, adjacency.edges, config
        self._graph, self._k = graph, adjacency.n_relations
        self._threads, self._progress = threads, progress
        self._limits = Limits(
            config.hub, config.support, float(config.confidence), float(config.prior)
        )

    def single(self) -> np.ndarray:
        """Paths of one step: inverse and duplicate relations."""
        k, config = self._k, self._config
        bodies = np.zeros(2 * k, dtype=np.int64)
        supports = np.zeros((k, 2 * k), dtype=np.int64)
        count_single(self._edges, k, bodies, supports)
        r, d = np.nonzero(supports >= config.support)
        support = supports[r, d]
        keep = support >= config.confidence * (bodies[d] + config.prior)
        none = np.full_like(r, NONE)
        rows = np.stack([r, d, none, none, support, bodies[d]], axis=1)[keep]
        self._progress(2 * k)
        return rows

    def double(self) -> np.ndarray:
        """Paths of two steps."""

        def work(first: int) -> np.ndarray:
            return count_double(
                self._edges,
                self._k,
                first,
                self._adjacency.starts(first),
                self._limits,
            )

        found = self._each(work, range(2 * self._k))
        r, d1, d2, support, groundings = np.concatenate([np.empty((0, 5), np.int64), *found]).T
        return np.stack([r, d1, d2, np.full_like(r, NONE), support, groundings], axis=1)

    def triple(self) -> np.ndarray:
        """Paths of three steps, found and counted on samples."""
        config, graph = self._config, self._graph
        budget = int(config.effort * _STEPS / max(self._k, 1))
        effort = config.effort * min(max(_MANY / max(self._k, 1), 1.0), _MOST)
        most, starts_of_body, walks = (
            max(1, int(effort * size)) for size in (_BODIES, _STARTS, _WALKS)
        )

        def work(relation: int) -> np.ndarray:
            random = generator(config.seed, Stream.PATH_FACTS, relation)
            facts = graph.train[graph.train[:, 1] == relation][:, [0, 2]]
            facts = np.ascontiguousarray(random.permutation(facts))
            bodies = close_triple(self._edges, self._k, facts, config.hub, budget, most)
            counts = np.zeros((len(bodies), 2), dtype=np.int64)
            for first in np.unique(bodies[:, 0]):
                mine = np.flatnonzero(bodies[:, 0] == first)
                starts = random.permutation(self._adjacency.starts(first))
                part = np.zeros((len(mine), 2), dtype=np.int64)
                count_triple(
                    self._edges,
                    relation,
                    bodies[mine],
                    starts,
                    config.hub,
                    starts_of_body,
                    walks,
                    part,
                )
                counts[mine] = part
            keep = counts[:, 0] >= config.support
            keep &= confidence(counts, config.prior) >= config.confidence
            heads = np.full(int(keep.sum()), relation)
            return np.column_stack([heads, bodies[keep, :3], counts[keep]])

        found = self._each(work, range(self._k), steps=2)
        return np.concatenate([np.empty((0, 6), np.int64), *found])

    def constants(self) -> tuple[np.ndarray, np.ndarray]:
        """Rules with constants: rows (e, c, s, d), and their counts."""
        config, edges, k = self._config, self._edges, self._k
        if not config.constants or not len(edges.group_relation):
            return np.empty((0, 4), np.int32), np.empty((0, 2), np.int64)
        n_groups = len(edges.group_relation)
        owners, reverse = self._adjacency.owners, self._adjacency.reverse

        def work(heads: np.ndarray) -> np.ndarray:
            return count_constants(
                edges,
                k,
                reverse,
                owners,
                heads,
                self._limits._replace(support=max(config.support, 2)),
                config.per_constant,
            )

        parts = np.array_split(np.arange(n_groups), 2 * k) if k else []
        found = np.concatenate([np.empty((0, 4), np.int64), *self._each(work, parts)])
        head, body, counts = found[:, 0], found[:, 1], found[:, 2:]
        order = np.lexsort((body, -confidence(counts, config.prior), head))
        head, body, counts = head[order], body[order], counts[order]
        is_any = body >= n_groups
        group = np.where(is_any, 0, body)
        s = np.where(is_any, body - n_groups, self._inverse(edges.group_relation[group]))
        d = np.where(is_any, NONE, owners[group])
        columns = [self._inverse(edges.group_relation[head]), owners[head], s, d]
        return np.stack(columns, axis=1).astype(np.int32), counts.copy()

    def _inverse(self, directed: np.ndarray) -> np.ndarray:
        return np.where(directed < self._k, directed + self._k, directed - self._k)

    def _each(
        self, work: Callable[[Any], np.ndarray], items: Sequence[Any], steps: int = 1
    ) -> list[np.ndarray]:
        """``work`` of each item, in order; items are spread over threads."""

        def reported(item: Any) -> np.ndarray:
            found = work(item)
            self._progress(steps)
            return found

        with ThreadPoolExecutor(self._threads) as pool:
            try:
                return list(pool.map(reported, items))
            except BaseException:  # after an error or Ctrl-C, what has not begun is left out
                pool.shutdown(cancel_futures=True)
                raise
