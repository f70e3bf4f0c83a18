"""The graph: names, and triples as integers."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from bilink._text import counted, html_table, shortened
from bilink.data.vocabulary import Vocabulary
from bilink.errors import DataError

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")
MANY = 1 << 20  # values that are faster looked up in order than one by one
FRACTIONS = (0.8, 0.1, 0.1)  # of train, valid and test, where a single file is split

# By the side that is asked for: the columns of the given entity and of the answer.
COLUMNS = {"head": (2, 0), "tail": (0, 2)}


def triple_keys(triples: np.ndarray, n_entities: int, n_relations: int) -> np.ndarray:
    """One integer for each triple, equal for equal triples: (h · K + r) · N + t."""
    head, relation, tail = triples.T.astype(np.int64)
    return (head * n_relations + relation) * n_entities + tail


def distinct(values: np.ndarray) -> np.ndarray:
    """The distinct values, sorted; ``np.unique`` may hash, which takes ten times as long."""
    values = np.sort(values)
    first = np.ones(len(values), dtype=bool)
    first[1:] = values[1:] != values[:-1]
    return values[first]


def position(sorted_values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Where each wanted value stands among the sorted ones; -1 if it does not."""
    if len(wanted) > MANY:
        order = np.argsort(wanted)
        found = np.empty(len(wanted), dtype=np.int64)
        found[order] = _position(sorted_values, wanted[order])
        return found
    return _position(sorted_values, wanted)


def _position(sorted_values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    if not len(sorted_values):
        return np.full(len(wanted), -1, dtype=np.int64)
    place = np.searchsorted(sorted_values, wanted)
    place[place == len(sorted_values)] = 0
    place[sorted_values[place] != wanted] = -1
    return place


def named_triples(triples: Any) -> list[tuple[str, str, str]]:
    """Triples of names as a list; anything else is an error that says what was given."""
    if isinstance(triples, str) or not isinstance(triples, Iterable) or hasattr(triples, "columns"):
        what = shortened(str(triples))
        if hasattr(triples, "columns"):
            what = "a data frame; pass frame.rows()"
        raise DataError(f"expected a list of (head, relation, tail), not {what}")
    rows = list(triples)
    if len(rows) == 3 and all(isinstance(part, str) for part in rows):
        raise DataError("expected a list of triples, not one triple: put it in brackets, [(…)]")
    for row in rows:
        if not isinstance(row, Iterable) or isinstance(row, str) or not _is_triple(tuple(row)):
            raise DataError(f"expected head, relation and tail, three names, not {row!r}")
    return [(head, relation, tail) for head, relation, tail in rows]


def _is_triple(row: tuple[Any, ...]) -> bool:
    return len(row) == 3 and all(isinstance(part, str) for part in row)


@dataclass(frozen=True, eq=False)
class Graph:
    """A knowledge graph whose triples are split into train, valid and test.

    The arrays have shape (n, 3), int32, with columns head, relation, tail.  They are read-only.
    ``negatives`` holds, by split, the triples that the files label as false.

    Examples
    --------
    >>> import bilink
    >>> facts = [("Monaco", "borders", "France"), ("Spain", "borders", "France")]
    >>> bilink.graph_from_triples(facts, fractions=(1, 0, 0))
    Graph('graph', 3 entities, 1 relation, 2 training, 0 validation and 0 test triples)
    """

    name: str
    entities: Vocabulary
    relations: Vocabulary
    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray
    negatives: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for split in SPLITS:
            object.__setattr__(self, split, self._checked(getattr(self, split), split))
        given = {split: self._checked(self.negatives[split], split) for split in self.negatives}
        negatives = {split: given[split] for split in SPLITS if len(given.get(split, ()))}
        object.__setattr__(self, "negatives", negatives)

    def _checked(self, triples: np.ndarray, split: str) -> np.ndarray:
        limits = (len(self.entities), len(self.relations), len(self.entities))
        triples = np.array(triples, dtype=np.int32, order="C").reshape(-1, 3)
        if len(triples) and (triples.min() < 0 or (triples.max(axis=0) >= limits).any()):
            raise DataError(f"graph {self.name!r}: the {split} split has ids out of range")
        triples.flags.writeable = False
        return triples

    def split(self, name: str) -> np.ndarray:
        """The triples of split ``name``."""
        if name not in SPLITS:
            raise DataError(f"unknown split {name!r}; there are {', '.join(SPLITS)}")
        return getattr(self, name)

    def ids(self, triples: Iterable[tuple[str, str, str]]) -> np.ndarray:
        """The ids of triples of names, an array of shape (n, 3)."""
        entities, relations = self.entities.find, self.relations.find
        ids = [(entities(h), relations(r), entities(t)) for h, r, t in named_triples(triples)]
        return np.array(ids, dtype=np.int32).reshape(-1, 3)

    @property
    def triples(self) -> np.ndarray:
        """All triples: train, then valid, then test."""
        return np.concatenate([self.train, self.valid, self.test])

    @cached_property
    def unseen_entities(self) -> np.ndarray:
        """Ids of entities that no training triple mentions, so that nothing is learnt of them."""
        seen = np.zeros(len(self.entities), dtype=bool)
        seen[self.train[:, 0]] = True
        seen[self.train[:, 2]] = True
        return np.flatnonzero(~seen).astype(np.int32)

    @cached_property
    def reflexive_relations(self) -> frozenset[int]:
        """Ids of relations that hold between an entity and itself somewhere in training."""
        loops = self.train[self.train[:, 0] == self.train[:, 2], 1]
        return frozenset(loops.tolist())

    @cached_property
    def fingerprint(self) -> str:
        """A short hash of the names and splits: equal for equal graphs, on every machine."""
        digest = hashlib.sha256()
        for vocabulary in (self.entities, self.relations):
            digest.update("\0".join(vocabulary.names).encode("utf-8", "surrogatepass"))
            digest.update(b"\1")
        parts = [self.split(split) for split in SPLITS]
        if self.negatives:  # without any, the hash is that of versions that knew no negatives
            parts += [self.negatives.get(split, self.train[:0]) for split in SPLITS]
        for part in parts:
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(np.ascontiguousarray(part, dtype="<i4").tobytes())
        return digest.hexdigest()[:16]

    def __repr__(self) -> str:
        return (
            f"Graph({self.name!r}, {len(self.entities):,} entities, "
            f"{counted(len(self.relations), 'relation')}, {len(self.train):,} training, "
            f"{len(self.valid):,} validation and {len(self.test):,} test triples)"
        )

    def _repr_html_(self) -> str:
        sizes = [len(self.entities), len(self.relations), *map(len, map(self.split, SPLITS))]
        columns = ("entities", "relations", *SPLITS)
        return html_table(columns, [[f"{size:,}" for size in sizes]], title=self.name)
