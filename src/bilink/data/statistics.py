"""What a graph looks like: categories of relations, symmetry, related relations, leakage.

All of it is about the training split, because a model learns from nothing else; a triple that a
file repeats counts once.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bilink.data.graph import SPLITS, Graph, Split, distinct

if TYPE_CHECKING:
    from scipy import sparse

Category = Literal["1-1", "1-N", "N-1", "N-N"]
CATEGORIES: tuple[Category, ...] = ("1-1", "1-N", "N-1", "N-N")
MANY = 1.5  # from this average on, Bordes et al. (2013) write "many"
SIMILAR = 0.8  # share of common pairs from which relations are related, or one is symmetric


@dataclass(frozen=True)
class RelationStatistics:
    """Counts and averages of one relation; ``None`` is an average over nothing."""

    id: int
    name: str
    train: int  # distinct training triples; the figures below are about these
    valid: int
    test: int
    heads: int  # distinct ones
    tails: int
    tails_per_head: float | None
    heads_per_tail: float | None
    category: Category | None
    symmetry: float | None  # see `symmetry`
    reflexivity: float | None  # share of (h, h)


@dataclass(frozen=True)
class RelatedRelations:
    """Two relations with nearly the same pairs (duplicate) or the same reversed (inverse)."""

    kind: Literal["duplicate", "inverse"]
    first: int
    second: int
    first_name: str
    second_name: str
    shared: int  # pairs of the first that are, reversed if need be, pairs of the second
    share_of_first: float
    share_of_second: float


@dataclass(frozen=True)
class Leakage:
    """How many triples of a split can be answered by looking up another triple in train.

    A triple may be answered in more than one way, so that the three ways need not add up to
    ``answered``.
    """

    split: str
    triples: int
    symmetric: int  # (t, r, h) is in train, and r is symmetric
    inverse: int  # (t, r', h) is in train, and r' is an inverse of r
    duplicate: int  # (h, r', t) is in train, and r' is a duplicate of r
    answered: int  # by any of these

    @property
    def share(self) -> float:
        """The share of the split that is answered; 0 for an empty split."""
        return self.answered / self.triples if self.triples else 0.0


@dataclass(frozen=True)
class GraphDescription:
    """All statistics of a graph."""

    name: str
    fingerprint: str
    entities: int
    relations: int
    triples: dict[str, int]  # per split, as in the files
    repeated: dict[str, int]  # per split: triples that the same split has already
    in_train: dict[str, int]  # of valid and test: triples that are in train as well
    unseen_entities: dict[str, int]  # of valid and test: entities that train does not mention
    unseen_relations: dict[str, int]
    unused_entities: int  # in no split at all
    negatives: dict[str, int]  # per split: triples that the files label as false
    density: float  # distinct training triples per possible one
    mean_degree: float  # training triples that an entity is in, on average
    categories: dict[str, int]  # number of relations
    symmetric_relations: int
    relation_statistics: tuple[RelationStatistics, ...]
    related_relations: tuple[RelatedRelations, ...]
    leakage: dict[str, Leakage]

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries, lists, strings and numbers, ready for JSON."""
        data = asdict(self)
        data["relation_statistics"] = list(data["relation_statistics"])
        data["related_relations"] = list(data["related_relations"])
        for split, leakage in self.leakage.items():
            data["leakage"][split]["share"] = leakage.share
        return data


def categories(graph: Graph) -> list[Category | None]:
    """The category of every relation, by id; ``None`` for one without training triples.

    "1-N" has many tails per head: 1.5 or more on average (Bordes et al., 2013).
    """
    triples, heads, tails = _sizes(_Index(graph))
    return _categories(triples, heads, tails)


def symmetry(graph: Graph) -> list[float | None]:
    """How symmetric every relation is, by id.

    The measure is the share of the distinct training facts (h, t) with h ≠ t whose reverse (t, h)
    is a training fact too.  Loops (h, h) do not count, because they are their own reverse in every
    relation; a relation without other facts has no symmetry (``None``).
    """
    proper, returned = _proper(_Index(graph))
    return _ratios(returned, proper)


def relation_statistics(graph: Graph) -> list[RelationStatistics]:
    """The statistics of every relation, by id."""
    return _relation_statistics(graph, _Index(graph))


def related_relations(graph: Graph, threshold: float = SIMILAR) -> list[RelatedRelations]:
    """Pairs of relations that hold between the same entities, or between the same ones reversed.

    The common (head, tail) pairs must be a share of ``threshold`` of both relations' pairs.  That a
    relation is its own inverse is not listed here; see `symmetry`.
    """
    return _related_relations(graph, _Index(graph), threshold)


def leakage(graph: Graph, split: str = "test", threshold: float = SIMILAR) -> Leakage:
    """How much of ``split`` is answered by a counterpart in train.

    Relations count as symmetric, inverse or duplicate from a share of ``threshold`` of their
    training pairs on.
    """
    index = _Index(graph)
    return _leakage(graph, index, split, _related_relations(graph, index, threshold), threshold)


