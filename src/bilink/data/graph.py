"""The graph: names, and triples as integers."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from bilink.data.vocabulary import Vocabulary
from bilink.errors import DataError

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")


@dataclass(frozen=True, eq=False)
class Graph:
    """A knowledge graph whose triples are dealt into train, valid and test.

    The arrays have shape (n, 3), int32, with columns head, relation, tail.  They are read-only.
    """

    name: str
    entities: Vocabulary
    relations: Vocabulary
    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray

    def __post_init__(self) -> None:
        limits = (len(self.entities), len(self.relations), len(self.entities))
        for split in SPLITS:
            triples = np.array(getattr(self, split), dtype=np.int32, order="C").reshape(-1, 3)
            if len(triples) and (triples.min() < 0 or (triples.max(axis=0) >= limits).any()):
                raise DataError(f"graph {self.name!r}: the {split} split has ids out of range")
            triples.flags.writeable = False
            object.__setattr__(self, split, triples)

    def split(self, name: str) -> np.ndarray:
        """The triples of split ``name``."""
        if name not in SPLITS:
            raise DataError(f"unknown split {name!r}; there are {', '.join(SPLITS)}")
        return getattr(self, name)

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
        for split in SPLITS:
            digest.update(len(self.split(split)).to_bytes(8, "little"))
            digest.update(np.ascontiguousarray(self.split(split), dtype="<i4").tobytes())
        return digest.hexdigest()[:16]

    def __repr__(self) -> str:
        return (
            f"Graph({self.name!r}, {len(self.entities):,} entities, "
            f"{len(self.relations):,} relations, {len(self.train):,} training, "
            f"{len(self.valid):,} validation and {len(self.test):,} test triples)"
        )
