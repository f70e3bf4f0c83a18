"""Names as people type them: any case, without accents, and with typing errors."""

import time
from functools import cached_property
from typing import Any

import numpy as np

from bilink._text import printable
from bilink.data.vocabulary import Vocabulary, plain
from bilink.errors import DataError
from bilink.serving.failures import UnknownName
from bilink.serving.pools import Background

AT_ONCE = 20_000  # names whose index is built while a caller waits
LONGEST = 60  # characters of a text that are compared
_SHORTEST = 3
_LIKELY = 100  # texts whose distance is computed
_KINDS_OF_PAIRS = 2**14  # pairs of letters are told apart by a hash
_A_BREATH = 256  # names
_AS_A_BEGINNING = 0.5  # what it costs that a text goes on


class Names:
    """Entities or relations as people type and read them."""

    def __init__(self, vocabulary: Vocabulary, facts: np.ndarray, background: Background):
        self.vocabulary = vocabulary
        self.facts = facts  # how many each id has
        self._background = background
        self._is_asked_for = False

    def search(self, text: str, k: int, offset: int = 0) -> tuple[list[int], bool]:
        """The ids of the ``k`` best matches behind ``offset``, and whether there are more.

        Texts that contain what was typed come first; where few do, and none begins with it, those
        follow that nearly do.  Within each group, those with many facts come first.
        """
        end = offset + k
        found = self.vocabulary.search(text, end + 1, self.facts)
        if len(found) < end and not any(self._begins(i, text) for i in found):
            errors = 1.0 if found else None
            close = self.close(text, end + 1 - len(found), errors)
            found = list(dict.fromkeys([*found, *close]))
        return found[offset:end], len(found) > end

    def close(self, text: str, k: int = 3, errors: float | None = None) -> list[int]:
        """Up to ``k`` ids with a text like this one; none as long as the index is being built."""
        if not self.is_ready:
            self.prepare()
            return []
        return self._close.search(text, k, self.facts, errors)

    @property
    def is_ready(self) -> bool:
        """Whether close names are found."""
        return len(self.vocabulary) <= AT_ONCE or "_close" in self.__dict__

    def prepare(self) -> None:
        """Have the index of close names built in the background."""
        if not self._is_asked_for:
            self._is_asked_for = True
            self._background.add(lambda: self._close)

    def find(self, text: str) -> int:
        """The id of a name or of an unambiguous label, in any case; else an error with close ones.

        Close names are those of the index, or those that begin alike.
        """
        if text in self.vocabulary:
            try:
                return self.vocabulary.find(text)
            except DataError as error:  # the label of several
                raise self._ambiguous(str(error), text) from None
        same = self._same(text)
        if len(same) == 1:
            return same[0]
        kind = self.vocabulary.kind
        if same:
            some = " or ".join(map(self._shown, same[:3]))
            raise self._ambiguous(f"{kind} {text[:60]!r} may be {some}; say which", text)
        close = self.close(text[:LONGEST]) or self.vocabulary.search(text[:40], 3, self.facts)
        close = close or self.vocabulary.search(text[:3], 3, self.facts)
        meant = " or ".join(map(self._shown, close))
        hint = f"; did you mean {meant}?" if meant else ""
        sentence = f"unknown {kind} {text[:60]!r}{hint}"
        raise UnknownName(sentence, f"unknown-{kind}", self._suggested(close))

    def row(self, i: int) -> dict[str, Any]:
        """The name, the label and the number of facts of id ``i``."""
        return {**self._suggested([i])[0], "facts": int(self.facts[i])}

    def _same(self, text: str) -> list[int]:
        """Ids whose name or label is the same but for case, accents and punctuation."""
        folded = plain(text)
        if not folded:
            return []
        vocabulary = self.vocabulary
        found = vocabulary.search(text, 20, self.facts)
        return [i for i in found if folded in (plain(vocabulary.names[i]), plain(self._label(i)))]

    def _ambiguous(self, sentence: str, text: str) -> UnknownName:
        return UnknownName(sentence, "ambiguous", self._suggested(self._same(text)[:5]))

    def _suggested(self, ids: list[int]) -> list[dict[str, str]]:
        names = self.vocabulary.names
        return [{"name": names[i], "label": printable(self._label(i))} for i in ids]

    def _begins(self, i: int, text: str) -> bool:
        texts = self.vocabulary.names[i], self._label(i)
        return any(plain(each).startswith(plain(text)) for each in texts)

    def _shown(self, i: int) -> str:
        name, label = self.vocabulary.names[i], self._label(i)
        return repr(name[:60]) if label == name else f"{label[:60]!r} ({name[:60]})"

    def _label(self, i: int) -> str:
        return self.vocabulary.label(i)

    @cached_property
    def _close(self) -> "CloseNames":
        return CloseNames(self.vocabulary)


