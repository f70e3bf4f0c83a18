"""Clusters of paths that predict the same (SAFRAN: Ott et al., 2021).

Two paths of a relation that lead from its heads to the same entities say one thing twice.  How much
they overlap is the Jaccard index of the pairs that they predict, |A ∩ B| / |A ∪ B|.  From the most
confident path to the least, a path joins the cluster whose most confident path it overlaps most, if
that is at least ``overlap``; else it begins a cluster.  A cluster then counts once, by the best of
its paths that leads to a candidate.

The heads are sampled where there are many.  What is sampled is measured in pairs, so that the
result is the same on every machine.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from bilink._jit import kernel, loop
from bilink._random import Stream, generator
from bilink._threads import cores
from bilink.data.graph import Graph
from bilink.paths.adjacency import Adjacency, degree, find_group
from bilink.paths.rules import Rules

_STARTS = 200  # heads of a relation that its paths are compared on, at most
_PAIRS = 100_000  # predicted by all paths of a relation, after which no further head is taken


def clustered(rules: Rules, graph: Graph, threads: int | None = None) -> Rules:
    """The same rules with ``clusters``; the same whatever the number of threads."""
    config, edges = rules.config, Adjacency.of_graph(graph).edges
    first = np.searchsorted(rules.paths[:, 0], np.arange(rules.n_relations + 1))
    clusters = np.arange(len(rules.paths), dtype=np.int32)

    def work(relation: int) -> None:
        part = slice(int(first[relation]), int(first[relation + 1]))
        if part.stop - part.start < 2:
            return
        heads = np.unique(graph.train[graph.train[:, 1] == relation, 0])
        random = generator(config.seed, Stream.PATH_CLUSTERS, relation)
        starts = random.permutation(heads)[:_STARTS].astype(np.int64)
        steps = np.ascontiguousarray(rules.paths[part, 1:])
        path, pair = predicted(edges, steps, starts, config.hub, _PAIRS)
        order = np.argsort(path, kind="stable")
        offsets = np.searchsorted(path[order], np.arange(len(steps) + 1))
        leaders = np.arange(len(steps))
        join(offsets, pair[order], float(config.overlap), leaders)
        clusters[part] = part.start + leaders

    with ThreadPoolExecutor(threads or cores()) as pool:
        list(pool.map(work, range(rules.n_relations)))
    return replace(rules, clusters=clusters)


class _Reached(NamedTuple):
    """Where the walks along one path from one start have led."""

    walk: Any  # int64, per entity: the walk that last reached it
    pair: Any  # int64, per entity: the number of the pair with the present start
    start: Any  # int64, per entity: the start of that pair
    counts: Any  # int64: walks, pairs, rows of the list


@loop
def _add(reached, i, p, y, path, pair):
    """Path p leads from start i to y: append that to the list, once."""
    if reached.walk[y] == reached.counts[0]:
        return
    reached.walk[y] = reached.counts[0]
    if reached.start[y] != i:
        reached.start[y], reached.pair[y] = i, reached.counts[1]
        reached.counts[1] += 1
    row = reached.counts[2]
    path[row], pair[row] = p, reached.pair[y]
    reached.counts[2] = row + 1


@loop
def _walk(edges, reached, steps, i, p, x, hub, path, pair):
    """Walk from x along path p; the list has room for all entities."""
    reached.counts[0] += 1
    d1, d2, d3 = steps[p, 0], steps[p, 1], steps[p, 2]
    g1 = find_group(edges, x, d1)
    if g1 < 0:
        return
    for a in range(edges.group_start[g1], edges.group_start[g1 + 1]):
        z1 = edges.neighbours[a]
        if d2 < 0:
            _add(reached, i, p, z1, path, pair)
            continue
        g2 = find_group(edges, z1, d2)
        if g2 < 0 or degree(edges, z1) > hub:
            continue
        for b in range(edges.group_start[g2], edges.group_start[g2 + 1]):
            z2 = edges.neighbours[b]
            if z2 == x:
                continue
            if d3 < 0:
                _add(reached, i, p, z2, path, pair)
                continue
            g3 = find_group(edges, z2, d3)
            if g3 < 0 or degree(edges, z2) > hub:
                continue
            for c in range(edges.group_start[g3], edges.group_start[g3 + 1]):
                y = edges.neighbours[c]
                if y != x and y != z1:
                    _add(reached, i, p, y, path, pair)


@kernel
def predicted(edges, steps, starts, hub, most):
    """Which path predicts which pair: rows (path, number of the pair), each once.

    No further start is taken once there are ``most`` rows.
    """
    n = edges.groups.shape[0] - 1
    reached = _Reached(
        np.full(n, -1, dtype=np.int64),
        np.empty(n, dtype=np.int64),
        np.full(n, -1, dtype=np.int64),
        np.zeros(3, dtype=np.int64),
    )
    path = np.empty(1 << 10, dtype=np.int64)
    pair = np.empty(1 << 10, dtype=np.int64)
    for i in range(starts.shape[0]):
        if reached.counts[2] >= most:
            break
        for p in range(steps.shape[0]):
            while reached.counts[2] + n > path.shape[0]:
                path = np.concatenate((path, np.empty_like(path)))
                pair = np.concatenate((pair, np.empty_like(pair)))
            _walk(edges, reached, steps, i, p, starts[i], hub, path, pair)
    found = reached.counts[2]
    return path[:found].copy(), pair[:found].copy()


@kernel
def join(offsets, pairs, overlap, leaders):
    """leaders[p] = the most confident path of the cluster of path p.

    The pairs that path p predicts are pairs[offsets[p] : offsets[p + 1]].  Those of leaders are
    kept in one list for each pair, so that only leaders that share a pair are compared.
    """
    count, none = offsets.shape[0] - 1, np.int64(-1)
    n_pairs = pairs.max() + 1 if pairs.shape[0] else 0
    newest = np.full(n_pairs, none)  # per pair: the last entry of its list
    leader, before = np.empty_like(pairs), np.empty_like(pairs)  # of each entry
    entries = 0
    shared = np.zeros(count, dtype=np.int64)  # per leader: pairs that the path shares with it
    for p in range(count):
        size = offsets[p + 1] - offsets[p]
        shared[:p] = 0
        for i in range(offsets[p], offsets[p + 1]):
            entry = newest[pairs[i]]
            while entry != none:
                shared[leader[entry]] += 1
                entry = before[entry]
        best, most = p, 0.0
        for q in range(p):
            if shared[q]:
                jaccard = shared[q] / (size + offsets[q + 1] - offsets[q] - shared[q])
                if jaccard > most:
                    best, most = q, jaccard
        if best < p and most >= overlap:
            leaders[p] = best
            continue
        leaders[p] = p
        for i in range(offsets[p], offsets[p + 1]):
            leader[entries], before[entries] = p, newest[pairs[i]]
            newest[pairs[i]] = entries
            entries += 1
