"""Flows: how much of a resource that starts at an entity ends at each candidate, along paths.

Path-constrained resource allocation (Lin et al., 2015): at each step the resource is split equally
among the neighbours along the step's relation.  R(p | h, t) is what flows from h to t along p.  The
flow to a candidate is f = Σ_p value(p) · R(p | h, t), over the paths of the relation; PTransE says
what a path is worth.  Its score is f, or log(1 + f / unit): flows differ by orders of magnitude.
"""

from typing import Any, NamedTuple

import numpy as np

from bilink._jit import kernel, loop
from bilink.data.graph import Graph
from bilink.paths.adjacency import degree, find_group, inverse
from bilink.paths.rules import Rules
from bilink.paths.scorer import PathScorer, Questions, both_directions, fixed_weights


class _Flow(NamedTuple):
    """What the loops need of a graph and its paths."""

    edges: Any
    n_relations: Any
    hub: Any
    paths: Any  # int32, (n, 3), of all directed relations
    path_start: Any  # int64, (2K + 1,)
    unit: Any  # of flow; 0 where the flow is the score


class _Row(NamedTuple):
    """What has reached the candidates of one question."""

    amount: Any  # float64, per entity; 0 but for those that are named
    named: Any  # int64: entities that were reached
    count: Any  # int64, one number: how many


@loop
def _share(edges, n_relations, group, directed, to, forwards):
    """The part of the resource that takes one step, from the owner of a group to ``to``.

    Backwards, the resource came from ``to``, and was split there.
    """
    if not forwards:
        group = find_group(edges, to, inverse(directed, n_relations))
    return 1.0 / (edges.group_start[group + 1] - edges.group_start[group])


@loop
def _arrive(row, y, amount):
    """Some resource reaches y."""
    if row.amount[y] == 0.0:
        row.named[row.count[0]] = y
        row.count[0] += 1
    row.amount[y] += amount


@loop
def _follow(flow, row, p, x, value, forwards):
    """Let ``value`` flow from x along a path."""
    edges, k = flow.edges, flow.n_relations
    d1, d2, d3 = flow.paths[p, 0], flow.paths[p, 1], flow.paths[p, 2]
    g1 = find_group(edges, x, d1)
    if g1 < 0:
        return
    for a in range(edges.group_start[g1], edges.group_start[g1 + 1]):
        z1 = edges.neighbours[a]
        first = value * _share(edges, k, g1, d1, z1, forwards)
        if d2 < 0:
            _arrive(row, z1, first)
            continue
        g2 = find_group(edges, z1, d2)
        if g2 < 0 or degree(edges, z1) > flow.hub:
            continue
        for b in range(edges.group_start[g2], edges.group_start[g2 + 1]):
            z2 = edges.neighbours[b]
            if z2 == x:
                continue
            second = first * _share(edges, k, g2, d2, z2, forwards)
            if d3 < 0:
                _arrive(row, z2, second)
                continue
            g3 = find_group(edges, z2, d3)
            if g3 < 0 or degree(edges, z2) > flow.hub:
                continue
            for c in range(edges.group_start[g3], edges.group_start[g3 + 1]):
                y = edges.neighbours[c]
                if y != x and y != z1:
                    _arrive(row, y, second * _share(edges, k, g3, d3, y, forwards))


@loop
def _ask(flow, row, x, directed, values):
    """Collect what reaches all candidates of a question."""
    row.count[0] = 0
    forwards = directed < flow.n_relations
    for p in range(flow.path_start[directed], flow.path_start[directed + 1]):
        if values[p] > 0:
            _follow(flow, row, p, x, values[p], forwards)


@loop
def _score(amount, unit):
    """The score of a candidate that so much has reached."""
    return np.log1p(amount / unit) if unit > 0 else amount


@loop
def _add_row(row, unit, times, out, i):
    """Add the scores of what was collected to a row, and forget it."""
    for k in range(row.count[0]):
        y = row.named[k]
        out[i, y] += times * _score(row.amount[y], unit)
        row.amount[y] = 0.0


