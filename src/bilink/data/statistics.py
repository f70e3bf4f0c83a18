"""What a graph looks like: categories of relations, symmetry, related relations, leakage.

All of it is about the training split, because a model learns from nothing else; a triple that a
file repeats counts once.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from bilink.data.graph import SPLITS, Graph, distinct, position
from bilink.data.index import known_answers

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
        for name in ("relation_statistics", "related_relations"):
            data[name] = list(data[name])
        for split, leakage in self.leakage.items():
            data["leakage"][split]["share"] = leakage.share
        return data


def categories(graph: Graph) -> list[Category | None]:
    """The category of every relation, by id; ``None`` for one without training triples.

    "1-N" has many tails per head: 1.5 or more on average (Bordes et al., 2013).
    """
    return _Facts(graph).categories()


def symmetry(graph: Graph) -> list[float | None]:
    """How symmetric every relation is, by id.

    The measure is the share of the distinct training facts (h, t) with h ≠ t whose reverse (t, h)
    is a training fact too.  Loops (h, h) do not count, because they are their own reverse in every
    relation; a relation without other facts has no symmetry (``None``).
    """
    facts = _Facts(graph)
    return _ratios(facts.returned, facts.proper)


def relation_statistics(graph: Graph) -> list[RelationStatistics]:
    """The statistics of every relation, by id."""
    return _Facts(graph).statistics()


def related_relations(graph: Graph, threshold: float = SIMILAR) -> list[RelatedRelations]:
    """Pairs of relations that hold between the same entities, or between the same ones reversed.

    The common (head, tail) pairs must be a share of ``threshold`` of both relations' pairs.  That a
    relation is its own inverse is not listed here; see `symmetry`.
    """
    return _Facts(graph).related(threshold)


def leakage(graph: Graph, split: str = "test", threshold: float = SIMILAR) -> Leakage:
    """How much of ``split`` is answered by a counterpart in train.

    Relations count as symmetric, inverse or duplicate from a share of ``threshold`` of their
    training pairs on.
    """
    facts = _Facts(graph)
    return facts.leakage(split, facts.related(threshold), threshold)


def describe(graph: Graph) -> GraphDescription:
    """All statistics of a graph."""
    facts = _Facts(graph)
    statistics, related = facts.statistics(), facts.related(SIMILAR)
    indexes = {split: known_answers(graph, (split,)) for split in SPLITS}
    held_out = {split: graph.split(split) for split in SPLITS[1:]}
    n, k, distinct_triples = facts.n, facts.k, len(facts.relations)
    found = [relation.category for relation in statistics]
    return GraphDescription(
        name=graph.name,
        fingerprint=graph.fingerprint,
        entities=n,
        relations=k,
        triples={split: len(graph.split(split)) for split in SPLITS},
        repeated={split: len(graph.split(split)) - indexes[split].count for split in SPLITS},
        in_train={s: int(indexes["train"].holds(rows).sum()) for s, rows in held_out.items()},
        unseen_entities={
            split: len(np.intersect1d(rows[:, [0, 2]], graph.unseen_entities))
            for split, rows in held_out.items()
        },
        unseen_relations={
            split: len(np.setdiff1d(rows[:, 1], graph.train[:, 1]))
            for split, rows in held_out.items()
        },
        unused_entities=n - len(distinct(graph.triples[:, [0, 2]].ravel())),
        negatives={split: len(part) for split, part in graph.negatives.items()},
        density=distinct_triples / (n * n * k) if n and k else 0.0,
        mean_degree=2 * distinct_triples / n if n else 0.0,
        categories={category: found.count(category) for category in CATEGORIES},
        symmetric_relations=int(facts.symmetric(SIMILAR).sum()),
        relation_statistics=tuple(statistics),
        related_relations=tuple(related),
        leakage={split: facts.leakage(split, related, SIMILAR) for split in held_out},
    )


class _Facts:
    """The distinct training triples, with a number for every (head, tail) pair.

    Unlike in `FactIndex`, a relation is a row of a sparse matrix over the numbered pairs, and the
    integer of a triple cannot overflow, however many entities and relations there are.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph, self.n, self.k = graph, len(graph.entities), len(graph.relations)
        heads, relations, tails = graph.train.T.astype(np.int64)
        self._keys, pairs = np.unique(heads * self.n + tails, return_inverse=True)
        self._codes = distinct(relations * len(self._keys) + pairs)
        self.relations, self.pairs = np.divmod(self._codes, max(len(self._keys), 1))
        self.heads, self.tails = np.divmod(self._keys[self.pairs], max(self.n, 1))

    def pair(self, heads: np.ndarray, tails: np.ndarray) -> np.ndarray:
        """The numbers of pairs; -1 for a pair that no training triple connects."""
        return position(self._keys, heads.astype(np.int64) * self.n + tails)

    def contains(self, relations: np.ndarray, pairs: np.ndarray) -> np.ndarray:
        """Whether train has each relation between each pair."""
        codes = relations.astype(np.int64) * len(self._keys) + pairs
        return (pairs >= 0) & (position(self._codes, codes) >= 0)

    @cached_property
    def reversed_pairs(self) -> np.ndarray:
        """The number of the pair (tail, head) of every triple."""
        return self.pair(self.tails, self.heads)

    @cached_property
    def triples(self) -> np.ndarray:
        """How many triples every relation has."""
        return self._count(self.relations)

    @cached_property
    def proper(self) -> np.ndarray:
        """How many triples of every relation are no loops."""
        return self._count(self.relations[self.heads != self.tails])

    @cached_property
    def returned(self) -> np.ndarray:
        """How many triples of every relation are no loops and have a reverse."""
        both = self.contains(self.relations, self.reversed_pairs)
        return self._count(self.relations[both & (self.heads != self.tails)])

    @cached_property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """How many distinct heads and tails every relation has."""
        width = max(self.n, 1)
        heads, tails = (
            self._count(distinct(self.relations * width + entities) // width)
            for entities in (self.heads, self.tails)
        )
        return heads, tails

    def _count(self, relations: np.ndarray) -> np.ndarray:
        return np.bincount(relations, minlength=self.k)

    def symmetric(self, threshold: float) -> np.ndarray:
        """Which relations have a `symmetry` of at least ``threshold``, and above 0."""
        return (self.returned > 0) & (self.returned / np.maximum(self.proper, 1) >= threshold)

    def categories(self) -> list[Category | None]:
        many_tails, many_heads = (self.triples >= MANY * ends for ends in self.ends)
        numbers = 2 * many_heads + many_tails  # the order of CATEGORIES
        return [CATEGORIES[i] if n else None for i, n in zip(numbers, self.triples, strict=True)]

    def statistics(self) -> list[RelationStatistics]:
        heads, tails = self.ends
        valid, test = (self._count(self.graph.split(split)[:, 1]) for split in SPLITS[1:])
        rows = zip(
            self.graph.relations.names,
            *(counts.tolist() for counts in (self.triples, valid, test, heads, tails)),
            _ratios(self.triples, heads),
            _ratios(self.triples, tails),
            self.categories(),
            _ratios(self.returned, self.proper),
            _ratios(self.triples - self.proper, self.triples),
            strict=True,
        )
        return [RelationStatistics(i, *row) for i, row in enumerate(rows)]

    def related(self, threshold: float) -> list[RelatedRelations]:
        """Related relations from the products of relation × pair incidence matrices.

        The products cost as much as there are pairs of relations on the same entities, which is far
        less than comparing every relation with every other.
        """
        from scipy import sparse

        def incidence(pairs: np.ndarray) -> sparse.csr_array:
            known = pairs >= 0
            ones = np.ones(np.count_nonzero(known), dtype=np.int64)
            shape = self.k, len(self._keys)
            return sparse.csr_array((ones, (self.relations[known], pairs[known])), shape=shape)

        names = self.graph.relations.names
        found: list[RelatedRelations] = []
        kinds: dict[Literal["duplicate", "inverse"], np.ndarray]
        kinds = {"duplicate": self.pairs, "inverse": self.reversed_pairs}
        for kind, pairs in kinds.items():
            common = sparse.triu(incidence(self.pairs) @ incidence(pairs).T, k=1, format="coo")
            ends = common.row, common.col
            shares = [common.data / self.triples[relations] for relations in ends]
            alike = np.minimum(*shares) >= threshold
            for first, second, *more in zip(
                *(column[alike].tolist() for column in (*ends, common.data, *shares)), strict=True
            ):
                both = names[first], names[second]
                found.append(RelatedRelations(kind, first, second, *both, *more))
        return sorted(found, key=lambda pair: (pair.kind, pair.first, pair.second))

    def leakage(self, split: str, related: Sequence[RelatedRelations], threshold: float) -> Leakage:
        from scipy import sparse

        heads, relations, tails = self.graph.split(split).T
        forward, backward = self.pair(heads, tails), self.pair(tails, heads)

        def answered(kind: str, pairs: np.ndarray) -> np.ndarray:
            """Whether a related relation connects the pair of each triple in train."""
            rows = [(pair.first, pair.second) for pair in related if pair.kind == kind]
            ones = np.ones(len(rows), dtype=np.int8)
            places = np.array(rows, dtype=np.int64).reshape(-1, 2).T
            half = sparse.csr_array((ones, tuple(places)), shape=(self.k, self.k))
            triple, partner = (half + half.T).tocsr()[relations].nonzero()
            hit = self.contains(partner, pairs[triple])
            return np.bincount(triple[hit], minlength=len(relations)) > 0

        symmetric = self.symmetric(threshold)[relations] & (heads != tails)
        symmetric &= self.contains(relations, backward)
        inverse, duplicate = answered("inverse", backward), answered("duplicate", forward)
        return Leakage(
            split=split,
            triples=len(relations),
            symmetric=int(symmetric.sum()),
            inverse=int(inverse.sum()),
            duplicate=int(duplicate.sum()),
            answered=int((symmetric | inverse | duplicate).sum()),
        )


def _ratios(parts: np.ndarray, wholes: np.ndarray) -> list[float | None]:
    return [
        part / whole if whole else None
        for part, whole in zip(parts.tolist(), wholes.tolist(), strict=True)
    ]
