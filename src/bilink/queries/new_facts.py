"""The most probable facts that the graph does not hold, of one relation or of all.

Each entity that is seen in a position, or fits it, is asked about, and its best candidates are
judged.  The evidence of the other side is dear, since it takes a row of scores for each candidate;
so candidates are first ordered by what they could reach if the other side were as good as can be.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bilink.data.graph import COLUMNS
from bilink.errors import QueryStopped
from bilink.evaluation.evidence import Evidence, Places
from bilink.evaluation.probability import Judge
from bilink.models.scorer import SIDES, Side

LISTED = 10  # candidates of a place
_AT_ONCE = 64  # candidates that are judged together


@dataclass(frozen=True)
class Wanted:
    """What may be found, and how many."""

    k: int
    per_relation: int  # at most
    missing: float | None = None
    heads: Callable[[int], np.ndarray] | None = None  # of a relation, the ids that may be heads
    tails: Callable[[int], np.ndarray] | None = None
    progress: Callable[[int], None] | None = None
    stop: Callable[[], bool] | None = None


def most_probable(judge: Judge, relations: range, wanted: Wanted) -> np.ndarray:
    """The triples, the most probable first."""
    best = np.empty((0, 3), dtype=np.int64)
    odds = np.empty(0)
    for r in relations:
        floor = odds[-1] if len(odds) == wanted.k else -np.inf
        triples, found = _of_relation(judge, r, wanted, floor)
        best, odds = np.concatenate([best, triples]), np.concatenate([odds, found])
        order = np.lexsort((best[:, 2], best[:, 0], best[:, 1], -odds))[: wanted.k]
        best, odds = best[order], odds[order]
    return best


def _of_relation(
    judge: Judge, r: int, wanted: Wanted, floor: float
) -> tuple[np.ndarray, np.ndarray]:
    """The best of one relation and their log-odds; those below ``floor`` may be left out."""
    triples, bounds = _candidates(judge, r, wanted)
    order = np.argsort(-bounds, kind="stable")
    triples, bounds = triples[order], bounds[order]
    odds = np.empty(0)
    for first in range(0, len(triples), _AT_ONCE):
        if first:
            enough = min(first, wanted.per_relation)
            last = np.partition(-odds, enough - 1)[enough - 1]
            floor = max(floor, -last) if enough == wanted.per_relation else floor
        if bounds[first] <= floor:
            break
        part = triples[first : first + _AT_ONCE]
        odds = np.append(odds, judge(part, wanted.missing)[0])
    best = np.argsort(-odds, kind="stable")[: wanted.per_relation]
    return triples[best], odds[best]


def _candidates(judge: Judge, r: int, wanted: Wanted) -> tuple[np.ndarray, np.ndarray]:
    """The candidates of a relation, each once, and log-odds that they hardly exceed."""
    allowed: dict[Side, Callable[[int], np.ndarray] | None]
    allowed = {"head": wanted.heads, "tail": wanted.tails}
    found, values = [], []
    for side in SIDES:
        places = _allowed(judge.evidence.places(side, r), allowed[_other(side)], r)
        lists = judge.evidence.lists(places, LISTED, wanted.progress, wanted.stop)
        if wanted.stop is not None and wanted.stop():
            raise QueryStopped("the search was stopped")
        features = judge.evidence.counts(lists.triples)
        found_here = (lists.log_probability, lists.log_rank)
        judge.evidence.set_row_features(features, side, lists.triples, *found_here)
        found.append(lists.triples)
        values.append(judge.probability.log_odds(features, wanted.missing))
    triples, bounds = np.concatenate(found), np.concatenate(values)
    possible = ~judge.evidence.rejected.holds(triples)
    triples, bounds = triples[possible], bounds[possible]
    for end, limit in allowed.items():
        if limit is not None:
            inside = np.isin(triples[:, COLUMNS[end][1]], limit(r))
            triples, bounds = triples[inside], bounds[inside]
    order = np.lexsort((bounds, triples[:, 2], triples[:, 0]))  # the lower of two bounds holds
    triples, bounds = triples[order], bounds[order]
    first = np.ones(len(triples), dtype=bool)
    first[1:] = (triples[1:] != triples[:-1]).any(axis=1)
    return triples[first], bounds[first]


def _allowed(places: Places, limit: Callable[[int], np.ndarray] | None, r: int) -> Places:
    if limit is None:
        return places
    inside = np.isin(places.given, limit(r))
    return Places(places.side, places.given[inside], places.relations[inside])


def _other(side: Side) -> Side:
    return "tail" if side == "head" else "head"


def places_to_search(evidence: Evidence, relations: range) -> int:
    """How many places ``progress`` will count."""
    return sum(len(evidence.places(side, r).given) for r in relations for side in SIDES)