class CloseNames:
    """Finds texts that differ by a few letters: those that share most pairs of letters, compared.

    For each pair of letters there is a list of the texts that have it.
    """

    def __init__(self, vocabulary: Vocabulary):
        # Strings and numbers in lists of their own: a pair for each would wake the garbage
        # collector again and again, and everyone else would wait for it.
        self._texts: list[str] = []
        ids: list[int] = []
        for i, name in enumerate(vocabulary.names):
            for text in dict.fromkeys((plain(vocabulary.label(i)), plain(name))):
                self._texts.append(text)
                ids.append(i)
            if i % _A_BREATH == 0:
                time.sleep(0)  # others may go first
        self._ids = np.array(ids, dtype=np.int64)
        lengths = np.array([len(text) + 2 for text in self._texts], dtype=np.int64)
        pairs = _pairs("".join(f" {text} " for text in self._texts))
        last = np.cumsum(lengths) - 1  # of each text; the pair there would be of two texts
        place = np.repeat(np.arange(len(ids), dtype=np.int32), lengths)
        inside = np.ones(len(place), dtype=bool)
        inside[last] = False
        inside = inside[: len(pairs)]
        pairs, place = pairs[inside], place[: len(pairs)][inside]
        self._holders = place[np.argsort(pairs, kind="stable")]
        self._starts = np.zeros(_KINDS_OF_PAIRS + 1, dtype=np.int64)
        np.cumsum(np.bincount(pairs, minlength=_KINDS_OF_PAIRS), out=self._starts[1:])
        self._lengths = (lengths - 1).astype(np.float32)

    def search(
        self, text: str, k: int, weights: np.ndarray, errors: float | None = None
    ) -> list[int]:
        """The ids of the ``k`` closest texts, with at most so many errors.

        A text that goes on behind what was typed counts as a little less close.
        """
        text = plain(text[: 2 * LONGEST])[:LONGEST]
        if len(text) < _SHORTEST or not self._texts:
            return []
        most = max(1, len(text) // 3) if errors is None else errors
        found: dict[int, float] = {}
        for place in self._likely(text):
            errors = _distance(text, self._texts[place])
            i = int(self._ids[place])
            if errors <= most + _AS_A_BEGINNING and errors < found.get(i, np.inf):
                found[i] = errors
        return sorted(found, key=lambda i: (found[i], -weights[i], i))[:k]

    def _likely(self, text: str) -> list[int]:
        """The places of the texts that share most pairs of letters, for their length."""
        pairs = np.unique(_pairs(f" {text} "))
        shared = np.zeros(len(self._texts), dtype=np.float32)
        for pair in pairs.tolist():
            shared[self._holders[self._starts[pair] : self._starts[pair + 1]]] += 1
        length = np.float32(len(text) + 1)
        score = shared / (length + np.minimum(np.abs(self._lengths - length), length) * 0.25)
        best = np.argpartition(-score, min(_LIKELY, len(score)) - 1)[:_LIKELY]
        return [place for place in best.tolist() if shared[place] > 0]


def _pairs(text: str) -> np.ndarray:
    """A hash of each two letters that follow each other."""
    letters = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    return ((letters[:-1] * 263 + letters[1:]) % _KINDS_OF_PAIRS).astype(np.uint16)


def _distance(typed: str, text: str) -> float:
    """How many letters to change, add, leave out or swap to make ``text``, or its beginning."""
    cut = text[: 2 * len(typed)]
    before: list[int] = []
    row = list(range(len(cut) + 1))
    for i, letter in enumerate(typed, start=1):
        before, last, row = row, before, [i]
        for j, other in enumerate(cut, start=1):
            value = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other))
            if i > 1 < j and letter == cut[j - 2] and typed[i - 2] == other:
                value = min(value, last[j - 2] + 1)
            row.append(value)
    whole = row[-1] if len(cut) == len(text) else np.inf
    return float(min(whole, min(row) + _AS_A_BEGINNING))