def describe(graph: Graph) -> GraphDescription:
    """All statistics of a graph."""
    index = _Index(graph)
    statistics = _relation_statistics(graph, index)
    related = _related_relations(graph, index, SIMILAR)
    held_out: tuple[Split, ...] = ("valid", "test")
    n, k = len(graph.entities), len(graph.relations)
    seen = np.zeros(k, dtype=bool)
    seen[graph.train[:, 1]] = True
    mentioned = distinct(graph.triples[:, [0, 2]].ravel())
    found = [relation.category for relation in statistics]
    return GraphDescription(
        name=graph.name,
        fingerprint=graph.fingerprint,
        entities=n,
        relations=k,
        triples={split: len(graph.split(split)) for split in SPLITS},
        repeated={split: _repeated(graph, split) for split in SPLITS},
        in_train={split: _in_train(graph, index, split) for split in held_out},
        unseen_entities={split: _unseen_entities(graph, split) for split in held_out},
        unseen_relations={
            split: int(np.count_nonzero(~seen[np.unique(graph.split(split)[:, 1])]))
            for split in held_out
        },
        unused_entities=n - len(mentioned),
        negatives={split: len(part) for split, part in graph.negatives.items()},
        density=len(index.relations) / (n * n * k) if n and k else 0.0,
        mean_degree=2 * len(index.relations) / n if n else 0.0,
        categories={category: found.count(category) for category in CATEGORIES},
        symmetric_relations=int(_symmetric(index, SIMILAR).sum()),
        relation_statistics=tuple(statistics),
        related_relations=tuple(related),
        leakage={split: _leakage(graph, index, split, related, SIMILAR) for split in held_out},
    )


class _Index:
    """The distinct training triples, with a number for every (head, tail) pair.

    Unlike in `FactIndex`, a relation is a row of a sparse matrix over the numbered pairs, and the
    integer of a triple cannot overflow, however many entities and relations there are.
    """

    def __init__(self, graph: Graph) -> None:
        self.n = len(graph.entities)
        self.k = len(graph.relations)
        heads, relations, tails = graph.train.T.astype(np.int64)
        self._keys, pairs = np.unique(heads * self.n + tails, return_inverse=True)
        self._codes = distinct(relations * self.pairs + pairs)
        self.relations, self.forward = np.divmod(self._codes, max(self.pairs, 1))
        self.heads, self.tails = np.divmod(self._keys[self.forward], max(self.n, 1))

    @property
    def pairs(self) -> int:
        """How many (head, tail) pairs some relation connects."""
        return len(self._keys)

    def pair(self, heads: np.ndarray, tails: np.ndarray) -> np.ndarray:
        """The numbers of pairs; -1 for a pair that no training triple connects."""
        return _position(self._keys, heads.astype(np.int64) * self.n + tails)

    def contains(self, relations: np.ndarray, pairs: np.ndarray) -> np.ndarray:
        """Whether train has each relation between each pair."""
        codes = relations.astype(np.int64) * self.pairs + pairs
        return (pairs >= 0) & (_position(self._codes, codes) >= 0)


