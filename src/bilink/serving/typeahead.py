"""Names as they are typed: the best matches of a few letters, among 100,000 names at once."""

import unicodedata
from bisect import bisect_left, bisect_right

import numpy as np

from bilink.data.vocabulary import Vocabulary
from bilink.errors import DataError

_END = "\U0010ffff"  # sorts after every letter
_SCANNED = 2000  # matches within names that are looked at


def fold(text: str) -> str:
    """``text`` without case and accents, on one line."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    return " ".join("".join(c for c in plain if not unicodedata.combining(c)).split())


class TypeAhead:
    """Finds names and labels by what was typed so far.

    First by their beginnings, then by the beginnings of their words, then by any part; in each of
    these the entries with the most ``weights`` come first.
    """

    def __init__(self, vocabulary: Vocabulary, weights: np.ndarray):
        self._vocabulary, self._weights = vocabulary, weights
        keys = [(fold(vocabulary.label(i)), i) for i in range(len(vocabulary))]
        keys += [
            (fold(name), i)
            for i, name in enumerate(vocabulary.names)
            if vocabulary.label(i) != name
        ]
        keys.sort()
        self._keys = [key for key, _ in keys]
        self._ids = np.array([i for _, i in keys], dtype=np.int64)
        # All keys in one text, to be scanned at the speed of str.find; a word starts after a space.
        self._text = "\n" + "".join(f" {key}\n" for key in self._keys)
        lengths = np.fromiter((len(key) + 2 for key in self._keys), np.int64, len(keys))
        self._starts = 1 + np.cumsum(lengths) - lengths

    def search(self, text: str, k: int) -> list[int]:
        """The ids of the ``k`` best matches; for no text, the ids with the most weight."""
        wanted = fold(text)
        first = bisect_left(self._keys, wanted)
        last = bisect_left(self._keys, wanted + _END)
        found: dict[int, None] = {}
        exact = bisect_right(self._keys, wanted)
        self._add(found, self._ids[first:exact], k)
        self._add(found, self._ids[first:last], k)
        for part in (f" {wanted}", wanted):
            if len(found) < k and wanted:
                self._add(found, self._containing(part), k)
        return list(found)

    def find(self, text: str) -> int:
        """The id of a name or an unambiguous label; else an error with what was perhaps meant."""
        vocabulary = self._vocabulary
        if text in vocabulary:
            return vocabulary.find(text)
        close = self.search(text[:40], 3) or self.search(text[:3], 3)
        meant = " or ".join(repr(vocabulary.names[i][:60]) for i in close)
        hint = f"; did you mean {meant}?" if meant else ""
        raise DataError(f"unknown {vocabulary.kind} {text[:60]!r}{hint}")

    def _add(self, found: dict[int, None], ids: np.ndarray, k: int) -> None:
        ids = np.unique(ids)  # an entry may be there by its name and by its label
        order = np.lexsort((ids, -self._weights[ids]))
        for i in ids[order[: k + len(found)]].tolist():
            if len(found) < k:
                found.setdefault(i)

    def _containing(self, part: str) -> np.ndarray:
        places: list[int] = []
        place = self._text.find(part)
        while place >= 0 and len(places) < _SCANNED:
            places.append(place)
            place = self._text.find(part, place + 1)
        keys = np.searchsorted(self._starts, places, side="right") - 1
        return self._ids[keys]
