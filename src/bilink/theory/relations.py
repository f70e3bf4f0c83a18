"""The facts of each relation of a graph, and how many of them some models must lose."""

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
from bilink.data.index import known_answers
from bilink.data.statistics import CATEGORIES, MANY, Category
from bilink.errors import ConfigError, DataError

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
    def has_reverse(self) -> np.ndarray:
        """For each fact, whether its reverse is a fact; a loop is its own reverse."""
        keys = self.heads * self.n + self.tails
        return np.isin(self.tails * self.n + self.heads, keys, assume_unique=True)

    @cached_property
    def loops(self) -> int:
        """Facts between an entity and itself."""
        return int(np.count_nonzero(self.heads == self.tails))

    @property
    def symmetric(self) -> bool:
        """Whether the reverse of every fact is a fact."""
        return bool(self.has_reverse.all())

    def lost_by_distmult(self) -> int:
        """How many facts no DistMult model, of any size, scores above every non-fact.

        Its scores are symmetric, so a fact has the score of its reverse, which is a non-fact.
        """
        return int(np.count_nonzero(~self.has_reverse))

    def lost_by_transe(self) -> int:
        """How many facts, at least, any TransE model of any size scores no higher than a non-fact.

        All pairs (i, i) have the score −‖r‖².  If one of them is a non-fact, all reflexive facts
        have its score.  Around a cycle of facts the differences dₖ of head and tail add up to zero,
        so that the scores −‖dₖ + r‖² add up to −Σ‖dₖ‖² − m‖r‖²: not all of the m facts are above
        −‖r‖².  The cycles counted here share no fact: each pair of a fact and its reverse, and one
        cycle in every strong component of the rest.
        """
        if self.loops == self.n:
            return 0
        proper = self.heads != self.tails
        mutual = int(np.count_nonzero(self.has_reverse & proper)) // 2
        once = ~self.has_reverse
        ends = self.heads[once], self.tails[once]
        graph = sparse.csr_matrix((np.ones(len(ends[0])), ends), shape=(self.n, self.n))
        _, labels = csgraph.connected_components(graph, directed=True, connection="strong")
        return self.loops + mutual + int(np.count_nonzero(np.bincount(labels) > 1))


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
    index = known_answers(graph, splits)
    return [RelationFacts(k, n, *np.divmod(index.pairs(k), n)) for k in range(len(graph.relations))]


def first_with_same_facts(relations: Sequence[RelationFacts]) -> list[tuple[int, bool]]:
    """For each relation the first one with the same facts, and whether it has them reversed."""
    first: dict[str, tuple[int, bool]] = {}
    for k, facts in enumerate(relations):
        if facts.fingerprint not in first:
            first[facts.fingerprint] = (k, False)
            first.setdefault(facts.reversed_fingerprint, (k, True))
    return [first[facts.fingerprint] for facts in relations]


def for_distinct(
    work: Callable[[RelationFacts], Found],
    relations: Sequence[RelationFacts],
    threads: int,
    progress: Callable[[int], None] | None = None,
) -> list[tuple[int, bool, Found]]:
    """Do the same for each relation on several threads, the largest first.

    A copy or an inverse of an earlier relation shares its result: returned are, for each relation,
    the first one with the same facts, whether it has them reversed, and the result for that one.
    ``progress`` is called with the number of facts of each relation that is done.
    """
    if not 1 <= threads <= 1024:
        raise ConfigError(f"threads must be at least 1 and at most 1,024, not {threads:,}")
    first = first_with_same_facts(relations)
    distinct = {k for k, _ in first}

    def run(k: int) -> Found:
        result = work(relations[k])
        if progress:
            progress(len(relations[k]))
        return result

    largest_first = sorted(distinct, key=lambda k: (-len(relations[k]), k))
    with ThreadPoolExecutor(threads) as pool:
        jobs = {k: pool.submit(run, k) for k in largest_first}
        try:
            found = {k: job.result() for k, job in jobs.items()}
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # after an error or Ctrl-C, end soon
    return [(k, inverse, found[k]) for k, inverse in first]
