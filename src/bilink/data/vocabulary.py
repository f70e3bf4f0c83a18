"""Names of entities or relations, and their integer ids."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from bilink.errors import DataError

CLOSE_MATCHES = 3


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
    close = difflib.get_close_matches(text.casefold(), folded, n=n, cutoff=0.6)
    return list(dict.fromkeys([*start, *(folded[key] for key in close)]))[:n]


def _short(text: str, width: int = 60) -> str:
    """``text`` in quotes, safe to print on a terminal, cut where it is long."""
    return repr(text if len(text) <= width else text[: width - 1] + "…")
