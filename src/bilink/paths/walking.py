"""The loops that answer: along all rules of a question, to the candidates that they name."""

from typing import Any, NamedTuple

import numpy as np

from bilink._jit import kernel, kernel_function, loop
from bilink.paths.adjacency import degree, find_group, inverse

FEATURES = (
    "best rule, log c",
    "best rule, −log(1 − c)",
    "next four rules",
    "best path",
    "next four paths",
    "other paths",
    "best constant",
    "next four constants",
    "best ten clusters of paths",
    "frequency",
)  # sums of −log(1 − c), unless they say otherwise
BEST_RULE = 1  # the feature that is largest for the most confident rule
CLUSTERS = 8  # the feature of clusters
BEST = 5  # rules of a kind that count for themselves
MOST = 10  # clusters that count
_LEAST = 1e-4  # confidence at which log c is taken to be 0
_CERTAIN = 1e-6  # 1 − c is at least that


class Tables(NamedTuple):
    """The rules as the loops read them, for questions in both directions."""

    paths: Any  # int32, (n, 3): the steps, of all directed heads, sorted
    path_start: Any  # int64, (2K + 1,)
    path_surprise: Any  # float64: −log(1 − c), of the confidence c
    path_cluster: Any  # int64: paths of a cluster have the same number
    # Rules with constants, e(X, c) ← body, for questions that give X: by e, then by body.
    body: Any  # int64: a group, or a directed relation behind all groups
    body_start: Any  # int64, (2K + 1,), by e
    body_answer: Any  # int32: c
    body_surprise: Any  # float64
    # The same for questions that give c: by the group of c that holds the X of the head.
    head: Any  # int64, sorted
    head_body: Any  # int64
    head_surprise: Any  # float64
    # How often an entity is the answer along a directed relation.
    frequency_start: Any  # int64, (2K + 1,)
    frequency_entity: Any  # int32
    frequency: Any  # float64: the logarithm of 1 + the number


class _Evidence(NamedTuple):
    """What was found for the candidates of one question so far."""

    question: Any  # int64, per entity: the question that it was last named in
    rule: Any  # int64, per entity: the rule that it was last named by
    named: Any  # int32: the candidates in the order in which they were named
    count: Any  # int64, one number: how many
    # Per entity: −log(1 − c) of the best rules of a kind, best first, and what the others add.
    rules: Any  # float64, (n, BEST): of any kind
    paths: Any  # float64, (n, BEST)
    constants: Any  # float64, (n, BEST)
    other_paths: Any  # float64
    # Per entity: −log(1 − c) of the best path of each of the best clusters, best first, with a 0
    # behind them; then, from MOST + 1 on, the numbers of these clusters.
    clusters: Any  # float64, (n, 2 · MOST + 1)


def surprise(confidence: np.ndarray) -> np.ndarray:
    """−log(1 − c): the loops add it up, so that they need no logarithms."""
    found: np.ndarray = -np.log(np.maximum(1.0 - confidence, _CERTAIN))
    return found


@loop
def _reach(evidence, question, y):
    """Make y a candidate, if it is none."""
    if evidence.question[y] != question:
        evidence.question[y] = question
        evidence.named[evidence.count[0]] = y
        evidence.count[0] += 1
        evidence.rule[y] = -1
        evidence.other_paths[y] = 0.0
        evidence.clusters[y, 0] = 0.0
        for i in range(BEST):
            evidence.rules[y, i] = 0.0
            evidence.paths[y, i] = 0.0
            evidence.constants[y, i] = 0.0


@loop
def _insert(best, y, value):
    """Put a value among the best of y; what falls out of them comes back."""
    last = best[y, BEST - 1]
    if value <= last:
        return value
    i = BEST - 1
    while i > 0 and best[y, i - 1] < value:
        best[y, i] = best[y, i - 1]
        i -= 1
    best[y, i] = value
    return last


