"""Names of entities or relations, and their integer ids."""

import bisect
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from bilink._text import closest, counted, shortened
from bilink.errors import DataError

_LAST = chr(0x10FFFF)  # sorts after every letter
_SCANNED = 2000  # at most so many texts with a match somewhere inside are looked at
_NO_LETTERS = re.compile(r"[\W_]+")


@dataclass(frozen=True)
class Vocabulary:
    """Unique names in id order, with optional labels to show to people.

    A name identifies; a label need not be unique and is never used as a key inside bilink.
    """

    kind: str  # "entity" or "relation", for messages
    names: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)  # name -> label, may be partial

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, text: str) -> bool:
        """Whether ``text`` is a name or a label."""
        return text in self._ids or text in self._ids_by_label

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def _ids_by_label(self) -> dict[str, list[int]]:
        ids: dict[str, list[int]] = {}
        for name, label in self.labels.items():
            if name in self._ids:
                ids.setdefault(label, []).append(self._ids[name])
        return ids

    def __repr__(self) -> str:
        some = ", ".join(map(shortened, self.names[:3]))
        more = ", …" if len(self) > 3 else ""
        return f"Vocabulary({self.kind!r}, {counted(len(self), 'name')}: {some}{more})"

    def label(self, i: int) -> str:
        """The label of id ``i``, or its name where it has none."""
        name = self.names[i]
        return self.labels.get(name, name)

    def find(self, text: str) -> int:
        """The id of a name or of an unambiguous label; else an error with close matches."""
        if not isinstance(text, str):
            raise DataError(f"the name of {self._one} must be text, not {shortened(str(text))}")
        if text in self._ids:
            return self._ids[text]
        candidates = self._ids_by_label.get(text, [])
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            some = ", ".join(self.names[i] for i in candidates[:5])
            raise DataError(
                f"{text!r} is the label of {len(candidates)} {self._plural}: {some}"
                f"{', …' if len(candidates) > 5 else ''}. Use one of these names instead."
            )
        if close := closest(text, [*self.names, *self._ids_by_label]):
            hint = f"did you mean {' or '.join(map(shortened, close))}?"
        else:
            some = ", ".join(map(shortened, self.names[:3]))
            hint = f"the graph has {len(self):,} {self._plural}, for example {some}"
        raise DataError(f"unknown {self.kind} {shortened(text)}; {hint}")

    def find_all(self, texts: Iterable[str]) -> np.ndarray:
        """The ids of many names, as int32."""
        return np.fromiter((self.find(text) for text in texts), dtype=np.int32)

    def search(self, text: str, k: int = 10, weights: np.ndarray | None = None) -> list[int]:
        """Ids whose label or name contains ``text``, for completion while a name is typed.

        Case, accents and punctuation do not matter.  Equal texts come first, then texts that begin
        with ``text``, then those with a word that does, then those that contain it anywhere.
        Within each group, larger ``weights`` (one for each id) come first; without weights, the
        order is alphabetical.
        """
        return self._index.search(text, k, weights)

    @cached_property
    def _index(self) -> "_SearchIndex":
        texts = [(self.label(i), i) for i in range(len(self))]
        texts += [(name, i) for i, name in enumerate(self.names) if name in self.labels]
        return _SearchIndex(texts)

    @property
    def _one(self) -> str:
        return "an entity" if self.kind == "entity" else f"a {self.kind}"

    @property
    def _plural(self) -> str:
        return "entities" if self.kind == "entity" else f"{self.kind}s"


class _SearchIndex:
    """Normalised texts, sorted, and joined to one string that ``str.find`` can search."""

    def __init__(self, texts: Iterable[tuple[str, int]]):
        entries = sorted((plain(text), i) for text, i in texts)
        self._texts = [text for text, _ in entries]
        self._ids = np.array([i for _, i in entries], dtype=np.int64)
        self._whole = "".join(f"\n {text}" for text in self._texts) + "\n"
        lengths = [len(text) + 2 for text in self._texts]
        self._starts = np.cumsum([0, *lengths])  # of each text in the whole

    def search(self, text: str, k: int, weights: np.ndarray | None) -> list[int]:
        """The ids of the ``k`` best texts that contain ``text``."""
        found: dict[int, None] = {}  # a set that keeps its order
        for places in self._places(plain(text)):
            ids = self._ids[places]
            if weights is not None:
                ids = ids[np.argsort(-weights[ids], kind="stable")]
            for i in ids.tolist():
                if len(found) >= k:
                    return list(found)
                found.setdefault(i)
        return list(found)

    def _places(self, text: str) -> Iterator[np.ndarray]:
        """Positions of texts that contain ``text``, from the best kind of match to the worst."""
        first, exact = bisect.bisect_left(self._texts, text), bisect.bisect(self._texts, text)
        yield np.arange(first, exact)
        yield np.arange(exact, bisect.bisect_left(self._texts, text + _LAST))
        if text:
            yield self._holding(f" {text}")
            yield self._holding(text)

    def _holding(self, part: str) -> np.ndarray:
        """Positions of the first texts that contain ``part``."""
        places: list[int] = []
        at = self._whole.find(part)
        while at >= 0 and len(places) < _SCANNED:
            places.append(int(np.searchsorted(self._starts, at, side="right")) - 1)
            at = self._whole.find(part, int(self._starts[places[-1] + 1]))
        return np.array(places, dtype=np.int64)


def plain(text: str) -> str:
    """Lower case, no accents, and a space for each run of other than letters and digits."""
    letters = text.casefold()
    if not letters.isascii():
        parts = unicodedata.normalize("NFKD", letters)
        letters = "".join(c for c in parts if not unicodedata.combining(c))
    return _NO_LETTERS.sub(" ", letters).strip()
