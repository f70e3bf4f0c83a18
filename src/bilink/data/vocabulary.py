"""Names of entities or relations, and their integer ids."""

import bisect
import difflib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from bilink.errors import DataError

CLOSE_MATCHES = 3
_MANY = 20_000  # names; of more, only those with the same first or last letter may be close
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

    def label(self, i: int) -> str:
        """The label of id ``i``, or its name where it has none."""
        name = self.names[i]
        return self.labels.get(name, name)

    def find(self, text: str) -> int:
        """The id of a name or of an unambiguous label; else an error with close matches."""
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
        raise DataError(f"unknown {self.kind} {_short(text)}{self._did_you_mean(text)}")

    def find_all(self, texts: Iterable[str]) -> np.ndarray:
        """The ids of many names, as int32."""
        return np.fromiter((self.find(text) for text in texts), dtype=np.int32)

    def search(self, text: str, k: int = 10) -> list[int]:
        """Ids whose label or name holds ``text``, for typing ahead.

        Without regard to case, accents and punctuation: first those that begin with it, then those
        with a word that does, then those with it anywhere; in alphabetical order each.
        """
        return self._index.search(text, k)

    @cached_property
    def _index(self) -> "_SearchIndex":
        texts = [(self.label(i), i) for i in range(len(self))]
        texts += [(name, i) for i, name in enumerate(self.names) if name in self.labels]
        return _SearchIndex(texts)

    @property
    def _plural(self) -> str:
        return "entities" if self.kind == "entity" else f"{self.kind}s"

    def _did_you_mean(self, text: str) -> str:
        close = closest(text, [*self.names, *self._ids_by_label])
        if not close:
            return f"; the graph has {len(self):,} {self._plural}, for example " + ", ".join(
                _short(name) for name in self.names[:3]
            )
        return "; did you mean " + " or ".join(_short(name) for name in close) + "?"


class _SearchIndex:
    """All texts, plain and sorted, one after the other in a single string."""

    def __init__(self, texts: Iterable[tuple[str, int]]):
        entries = sorted((_plain(text), i) for text, i in texts)
        self._texts, self._ids = [text for text, _ in entries], [i for _, i in entries]
        self._whole = "".join(f"\n {text}" for text in self._texts) + "\n"
        lengths = [len(text) + 2 for text in self._texts]
        self._starts = np.cumsum([0, *lengths])  # of each text in the whole

    def search(self, text: str, k: int) -> list[int]:
        """Ids of the texts that hold ``text``, the best ``k``."""
        text = _plain(text)
        found: dict[int, None] = {}  # a set that keeps its order
        for i in range(bisect.bisect_left(self._texts, text), len(self._texts)):
            if len(found) >= k or not self._texts[i].startswith(text):
                break
            found[self._ids[i]] = None
        for part in (f" {text}", text):
            at = self._whole.find(part) if text else -1
            while at >= 0 and len(found) < k:
                i = int(np.searchsorted(self._starts, at, side="right")) - 1
                found.setdefault(self._ids[i])
                at = self._whole.find(part, int(self._starts[i + 1]))
        return list(found)[:k]


def _plain(text: str) -> str:
    """Lower case, without accents, and with single spaces for all that is no letter or digit."""
    letters = text.casefold()
    if not letters.isascii():
        parts = unicodedata.normalize("NFKD", letters)
        letters = "".join(c for c in parts if not unicodedata.combining(c))
    return _NO_LETTERS.sub(" ", letters).strip()


def printable(text: str) -> str:
    """``text`` without what could steer a terminal, forge a line or turn the writing around."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def closest(text: str, names: Sequence[str], n: int = CLOSE_MATCHES) -> list[str]:
    """Up to ``n`` names that look like ``text``, without regard to case."""
    if len(text) > 200:
        return []
    folded: dict[str, str] = {}
    for name in names:
        if abs(len(name) - len(text)) <= max(4, len(text)):
            folded.setdefault(name.casefold(), name)
    start = [name for key, name in folded.items() if key.startswith(text.casefold())][:n]
    ends = text.casefold()[:1], text.casefold()[-1:]
    near = [
        key for key in folded if len(folded) <= _MANY or key[:1] == ends[0] or key[-1:] == ends[1]
    ]
    close = difflib.get_close_matches(text.casefold(), near, n=n, cutoff=0.6)
    return list(dict.fromkeys([*start, *(folded[key] for key in close)]))[:n]


def _short(text: str, width: int = 60) -> str:
    """``text`` in quotes, safe to print on a terminal, cut where it is long."""
    return repr(text if len(text) <= width else text[: width - 1] + "…")