@loop
def _insert_cluster(best, y, value, cluster):
    """Put a path of a cluster among the best clusters of y, if it is the best of its cluster.

    A cluster that has fallen out comes back only by a better path than all that fell out.
    """
    i, ids = 0, MOST + 1
    while i < MOST and best[y, i] > 0 and best[y, ids + i] != cluster:
        i += 1
    if i == MOST:  # none is free, and the cluster is not there: the last one may fall out
        i = MOST - 1
        if value <= best[y, i]:
            return
    elif best[y, i] == 0:
        best[y, i + 1] = 0.0
    elif value <= best[y, i]:
        return
    while i > 0 and best[y, i - 1] < value:
        best[y, i], best[y, ids + i] = best[y, i - 1], best[y, ids + i - 1]
        i -= 1
    best[y, i], best[y, ids + i] = value, cluster


@loop
def _name_by_constant(evidence, question, y, value):
    """A rule with constants names y; ``value`` is its −log(1 − c)."""
    _reach(evidence, question, y)
    _insert(evidence.rules, y, value)
    _insert(evidence.constants, y, value)


@loop
def _name_by_path(evidence, question, rule, y, value, cluster):
    """A path leads to y; it counts once, however many walks there are.

    Its cluster is −1 where clusters do not count.
    """
    _reach(evidence, question, y)
    if evidence.rule[y] != rule:
        evidence.rule[y] = rule
        _insert(evidence.rules, y, value)
        evidence.other_paths[y] += _insert(evidence.paths, y, value)
        if cluster >= 0:
            _insert_cluster(evidence.clusters, y, value, cluster)


class _Frontier(NamedTuple):
    """The entities that two steps lead to, each once."""

    entity: Any  # int64
    middle: Any  # int64: the one entity in the middle, −1 where there are several
    count: Any  # int64, one number: how many
    walk: Any  # int64, per entity: the walk that last reached it
    place: Any  # int64, per entity: where it stands


@loop
def _two_steps(edges, frontier, walk, x, first, second, hub):
    """Find the entities that are reached from x over its group ``first`` along ``second``."""
    frontier.count[0] = 0
    for i in range(edges.group_start[first], edges.group_start[first + 1]):
        z = edges.neighbours[i]
        if degree(edges, z) > hub:
            continue
        group = find_group(edges, z, second)
        if group < 0:
            continue
        for j in range(edges.group_start[group], edges.group_start[group + 1]):
            y = edges.neighbours[j]
            if y == x:
                continue
            if frontier.walk[y] == walk:
                frontier.middle[frontier.place[y]] = -1
            else:
                count = frontier.count[0]
                frontier.walk[y], frontier.place[y] = walk, count
                frontier.entity[count], frontier.middle[count] = y, z
                frontier.count[0] = count + 1


@loop
def _walk_paths(edges, tables, evidence, frontier, question, x, directed, hub, by_cluster):
    """Walk from x along all paths of a directed relation; those that begin alike stand together."""
    first, group = -1, np.int64(-1)
    second = -1
    for p in range(tables.path_start[directed], tables.path_start[directed + 1]):
        d1, d2, d3 = tables.paths[p, 0], tables.paths[p, 1], tables.paths[p, 2]
        if d1 != first:
            first, second = d1, -1
            group = find_group(edges, x, d1)
        if group < 0:
            continue
        value = tables.path_surprise[p]
        cluster = tables.path_cluster[p] if by_cluster else np.int64(-1)
        if d2 < 0:
            for i in range(edges.group_start[group], edges.group_start[group + 1]):
                _name_by_path(evidence, question, p, edges.neighbours[i], value, cluster)
            continue
        if d2 != second:
            second = d2
            walk = frontier.walk[frontier.walk.shape[0] - 1] + 1
            frontier.walk[frontier.walk.shape[0] - 1] = walk
            _two_steps(edges, frontier, walk, x, group, d2, hub)
        for k in range(frontier.count[0]):
            z2 = frontier.entity[k]
            if d3 < 0:
                _name_by_path(evidence, question, p, z2, value, cluster)
                continue
            if degree(edges, z2) > hub:
                continue
            last = find_group(edges, z2, d3)
            if last < 0:
                continue
            for j in range(edges.group_start[last], edges.group_start[last + 1]):
                y = edges.neighbours[j]
                if y != x and y != frontier.middle[k]:
                    _name_by_path(evidence, question, p, y, value, cluster)


