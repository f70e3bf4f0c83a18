"""Known answers: which tails go with (head, relation), which heads with (tail, relation)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bilink.data.graph import COLUMNS, Graph


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
        """Index ``triples`` for questions about ``side``."""
        given, answer = COLUMNS[side]
        keys = triples[:, given].astype(np.int64) * n_relations + triples[:, 1]
        keys *= n_entities
        keys += triples[:, answer]
        keys.sort()
        keys = keys[np.flatnonzero(np.diff(keys, prepend=-1))]  # np.unique hashes, and is slower
        answers = (keys % n_entities).astype(np.int32)
        keys //= n_entities
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
        place = np.searchsorted(self.keys, wanted)
        found = np.zeros(len(wanted), dtype=bool)
        inside = place < len(self.keys)
        found[inside] = self.keys[place[inside]] == wanted[inside]
        place = np.where(found, place, 0)
        start = np.where(found, self.offsets[place], 0)
        stop = np.where(found, self.offsets[np.minimum(place + 1, len(self.offsets) - 1)], 0)
        return start, stop

    def hold(self, triples: np.ndarray, side: str) -> np.ndarray:
        """Whether each triple is among those that were indexed for ``side``."""
        given, answer = COLUMNS[side]
        start, stop = self.spans(triples[:, given], triples[:, 1])
        n = int(max(self.answers.max(initial=0), triples[:, answer].max(initial=0))) + 1
        first = np.repeat(self.offsets[:-1], np.diff(self.offsets))  # of the key of each answer
        places = first * n + self.answers  # sorted
        wanted = start * n + triples[:, answer]
        at = np.minimum(np.searchsorted(places, wanted), max(len(places) - 1, 0))
        return (stop > start) & (places[at] == wanted) if len(places) else stop > start

    def of_query(self, given: int, relation: int) -> np.ndarray:
        """The known answers of one question."""
        start, stop = self.spans(np.array([given]), np.array([relation]))
        return self.answers[start[0] : stop[0]]


def known_answers(graph: Graph, splits: Sequence[str]) -> dict[str, KnownAnswers]:
    """The index over ``splits`` for both sides; without splits it is empty (raw ranking)."""
    chosen = [graph.split(split) for split in splits]
    triples = np.concatenate(chosen) if chosen else np.empty((0, 3), dtype=np.int32)
    sizes = (len(graph.entities), len(graph.relations))
    return {side: KnownAnswers.of(triples, side, *sizes) for side in ("head", "tail")}
