"""The index of facts: known answers of queries, facts of a relation, entities in a position."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bilink.data.graph import COLUMNS, Graph, distinct, position, triple_keys


@dataclass(frozen=True, eq=False)
class KnownAnswers:
    """Sorted answers of one side in CSR form: keys[i] owns answers[offsets[i] : offsets[i + 1]]."""

    n_relations: int
    keys: np.ndarray  # int64, given · n_relations + relation, sorted, unique
    offsets: np.ndarray  # int64, one more than keys
    answers: np.ndarray  # int32, sorted and unique within a key

    @classmethod
    def of(
        cls, triples: np.ndarray, side: str, n_entities: int, n_relations: int
    ) -> "KnownAnswers":
        """Index ``triples`` for queries that ask for ``side``."""
        given, answer = COLUMNS[side]
        keys = distinct(triple_keys(triples[:, [given, 1, answer]], n_entities, n_relations))
        answers = (keys % max(n_entities, 1)).astype(np.int32)
        keys //= max(n_entities, 1)
        starts = np.flatnonzero(np.diff(keys, prepend=-1))
        offsets = np.append(starts, len(keys)).astype(np.int64)
        return cls(n_relations, keys[starts], offsets, answers)

    @property
    def nbytes(self) -> int:
        """What the index takes in memory."""
        return self.keys.nbytes + self.offsets.nbytes + self.answers.nbytes

    def spans(self, given: np.ndarray, relations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where the answers of each (given, relation) start and stop in ``answers``."""
        wanted = given.astype(np.int64) * self.n_relations + relations
        place = position(self.keys, wanted)
        start = np.where(place < 0, 0, self.offsets[place])
        return start, np.where(place < 0, 0, self.offsets[place + 1])

    def of_query(self, given: int, relation: int) -> np.ndarray:
        """The known answers of one query."""
        start, stop = self.spans(np.array([given]), np.array([relation]))
        return self.answers[start[0] : stop[0]]


class FactIndex(Mapping[str, KnownAnswers]):
    """The facts among ``triples`` (which may repeat), in every way that they are looked up.

    ``index["tail"]`` holds the known tails of each (head, relation), ``index["head"]`` the known
    heads of each (tail, relation).  Each view is made when it is first used, and kept.
    """

    def __init__(self, triples: np.ndarray, n_entities: int, n_relations: int):
        self._triples = triples
        self._sizes = n_entities, n_relations
        self._answers: dict[str, KnownAnswers] = {}

    def __getitem__(self, side: str) -> KnownAnswers:
        if side not in self._answers:
            self._answers[side] = KnownAnswers.of(self._triples, side, *self._sizes)
        return self._answers[side]

    def __iter__(self) -> Iterator[str]:
        return iter(COLUMNS)

    def __len__(self) -> int:
        return len(COLUMNS)

    @cached_property
    def _keys(self) -> np.ndarray:
        """The distinct facts as sorted (relation · n + head) · n + tail."""
        return distinct(self._by_relation(self._triples))

    def _by_relation(self, triples: np.ndarray) -> np.ndarray:
        return triple_keys(triples[:, [1, 0, 2]], self._sizes[0], self._sizes[0])

    @property
    def count(self) -> int:
        """How many distinct facts there are."""
        return len(self._keys)

    def holds(self, triples: np.ndarray) -> np.ndarray:
        """Whether each of ``triples``, with ids of the same graph, is a fact."""
        return position(self._keys, self._by_relation(triples)) >= 0

    def pairs(self, relation: int) -> np.ndarray:
        """The distinct facts of one relation as sorted head · n + tail (int64)."""
        start = relation * self._sizes[0] ** 2
        first, last = np.searchsorted(self._keys, (start, start + self._sizes[0] ** 2))
        return self._keys[first:last] - start

    @cached_property
    def positions(self) -> tuple[np.ndarray, np.ndarray]:
        """The entities in each position of each relation, sorted, and where each position starts.

        Position 2r is the head of relation r, position 2r + 1 its tail.
        """
        n, k = self._sizes
        heads, relations, tails = self._triples.T.astype(np.int64)
        places = 2 * relations
        keys = distinct(np.concatenate([places * n + heads, (places + 1) * n + tails]))
        starts = np.searchsorted(keys, np.arange(2 * k + 1, dtype=np.int64) * n)
        return (keys % max(n, 1)).astype(np.int32), starts

    def seen(self, relation: int, side: str) -> np.ndarray:
        """The entities on ``side`` of the facts of one relation, each once, sorted."""
        entities, starts = self.positions
        position = 2 * relation + (side == "tail")
        return entities[starts[position] : starts[position + 1]]


def known_answers(graph: Graph, splits: Sequence[str]) -> FactIndex:
    """The index of the facts in ``splits``; without splits it is empty (raw ranking)."""
    triples = np.concatenate([graph.train[:0], *(graph.split(split) for split in splits)])
    return FactIndex(triples, len(graph.entities), len(graph.relations))


def answers_of(graph: Graph, splits: Sequence[str], triples: np.ndarray) -> dict[str, KnownAnswers]:
    """The known answers in ``splits`` of the queries of ``triples``, and of no others.

    Of a large graph, these few are found much faster than all are sorted, and take less memory.
    """
    sizes = len(graph.entities), len(graph.relations)
    found = {}
    for side, (given, _) in COLUMNS.items():
        wanted = np.zeros(sizes[0], dtype=bool)
        wanted[triples[:, given]] = True
        queries = distinct(_query_keys(triples, given, sizes[1]))
        parts = [graph.train[:0]]
        for split in splits:
            facts = graph.split(split)
            facts = facts[wanted[facts[:, given]]]  # few are left
            parts.append(facts[position(queries, _query_keys(facts, given, sizes[1])) >= 0])
        found[side] = KnownAnswers.of(np.concatenate(parts), side, *sizes)
    return found


def _query_keys(triples: np.ndarray, given: int, n_relations: int) -> np.ndarray:
    """The query (given entity, relation) of each triple, as in ``KnownAnswers.keys``."""
    return triples[:, given].astype(np.int64) * n_relations + triples[:, 1]


def rejected_facts(graph: Graph) -> FactIndex:
    """The index of what people rejected: the negatives of train."""
    triples = graph.negatives.get("train", graph.train[:0])
    return FactIndex(triples, len(graph.entities), len(graph.relations))