@loop
def _apply_body(edges, tables, evidence, question, x, directed, body):
    """x has ``body``: name the c of all rules e(X, c) ← body, e being ``directed``."""
    n_groups = edges.group_relation.shape[0]
    first, last = tables.body_start[directed], tables.body_start[directed + 1]
    i = first + np.searchsorted(tables.body[first:last], body)
    while i < last and tables.body[i] == body:
        c = tables.body_answer[i]
        own = body == n_groups + directed  # then the fact itself is no evidence
        if own:
            group = find_group(edges, x, directed)
            single = edges.group_start[group + 1] - edges.group_start[group] == 1
            own = single and edges.neighbours[edges.group_start[group]] == c
        if c != x and not own:
            _name_by_constant(evidence, question, c, tables.body_surprise[i])
        i += 1


@loop
def _apply_constants(
    edges, reverse, tables, by_relation, evidence, question, x, directed, n_relations, hub
):
    """Rules with constants: x as the X of a head, and x as the c of a head."""
    n_groups = edges.group_relation.shape[0]
    if tables.body_start[directed] < tables.body_start[directed + 1] and degree(edges, x) <= hub:
        for g in range(edges.groups[x], edges.groups[x + 1]):
            own = n_groups + edges.group_relation[g]
            _apply_body(edges, tables, evidence, question, x, directed, own)
            for i in range(edges.group_start[g], edges.group_start[g + 1]):
                _apply_body(edges, tables, evidence, question, x, directed, reverse[i])
    head = find_group(edges, x, directed)
    if head < 0:
        return
    entities, offsets = by_relation
    k = np.searchsorted(tables.head, head)
    while k < tables.head.shape[0] and tables.head[k] == head:
        body, value = tables.head_body[k], tables.head_surprise[k]
        k += 1
        if body < n_groups:
            start, stop = edges.group_start[body], edges.group_start[body + 1]
        else:
            start, stop = offsets[body - n_groups], offsets[body - n_groups + 1]
        if stop - start > hub:
            continue
        # The X of the head have it along the inverse of ``directed``.
        own = body == n_groups + inverse(directed, n_relations)
        for i in range(start, stop):
            y = np.int64(edges.neighbours[i]) if body < n_groups else np.int64(entities[i])
            if y == x:
                continue
            if own:
                group = find_group(edges, y, inverse(directed, n_relations))
                single = edges.group_start[group + 1] - edges.group_start[group] == 1
                if single and edges.neighbours[edges.group_start[group]] == x:
                    continue
            _name_by_constant(evidence, question, y, value)


@loop
def _summed_up(evidence, y, values):
    """The features of a candidate but for its frequency."""
    rules, paths, constants = evidence.rules, evidence.paths, evidence.constants
    values[:] = 0.0
    values[0] = np.log(max((1.0 - np.exp(-rules[y, 0])) / _LEAST, 1.0))
    values[1] = rules[y, 0]
    values[3] = paths[y, 0]
    values[5] = evidence.other_paths[y]
    values[6] = constants[y, 0]
    for i in range(1, BEST):
        values[2] += rules[y, i]
        values[4] += paths[y, i]
        values[7] += constants[y, i]
    i = 0
    while i < MOST and evidence.clusters[y, i] > 0:
        values[CLUSTERS] += evidence.clusters[y, i]
        i += 1


