"""The facts of each relation of a graph, and what they rule out."""

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from bilink.data.graph import Graph
from bilink.data.statistics import CATEGORIES, MANY, Category
from bilink.errors import ConfigError, DataError
from bilink.theory.rounding.boolean import distinct_facts

Found = TypeVar("Found")


@dataclass(frozen=True, eq=False)
class RelationFacts:
    """The distinct facts of one relation among ``n`` entities, sorted."""

    relation: int
    n: int
    heads: np.ndarray
    tails: np.ndarray

    def __len__(self) -> int:
        return len(self.heads)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the facts: equal for equal relations."""
        return self._hash(self.heads, self.tails)

    @cached_property
    def reversed_fingerprint(self) -> str:
        """The fingerprint of the inverse relation."""
        order = np.lexsort((self.heads, self.tails))
        return self._hash(self.tails[order], self.heads[order])

    def _hash(self, heads: np.ndarray, tails: np.ndarray) -> str:
        digest = hashlib.sha256(self.n.to_bytes(8, "little"))
        for ids in (heads, tails):
            digest.update(np.ascontiguousarray(ids, dtype="<i8").tobytes())
        return digest.hexdigest()[:32]

    @cached_property
    def category(self) -> Category | None:
        """1-1, 1-N, N-1 or N-N, by the averages of all facts here; None without facts."""
        if not len(self):
            return None
        heads, tails = (len(np.unique(ids)) for ids in (self.heads, self.tails))
        many_tails, many_heads = len(self) >= MANY * heads, len(self) >= MANY * tails
        return CATEGORIES[2 * many_heads + many_tails]

    @cached_property
    def returned(self) -> np.ndarray:
        """For each fact, whether its reverse is a fact."""
        keys = self.heads * self.n + self.tails
        return np.isin(self.tails * self.n + self.heads, keys, assume_unique=True)

    @cached_property
    def loops(self) -> int:
        """Facts between an entity and itself."""
        return int(np.count_nonzero(self.heads == self.tails))

    @property
    def symmetric(self) -> bool:
        """Whether the reverse of every fact is a fact."""
        return bool(self.returned.all())

    def lost_by_distmult(self) -> int:
        """Facts that no DistMult model, of any size, scores above every non-fact.

        Its scores are symmetric, so a fact whose reverse is a non-fact is level with that.
        """
        return int(np.count_nonzero(~self.returned))

    def lost_by_transe(self) -> int:
        """Facts that every TransE model, of any size, has level with or below a non-fact, at least.

        All pairs (i, i) have the score −‖r‖².  If one of them is a non-fact, all reflexive facts
        are level with it.  Around a cycle of facts the differences dₖ of head and tail add up to
        zero, so that the scores −‖dₖ + r‖² add up to −Σ‖dₖ‖² − m‖r‖²: not all of the m facts are
        above −‖r‖².  Cycles here are the pairs of a fact and its reverse, and one in every strong
        component of the rest; they share no fact.
        """
        if self.loops == self.n:
            return 0
        proper = self.heads != self.tails
        mutual = int(np.count_nonzero(self.returned & proper)) // 2
        once = ~self.returned
        ones = np.ones(int(once.sum()), dtype=np.int8)
        graph = sparse.csr_matrix(
            (ones, (self.heads[once], self.tails[once])), shape=(self.n, self.n)
        )
        _, labels = csgraph.connected_components(graph, directed=True, connection="strong")
        cyclic = int(np.count_nonzero(np.bincount(labels) > 1)) if len(ones) else 0
        return self.loops + mutual + cyclic


def facts_of(graph: Graph, splits: Sequence[str]) -> list[RelationFacts]:
    """The facts of every relation, by id, from the given splits."""
    if not splits:
        raise ConfigError("name at least one split whose triples are the facts")
    if not len(graph.relations):
        raise DataError(f"graph {graph.name!r} has no relations (K = 0); there is nothing to say")
    n = len(graph.entities)
    if n < 2:
        raise DataError(
            f"graph {graph.name!r} has {n} entity; the theory compares pairs, and needs at least "
            "two entities (N ≥ 2)"
        )
    triples = np.concatenate([graph.split(split) for split in splits]).astype(np.int64)
    triples = triples[np.argsort(triples[:, 1], kind="stable")]
    ends = np.searchsorted(triples[:, 1], np.arange(len(graph.relations) + 1))
    found = []
    for k in range(len(graph.relations)):
        mine = triples[ends[k] : ends[k + 1]]
        found.append(RelationFacts(k, n, *distinct_facts(mine[:, 0], mine[:, 2], n)))
    return found


def twins(relations: Sequence[RelationFacts]) -> list[tuple[int, bool]]:
    """For each relation the first with the same facts, and whether these are reversed there."""
    first: dict[str, int] = {}
    found = []
    for k, facts in enumerate(relations):
        if facts.fingerprint in first:
            found.append((first[facts.fingerprint], False))
        elif facts.reversed_fingerprint in first:
            found.append((first[facts.reversed_fingerprint], True))
        else:
            first[facts.fingerprint] = k
            found.append((k, False))
    return found


def each_of(
    work: Callable[[int], Found],
    chosen: Sequence[int],
    relations: Sequence[RelationFacts],
    threads: int,
) -> dict[int, Found]:
    """Do the same for each chosen relation, on several threads, the largest first."""
    if not 1 <= threads <= 1024:
        raise ConfigError(f"threads must be at least 1 and at most 1,024, not {threads:,}")
    largest_first = sorted(chosen, key=lambda k: -len(relations[k]))
    with ThreadPoolExecutor(threads) as pool:
        jobs = [pool.submit(work, k) for k in largest_first]
        try:
            return {k: job.result() for k, job in zip(largest_first, jobs, strict=True)}
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # after an error or Ctrl-C, end soon
