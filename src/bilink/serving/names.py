"""Names as people type them."""

from dataclasses import dataclass

import numpy as np

from bilink.data.vocabulary import Vocabulary
from bilink.errors import DataError


@dataclass(frozen=True, eq=False)
class Names:
    """A vocabulary in which names with many facts come first."""

    vocabulary: Vocabulary
    facts: np.ndarray  # of each id

    def search(self, text: str, k: int) -> list[int]:
        """The ids of the ``k`` best matches of what was typed so far."""
        return self.vocabulary.search(text, k, self.facts)

    def find(self, text: str) -> int:
        """The id of a name or an unambiguous label; else an error with what was perhaps meant.

        What is close is what the type-ahead search finds, for the whole text or else its beginning:
        to compare it with every name takes seconds where there are 100,000.
        """
        if text in self.vocabulary:
            return self.vocabulary.find(text)
        close = self.search(text[:40], 3) or self.search(text[:3], 3)
        meant = " or ".join(repr(self.vocabulary.names[i][:60]) for i in close)
        hint = f"; did you mean {meant}?" if meant else ""
        raise DataError(f"unknown {self.vocabulary.kind} {text[:60]!r}{hint}")