class Walker(NamedTuple):
    """What the loops need of a graph and its rules."""

    edges: Any
    reverse: Any  # of each edge (X, s, d), the group of d along the inverse of s
    tables: Any
    by_relation: Any  # the entities with an edge along each directed relation, and their starts
    n_relations: Any
    hub: Any


@kernel_function
def _new_marks(n):
    """Evidence and frontier for a graph of n entities."""
    evidence = _Evidence(
        np.full(n, -1, dtype=np.int64),
        np.full(n, -1, dtype=np.int64),
        np.empty(n, dtype=np.int32),
        np.zeros(1, dtype=np.int64),
        np.empty((n, BEST)),
        np.empty((n, BEST)),
        np.empty((n, BEST)),
        np.empty(n),
        np.empty((n, 2 * MOST + 1)),
    )
    frontier = _Frontier(
        np.empty(n, dtype=np.int64),
        np.empty(n, dtype=np.int64),
        np.zeros(1, dtype=np.int64),
        np.zeros(n + 1, dtype=np.int64),  # the last one counts the walks
        np.empty(n, dtype=np.int64),
    )
    return evidence, frontier


@loop
def _ask(walker, evidence, frontier, question, x, directed, by_cluster):
    """Collect the evidence for all candidates of a question; clusters cost time."""
    edges, tables, hub = walker.edges, walker.tables, walker.hub
    evidence.count[0] = 0
    _walk_paths(edges, tables, evidence, frontier, question, x, directed, hub, by_cluster)
    _apply_constants(
        edges,
        walker.reverse,
        tables,
        walker.by_relation,
        evidence,
        question,
        x,
        directed,
        walker.n_relations,
        hub,
    )


@kernel
def score_questions(walker, given, directed, weights, out):
    """out[s, i, y] += weights[s, i] · features of candidate y for question i.

    Question i gives the entity given[i] and asks for what it has along directed[i].
    """
    evidence, frontier = _new_marks(walker.edges.groups.shape[0] - 1)
    tables = walker.tables
    sums, count, width = weights.shape
    values = np.empty(width)
    last = width - 1
    for i in range(count):
        d = directed[i]
        for f in range(tables.frequency_start[d], tables.frequency_start[d + 1]):
            y = tables.frequency_entity[f]
            for s in range(sums):
                out[s, i, y] += weights[s, i, last] * tables.frequency[f]
        _ask(walker, evidence, frontier, i, given[i], d, weights[:, i, CLUSTERS].any())
        for k in range(evidence.count[0]):
            y = evidence.named[k]
            _summed_up(evidence, y, values)
            for s in range(sums):
                total = 0.0
                for f in range(last):
                    total += weights[s, i, f] * values[f]
                out[s, i, y] += total


@kernel
def name_candidates(walker, given, directed, weights):
    """The candidates that rules name: rows (question, candidate), and what they say of each.

    That is weights[i] · features, but for the frequency, which all candidates have.
    """
    evidence, frontier = _new_marks(walker.edges.groups.shape[0] - 1)
    values = np.empty(weights.shape[1])
    places, said, found = np.empty((1 << 10, 2), dtype=np.int64), np.empty(1 << 10), 0
    for i in range(given.shape[0]):
        by_cluster = weights[i, CLUSTERS] > 0
        _ask(walker, evidence, frontier, i, given[i], directed[i], by_cluster)
        while found + evidence.count[0] > said.shape[0]:
            places = np.concatenate((places, np.empty_like(places)))
            said = np.concatenate((said, np.empty_like(said)))
        for k in range(evidence.count[0]):
            y = evidence.named[k]
            _summed_up(evidence, y, values)
            places[found, 0], places[found, 1], said[found] = i, y, 0.0
            for f in range(weights.shape[1] - 1):
                said[found] += weights[i, f] * values[f]
            found += 1
    return places[:found].copy(), said[:found].copy()