@loop
def _list_row(row, unit, i, places, said, found):
    """Append the scores of what was collected to a list, and forget it."""
    for k in range(row.count[0]):
        y = row.named[k]
        places[found + k, 0], places[found + k, 1] = i, y
        said[found + k] = _score(row.amount[y], unit)
        row.amount[y] = 0.0


@kernel
def add_flows(flow, given, directed, values, times, out):
    """out[i, y] += times[i] · the score of y for question i: what reaches it from given[i]."""
    n = flow.edges.groups.shape[0] - 1
    row = _Row(np.zeros(n), np.empty(n, dtype=np.int64), np.zeros(1, dtype=np.int64))
    for i in range(given.shape[0]):
        _ask(flow, row, given[i], directed[i], values)
        _add_row(row, flow.unit, times[i], out, i)


@kernel
def list_flows(flow, given, directed, values):
    """The candidates that are reached: rows (question, candidate), and the score of each."""
    n = flow.edges.groups.shape[0] - 1
    row = _Row(np.zeros(n), np.empty(n, dtype=np.int64), np.zeros(1, dtype=np.int64))
    places, said, found = np.empty((1 << 10, 2), dtype=np.int64), np.empty(1 << 10), 0
    for i in range(given.shape[0]):
        _ask(flow, row, given[i], directed[i], values)
        while found + row.count[0] > said.shape[0]:
            places = np.concatenate((places, np.empty_like(places)))
            said = np.concatenate((said, np.empty_like(said)))
        _list_row(row, flow.unit, i, places, said, found)
        found += row.count[0]
    return places[:found].copy(), said[:found].copy()


@kernel
def sum_flows(flow, facts, relation, out):
    """out[p] += R(p | h, t), summed over facts (h, t) of a relation, for each path of it."""
    n = flow.edges.groups.shape[0] - 1
    row = _Row(np.zeros(n), np.empty(n, dtype=np.int64), np.zeros(1, dtype=np.int64))
    for i in range(facts.shape[0]):
        for p in range(flow.path_start[relation], flow.path_start[relation + 1]):
            row.count[0] = 0
            _follow(flow, row, p, facts[i, 0], 1.0, True)
            out[p] += row.amount[facts[i, 1]]
            _clear(row)


@loop
def _clear(row):
    for k in range(row.count[0]):
        row.amount[row.named[k]] = 0.0


class FlowScorer(PathScorer):
    """Scores candidates by what flows to them; ``values`` says what each path is worth."""

    def __init__(self, rules: Rules, graph: Graph, values: np.ndarray, unit: float = 0.0):
        super().__init__(rules, graph, fixed_weights("max", rules.n_relations))
        self.values = np.asarray(values, dtype=np.float64)
        paths, directed, order = both_directions(rules)
        starts = np.searchsorted(directed, np.arange(2 * rules.n_relations + 1))
        self._flow = _Flow(
            self.adjacency.edges, rules.n_relations, rules.config.hub, paths, starts, float(unit)
        )
        self._order = order  # of each row of the table, the path that it is
        self._values = self.values[order]

    def add_scores(self, queries: Questions, times: np.ndarray, out: np.ndarray) -> None:
        """Add the scores of the questions, each question's ``times`` a number, to ``out``."""
        times = np.ascontiguousarray(times, dtype=np.float64)
        add_flows(self._flow, queries.given, self._directed(queries), self._values, times, out)

    def named(self, queries: Questions, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The candidates that are reached, as (question, candidate), and the score of each."""
        directed = self._directed(queries)
        places, said = list_flows(self._flow, queries.given, directed, self._values)
        return places, said * np.asarray(times)[places[:, 0]]

    def frequency(self, relation: int) -> np.ndarray:
        """Nothing is the same for all heads."""
        return np.zeros(self.n_entities)

    def reliability(self, facts: np.ndarray, relation: int) -> np.ndarray:
        """Σ R(p | h, t) over facts (h, t) of a relation, for each path; 0 for those of others."""
        sums = np.zeros(len(self._values))
        sum_flows(self._flow, np.ascontiguousarray(facts, dtype=np.int64), relation, sums)
        forwards = slice(0, int(self._flow.path_start[self.n_relations]))
        found = np.zeros(len(self.values))
        found[self._order[forwards]] = sums[forwards]
        return found