def _position(sorted_values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Where each wanted value stands among the sorted ones; -1 if it does not."""
    if not len(sorted_values):
        return np.full(len(wanted), -1, dtype=np.int64)
    place = np.searchsorted(sorted_values, wanted)
    place[place == len(sorted_values)] = 0
    place[sorted_values[place] != wanted] = -1
    return place


def _sizes(index: _Index) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Triples, distinct heads and distinct tails of every relation."""

    def count(ends: np.ndarray) -> np.ndarray:
        width = max(index.n, 1)
        return np.bincount(distinct(index.relations * width + ends) // width, minlength=index.k)

    triples = np.bincount(index.relations, minlength=index.k)
    return triples, count(index.heads), count(index.tails)


def _categories(triples: np.ndarray, heads: np.ndarray, tails: np.ndarray) -> list[Category | None]:
    many_tails = triples >= MANY * heads
    many_heads = triples >= MANY * tails
    numbers = 2 * many_heads + many_tails  # the order of CATEGORIES
    return [CATEGORIES[i] if n else None for i, n in zip(numbers, triples, strict=True)]


def _relation_statistics(graph: Graph, index: _Index) -> list[RelationStatistics]:
    k = index.k
    triples, heads, tails = _sizes(index)
    proper, returned = _proper(index)
    loops = triples - proper
    held_out = [np.bincount(graph.split(split)[:, 1], minlength=k) for split in ("valid", "test")]
    rows = zip(
        graph.relations.names,
        triples.tolist(),
        *(counts.tolist() for counts in held_out),
        heads.tolist(),
        tails.tolist(),
        _ratios(triples, heads),
        _ratios(triples, tails),
        _categories(triples, heads, tails),
        _ratios(returned, proper),
        _ratios(loops, triples),
        strict=True,
    )
    return [RelationStatistics(i, *row) for i, row in enumerate(rows)]


def _proper(index: _Index) -> tuple[np.ndarray, np.ndarray]:
    """For every relation, how many triples are no loops, and how many of these have a reverse."""
    proper = index.heads != index.tails
    returned = index.contains(index.relations, index.pair(index.tails, index.heads))
    return (
        np.bincount(index.relations[proper], minlength=index.k),
        np.bincount(index.relations[proper & returned], minlength=index.k),
    )


def _symmetric(index: _Index, threshold: float) -> np.ndarray:
    """Which relations have a `symmetry` of at least ``threshold``, and above 0."""
    proper, returned = _proper(index)
    return (returned > 0) & (returned / np.maximum(proper, 1) >= threshold)


def _ratios(parts: np.ndarray, wholes: np.ndarray) -> list[float | None]:
    return [
        part / whole if whole else None
        for part, whole in zip(parts.tolist(), wholes.tolist(), strict=True)
    ]


def _related_relations(graph: Graph, index: _Index, threshold: float) -> list[RelatedRelations]:
    """Related relations from the products of relation × pair incidence matrices.

    The products cost as much as there are pairs of relations on the same entities, which is far
    less than comparing every relation with every other.
    """
    from scipy import sparse

    backward = index.pair(index.tails, index.heads)
    forward_rows = _incidence(index, index.forward)
    sizes = np.bincount(index.relations, minlength=index.k)
    found: list[RelatedRelations] = []
    kinds: tuple[tuple[Literal["duplicate", "inverse"], np.ndarray], ...] = (
        ("duplicate", index.forward),
        ("inverse", backward),
    )
    for kind, pairs in kinds:
        common = sparse.triu(forward_rows @ _incidence(index, pairs).T, k=1).tocoo()
        share_of_first = common.data / sizes[common.row]
        share_of_second = common.data / sizes[common.col]
        alike = (common.data > 0) & (np.minimum(share_of_first, share_of_second) >= threshold)
        for i in np.flatnonzero(alike):
            first, second = int(common.row[i]), int(common.col[i])
            found.append(
                RelatedRelations(
                    kind,
                    first,
                    second,
                    graph.relations.names[first],
                    graph.relations.names[second],
                    int(common.data[i]),
                    float(share_of_first[i]),
                    float(share_of_second[i]),
                )
            )
    return sorted(found, key=lambda pair: (pair.kind, pair.first, pair.second))


def _incidence(index: _Index, pairs: np.ndarray) -> "sparse.csr_array":
    """The relation × pair matrix with a one for every distinct triple whose pair has a number."""
    from scipy import sparse

    known = pairs >= 0
    ones = np.ones(int(known.sum()), dtype=np.int64)
    places = (index.relations[known], pairs[known])
    return sparse.coo_array((ones, places), shape=(index.k, index.pairs)).tocsr()


def _leakage(
    graph: Graph, index: _Index, split: str, related: Sequence[RelatedRelations], threshold: float
) -> Leakage:
    heads, relations, tails = graph.split(split).T
    forward, backward = index.pair(heads, tails), index.pair(tails, heads)
    symmetric = _symmetric(index, threshold)[relations] & (heads != tails)
    symmetric &= index.contains(relations, backward)
    inverse = _answered(index, relations, backward, _partners(related, "inverse"))
    duplicate = _answered(index, relations, forward, _partners(related, "duplicate"))
    return Leakage(
        split=split,
        triples=len(relations),
        symmetric=int(symmetric.sum()),
        inverse=int(inverse.sum()),
        duplicate=int(duplicate.sum()),
        answered=int((symmetric | inverse | duplicate).sum()),
    )


def _partners(related: Sequence[RelatedRelations], kind: str) -> np.ndarray:
    """The related relations as rows (relation, other), both ways, sorted."""
    rows = [(pair.first, pair.second) for pair in related if pair.kind == kind]
    both = np.array(rows + [(b, a) for a, b in rows], dtype=np.int64).reshape(-1, 2)
    return both[np.argsort(both[:, 0], kind="stable")]


def _answered(
    index: _Index, relations: np.ndarray, pairs: np.ndarray, partners: np.ndarray
) -> np.ndarray:
    """Whether a partner of its relation connects the pair of each triple in train."""
    start = np.searchsorted(partners[:, 0], relations, side="left")
    number = np.searchsorted(partners[:, 0], relations, side="right") - start
    # One row per triple and partner: the triple, and the place of the partner in the table.
    triple = np.repeat(np.arange(len(relations)), number)
    place = np.arange(len(triple)) + np.repeat(start - (np.cumsum(number) - number), number)
    hit = index.contains(partners[place, 1], pairs[triple])
    return np.bincount(triple[hit], minlength=len(relations)) > 0


def _repeated(graph: Graph, split: str) -> int:
    triples = graph.split(split)
    order = triples[np.lexsort(triples.T)]
    return int((order[1:] == order[:-1]).all(axis=1).sum())


def _in_train(graph: Graph, index: _Index, split: str) -> int:
    heads, relations, tails = graph.split(split).T
    return int(index.contains(relations, index.pair(heads, tails)).sum())


def _unseen_entities(graph: Graph, split: str) -> int:
    unseen = np.zeros(len(graph.entities), dtype=bool)
    unseen[graph.unseen_entities] = True
    return int(unseen[np.unique(graph.split(split)[:, [0, 2]])].sum())
