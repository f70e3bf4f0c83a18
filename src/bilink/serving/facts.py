"""The facts of a graph, found by their ends."""

from typing import Any

import numpy as np


class Facts:
    """All distinct facts of a graph, found by either end."""

    def __init__(self, triples: np.ndarray, n_entities: int):
        order = np.lexsort((triples[:, 2], triples[:, 1], triples[:, 0]))
        rows = triples[order]
        fresh = np.ones(len(rows), dtype=bool)
        fresh[1:] = (rows[1:] != rows[:-1]).any(axis=1)
        self.triples = rows[fresh]
        bounds = np.arange(n_entities + 1)
        self._out = np.searchsorted(self.triples[:, 0], bounds)
        self._by_tail = np.argsort(self.triples[:, 2], kind="stable")
        self._in = np.searchsorted(self.triples[self._by_tail, 2], bounds)
        self.degrees = np.diff(self._out) + np.diff(self._in)

    def __len__(self) -> int:
        return len(self.triples)

    def out_of(self, entity: int) -> np.ndarray:
        """The places of the facts whose head is ``entity``."""
        return np.arange(self._out[entity], self._out[entity + 1])

    def into(self, entity: int) -> np.ndarray:
        """The places of the facts whose tail is ``entity``."""
        return self._by_tail[self._in[entity] : self._in[entity + 1]]

    def holds(self, head: int, relation: int, tail: int) -> bool:
        """Whether this is a fact."""
        mine = self.triples[self._out[head] : self._out[head + 1]]
        return bool(((mine[:, 1] == relation) & (mine[:, 2] == tail)).any())

    def groups(self, entity: int) -> list[dict[str, Any]]:
        """The other ends of an entity's facts, by relation and direction, the largest first.

        Within a group the best connected entities come first.
        """
        found = []
        for side, places, other in (
            ("tail", self.out_of(entity), 2),
            ("head", self.into(entity), 0),
        ):
            rows = self.triples[places]
            for r in np.unique(rows[:, 1]):
                others = rows[rows[:, 1] == r, other]
                others = others[np.lexsort((others, -self.degrees[others]))]
                found.append({"relation": int(r), "side": side, "others": others})
        return sorted(found, key=lambda group: -len(group["others"]))
