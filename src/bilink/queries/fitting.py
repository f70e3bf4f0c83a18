"""What is left out where there are no probabilities: answers that make no sense.

A probability knows that an entity does not fit the position, and that a place which holds one value
holds one already.  A score does not, so without probabilities such candidates are left out.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bilink._text import printable
from bilink.data.graph import Graph
from bilink.data.index import FactIndex, KnownAnswers
from bilink.models.scorer import SIDES, Side

PLACES = 10  # that training must have before a relation can count as single-valued
SINGLE = 0.95  # share of them that hold exactly one answer
_OTHER: dict[Side, Side] = {"head": "tail", "tail": "head"}


@dataclass(frozen=True)
class LeftOut:
    """How many candidates were left out, and why."""

    count: int
    reason: str  # reads on from the number

    def __str__(self) -> str:
        return f"{self.count:,} {self.reason}"


def left_out_note(left_out: Iterable[LeftOut], remedy: str) -> str:
    """What was left out, in a line below the answers."""
    return f"left out: {'; '.join(map(str, left_out))}; {remedy} brings them back"


def add_up(parts: Iterable[LeftOut]) -> tuple[LeftOut, ...]:
    """One count for each reason."""
    counts: dict[str, int] = {}
    for part in parts:
        counts[part.reason] = counts.get(part.reason, 0) + part.count
    return tuple(LeftOut(count, reason) for reason, count in counts.items() if count)


class Fitting:
    """Which candidates fit; facts of the graph always do."""

    def __init__(self, graph: Graph, known: FactIndex, trained: FactIndex):
        self._graph, self._known, self._trained = graph, known, trained
        self._n = len(graph.entities)

    @cached_property
    def _single(self) -> dict[Side, np.ndarray]:
        """Of each relation, whether it has one answer on that side."""
        return {side: _single_valued(self._trained[side]) for side in SIDES}

    def _is_trained(self, r: int) -> bool:
        return len(self._trained.seen(r, "head")) > 0

    def _name(self, r: int) -> str:
        return f"'{printable(self._graph.relations.label(r))}'"

    def unfit(
        self, side: Side, given: int, r: int, exclude: np.ndarray
    ) -> tuple[np.ndarray, LeftOut]:
        """The entities that do not answer a question, but for ``exclude``."""
        facts = self._known[side].of_query(given, r)
        is_full = len(facts) > 0 and self._single[side][r]
        fits = np.full(self._n, not self._is_trained(r))
        fits[facts if is_full else self._known.seen(r, side)] = True
        fits[exclude] = True
        ids = np.flatnonzero(~fits)
        noun, verb = ("entity", "was") if len(ids) == 1 else ("entities", "were")
        if is_full:
            one, other = f"{self._name(r)} has one {side} for each", _OTHER[side]
            return ids, LeftOut(len(ids), f"{noun}, since {one} {other}, and this {other} has it")
        return ids, LeftOut(len(ids), f"{noun} that {verb} never the {side} of {self._name(r)}")

    def has_new_pairs(self, r: int) -> bool:
        """Whether new pairs of a relation can fit: not if each end that occurs has its one value.

        An end that does not occur fits as little.
        """
        return not any(self._single[side][r] for side in SIDES)

    def ends(self, r: int) -> tuple[np.ndarray, np.ndarray]:
        """The heads and the tails that fit."""
        if not self._is_trained(r):
            return np.arange(self._n), np.arange(self._n)
        return self._known.seen(r, "head"), self._known.seen(r, "tail")

    def unfit_pairs(self, r: int, one: bool) -> LeftOut:
        """How many new pairs of a relation are left out; ``one``: of this relation alone."""
        n, (heads, tails) = self._n, self.ends(r)
        name = self._name(r) if one else "the relation"
        has_loops = r in self._graph.reflexive_relations
        if not self.has_new_pairs(r):
            count = n * n - (0 if has_loops else n) - len(self._known.pairs(r))
            side = next(side for side in SIDES if self._single[side][r])
            value = f"{side} for each {_OTHER[side]}" if one else "value for each head or tail"
            return LeftOut(count, f"new pairs, since {name} has one {value}")
        reason = f"pairs with an entity that was never in that position of {name}"
        loops = 0 if has_loops else n - len(np.intersect1d(heads, tails, assume_unique=True))
        return LeftOut(n * n - len(heads) * len(tails) - loops, reason)


def _single_valued(answers: KnownAnswers) -> np.ndarray:
    """Of each relation, whether nearly all places hold exactly one answer."""
    relations, k = answers.keys % max(answers.n_relations, 1), answers.n_relations
    places = np.bincount(relations, minlength=k)
    ones = np.bincount(relations[np.diff(answers.offsets) == 1], minlength=k)
    return (places >= PLACES) & (ones >= SINGLE * places)
