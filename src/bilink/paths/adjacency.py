"""The graph as walks see it: from each entity, along each directed relation, to its neighbours.

With K relations there are 2K *directed* relations: r goes from head to tail, r + K from tail to
head.  Two orders of the same edges serve all that is counted: by (entity, relation, neighbour), to
walk on, and by (entity, neighbour, relation), to see what joins two entities.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from bilink._jit import kernel, loop
from bilink.data.graph import Graph, distinct


class Edges(NamedTuple):
    """Directed edges in CSR form, twice; loops are left out.

    A *group* is all neighbours of an entity along one directed relation, a *link* all directed
    relations from an entity to one neighbour.  Groups and links are numbered through all entities:
    those of entity e are ``groups[e] … groups[e + 1] − 1`` and ``links[e] … links[e + 1] − 1``.
    """

    groups: Any  # int64, (n + 1,): the first group of each entity
    group_relation: Any  # int32, of each group
    group_start: Any  # int64, into ``neighbours``; one more than groups
    neighbours: Any  # int32, sorted within a group
    links: Any  # int64, (n + 1,): the first link of each entity
    link_neighbour: Any  # int32, of each link
    link_start: Any  # int64, into ``relations``; one more than links
    relations: Any  # int32, sorted within a link


@dataclass(frozen=True, eq=False)
class Adjacency:
    """The edges of a graph, and what is asked of them outside of kernels."""

    n_entities: int
    n_relations: int
    edges: Edges

    @classmethod
    def of(cls, triples: np.ndarray, n_entities: int, n_relations: int) -> "Adjacency":
        """The distinct edges of ``triples``, each in both directions."""
        n, width = max(n_entities, 1), max(2 * n_relations, 1)
        triples = triples[triples[:, 0] != triples[:, 2]]
        entities = np.arange(n_entities + 1, dtype=np.int64)
        # One order after the other: of a large graph, the keys take most of the memory.
        group_keys, group_start, neighbours = _ordered(triples, n_relations, width, n, False)
        groups = np.searchsorted(group_keys, entities * width)
        group_relation = (group_keys % width).astype(np.int32)
        del group_keys
        link_keys, link_start, relations = _ordered(triples, n_relations, width, n, True)
        edges = Edges(
            groups=groups,
            group_relation=group_relation,
            group_start=group_start,
            neighbours=neighbours,
            links=np.searchsorted(link_keys, entities * n),
            link_neighbour=(link_keys % n).astype(np.int32),
            link_start=link_start,
            relations=relations,
        )
        return cls(n_entities, n_relations, edges)

    @classmethod
    def of_graph(cls, graph: Graph) -> "Adjacency":
        """The training facts of a graph: what rules are counted on and walk along."""
        return cls.of(graph.train, len(graph.entities), len(graph.relations))

    @property
    def degrees(self) -> np.ndarray:
        """How many directed edges start at each entity."""
        return np.diff(self.edges.group_start[self.edges.groups])

    def degree_of(self, entity: int) -> int:
        """How many directed edges start at one entity."""
        first, last = self.edges.groups[entity], self.edges.groups[entity + 1]
        return int(self.edges.group_start[last] - self.edges.group_start[first])

    @cached_property
    def owners(self) -> np.ndarray:
        """The entity of each group."""
        return np.repeat(np.arange(self.n_entities), np.diff(self.edges.groups))

    @cached_property
    def by_relation(self) -> tuple[np.ndarray, np.ndarray]:
        """The entities with an edge along each directed relation, and where those of each start."""
        relations = self.edges.group_relation
        counts = np.bincount(relations, minlength=2 * self.n_relations)
        order = np.argsort(relations, kind="stable")
        return self.owners[order], np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    def starts(self, directed: int) -> np.ndarray:
        """The entities with an edge along a directed relation, ascending."""
        entities, offsets = self.by_relation
        return entities[offsets[directed] : offsets[directed + 1]]

    @cached_property
    def reverse(self) -> np.ndarray:
        """Of each edge (X, s, d), the group of d along the inverse of s."""
        found = np.empty(len(self.edges.neighbours), dtype=np.int64)
        reverse_groups(self.edges, self.n_relations, found)
        return found


def _ordered(
    triples: np.ndarray, k: int, width: int, n: int, by_link: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The edges in both directions by (entity, relation), or with ``by_link`` by both entities.

    The keys of these groups, start · width + relation or start · n + end; where each starts; and
    the third number of each edge, ascending within a group.
    """
    m = len(triples)
    keys = np.empty(2 * m, dtype=np.int64)
    heads, relations, tails = triples.T
    for part, start, end, shift in ((keys[:m], heads, tails, 0), (keys[m:], tails, heads, k)):
        part[:] = start
        part *= n if by_link else width
        part += end if by_link else relations
        part += 0 if by_link else shift
        part *= width if by_link else n
        part += relations if by_link else end
        part += shift if by_link else 0
    keys = distinct(keys)
    last = width if by_link else n
    numbers = (keys % last).astype(np.int32)
    keys //= last
    return (*_runs(keys), numbers)


def _runs(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct values of a sorted array, and where each starts, with the end behind."""
    starts = np.flatnonzero(np.diff(values, prepend=-1))
    return values[starts], np.append(starts, len(values)).astype(np.int64)


# -- kernel functions on edges ---------------------------------------------------------------------


@loop
def inverse(directed, n_relations):
    """A directed relation in the other direction."""
    return directed - n_relations if directed >= n_relations else directed + n_relations


@loop
def find_group(edges, entity, directed):
    """The group of an entity along a directed relation, −1 if there is none."""
    low, high = edges.groups[entity], edges.groups[entity + 1]
    while low < high:
        middle = (low + high) >> 1
        if edges.group_relation[middle] < directed:
            low = middle + 1
        else:
            high = middle
    found = low < edges.groups[entity + 1] and edges.group_relation[low] == directed
    return low if found else np.int64(-1)


@loop
def holds(edges, group, entity):
    """Whether a group contains an entity."""
    low, high = edges.group_start[group], edges.group_start[group + 1]
    while low < high:
        middle = (low + high) >> 1
        if edges.neighbours[middle] < entity:
            low = middle + 1
        else:
            high = middle
    return low < edges.group_start[group + 1] and edges.neighbours[low] == entity


@loop
def degree(edges, entity):
    """How many directed edges start at an entity."""
    return edges.group_start[edges.groups[entity + 1]] - edges.group_start[edges.groups[entity]]


@kernel
def reverse_groups(edges, n_relations, out):
    """out[i] = of edge i, (X, s, d), the group of d along the inverse of s."""
    for group in range(edges.group_relation.shape[0]):
        back = inverse(edges.group_relation[group], n_relations)
        for i in range(edges.group_start[group], edges.group_start[group + 1]):
            out[i] = find_group(edges, edges.neighbours[i], back)
