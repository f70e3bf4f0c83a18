"""What speaks for and against a triple, as numbers: the evidence behind its probability.

Scores say how well a triple fits from its two sides: among all tails of its head, and among all
heads of its tail.  A triple that is good from one side only is the typical absurdity.  Counts of
the graph say what scores do not know:

- how many answers the place (h, r, ·) holds already, and how often places of this relation hold
  one more, so that a second value for a place that holds one counts against it;
- whether the other relations of an entity go together with this one, so that an entity of the
  wrong kind counts against it;
- whether the other relations between the two entities go together with this one.

A triple that the graph knows is judged as if it were not known: it never counts itself.  What goes
together is counted on train alone, so that held-out facts do not speak for themselves.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from bilink._jit import kernel
from bilink._threads import cores, single_threaded_blas
from bilink.data.graph import COLUMNS, SPLITS, Graph, position
from bilink.data.index import FactIndex, KnownAnswers, known_answers, rejected_facts
from bilink.evaluation.ranks import question_blocks
from bilink.models.scorer import SIDES, Scorer, Side

_OF_A_SIDE = (
    "log-probability among the candidates",  # softmax over those that are not known
    "logarithm of the rank",
    "log-probability, single-valued",  # times the share of places that hold one answer
    "known answers",  # log(1 + number)
    "no known answer",
    "chance of one more answer",  # log-odds, by the number of known ones
    "best companion",  # log-odds that what has another relation of this entity has this one
    "mean companion",
    "worst companion",  # how much rarer together than by chance, as a logarithm
    "mean lift",
    "relations",  # log(1 + number of different relations of the entity)
    "usual answers",  # logarithm of the mean number in this relation
)
_OF_A_PAIR = (
    "other relations of the pair",  # log(1 + number)
    "worst companion of the pair",
    "best lift of the pair",
    "best companion of the pair",
    "facts of the relation",  # log(1 + number)
)
FEATURES = (*(f"{side}: {name}" for side in SIDES for name in _OF_A_SIDE), *_OF_A_PAIR)
_ROW = 3  # features of a side that come from rows of scores; they stand first
_LOWEST = -20.0  # log-probabilities below are all the same
_CLIP = 0.01  # of shares before they become log-odds
_MOST_ANSWERS = 60  # known answers of a place that are told apart
_PRIOR = 3.0  # places by which a relation's chances are drawn to those of all
_FITS = 0.3  # share at which an entity that is not seen in a position fits it
_BYTES = 32 * 2**20  # of scores that a thread holds


@dataclass(frozen=True, eq=False)
class Groups:
    """Units (entities, or pairs of entities) and the directed relations that each has.

    ``together`` counts on train how many units have two directed relations; it is symmetric.
    """

    keys: np.ndarray  # int64, sorted, unique
    start: np.ndarray  # int64, one more than keys
    relation: np.ndarray  # int32, sorted within a unit
    together: csr_array
    counts: np.ndarray  # float64, units with each directed relation, on train
    units: int  # on train

    @classmethod
    def of(cls, known: np.ndarray, train: np.ndarray, n_directed: int) -> "Groups":
        """Of (unit, directed relation), of all known facts and of train."""
        known, train = np.unique(known, axis=0), np.unique(train, axis=0)
        keys, start = np.unique(known[:, 0], return_index=True)
        names, units = np.unique(train[:, 0], return_inverse=True)
        ones = np.ones(len(train), dtype=np.float64)
        has = csr_array((ones, (units, train[:, 1])), shape=(len(names), n_directed))
        together = csr_array(has.T @ has)
        together.sort_indices()
        return cls(
            keys,
            np.append(start, len(known)).astype(np.int64),
            known[:, 1].astype(np.int32),
            together,
            np.asarray(together.diagonal(), dtype=np.float64),
            len(names),
        )

    def features(self, units: np.ndarray, directed: np.ndarray) -> np.ndarray:
        """(n, 6): number, best share, mean share, least lift, mean lift, best lift of the others.

        The others are the directed relations of a unit but for the one that is asked about.  Their
        share is how many of the units that have one also have the other; the lift compares that
        with chance.
        """
        place = position(self.keys, units) if len(self.keys) else np.full(len(units), -1)
        out, together = np.zeros((len(units), 6)), self.together
        _companions(
            np.where(place < 0, 0, self.start[place]),
            np.where(place < 0, 0, self.start[place + 1]),
            self.relation,
            directed.astype(np.int64),
            together.indptr.astype(np.int64),
            together.indices.astype(np.int32),
            together.data,
            self.counts,
            float(max(self.units, 1)),
            out,
        )
        return out


@kernel
def _companions(start, stop, relation, directed, indptr, indices, data, counts, units, out):
    """Six sums over the companions of directed[i] in its unit; see ``Groups.features``."""
    for i in range(directed.shape[0]):
        e = directed[i]
        number, total, lifts = 0, 0.0, 0.0
        best, least, most = 0.0, 0.0, 0.0
        k, end = indptr[e], indptr[e + 1]
        for j in range(start[i], stop[i]):
            d = relation[j]
            if d == e:
                continue
            low, high = k, end  # both are sorted, but a unit has few relations: search
            while low < high:
                middle = (low + high) // 2
                if indices[middle] < d:
                    low = middle + 1
                else:
                    high = middle
            both = data[low] if low < end and indices[low] == d else 0.0
            share = both / (counts[d] + 2.0)
            lift = np.log((both + 1.0) / (counts[d] * counts[e] / units + 1.0))
            if number == 0:
                least, most = lift, lift
            number += 1
            total += share
            lifts += lift
            best, least, most = max(best, share), min(least, lift), max(most, lift)
        out[i, 0] = number
        out[i, 1] = best
        out[i, 2] = total / max(number, 1)
        out[i, 3] = min(least, 0.0)
        out[i, 4] = lifts / max(number, 1)
        out[i, 5] = max(most, 0.0)


class Places(NamedTuple):
    """Questions of one side: "which ``side`` goes with given[i] and relations[i]?"."""

    side: Side
    given: np.ndarray
    relations: np.ndarray


class Lists(NamedTuple):
    """The best candidates of places, without what is known."""

    triples: np.ndarray
    place: np.ndarray  # of each, which place it was found at
    log_probability: np.ndarray  # among the candidates of that place
    log_rank: np.ndarray


class Evidence:
    """The evidence for triples of one graph, by one scorer."""

    def __init__(self, scorer: Scorer, graph: Graph, known: FactIndex | None = None):
        self.scorer, self.graph = scorer, graph
        self.known = known_answers(graph, SPLITS) if known is None else known
        self.rejected = rejected_facts(graph)
        n, k = len(graph.entities), len(graph.relations)
        facts, train = graph.triples.astype(np.int64), graph.train.astype(np.int64)
        self._entities = Groups.of(_by_entity(facts, k), _by_entity(train, k), 2 * k)
        self._pairs = Groups.of(_by_pair(facts, n, k), _by_pair(train, n, k), 2 * k)
        self._one_more = {side: _one_more(known_answers(graph, ("train",))[side]) for side in SIDES}
        self._facts = np.log1p(np.bincount(train[:, 1], minlength=k))
        self._loops = np.isin(np.arange(k), list(graph.reflexive_relations))

    def features(self, triples: np.ndarray, *, repeatable: bool = False) -> np.ndarray:
        """(n, features): what speaks for and against each triple of ids.

        If they are ``repeatable``, they are the same whatever else is asked, to the last digit; it
        takes longer.
        """
        triples = np.asarray(triples, dtype=np.int64).reshape(-1, 3)
        out = self.counts(triples)
        for side in SIDES:
            self.set_row_features(out, side, triples, *self._compare(side, triples, repeatable).T)
        return out

    def set_row_features(
        self,
        out: np.ndarray,
        side: Side,
        triples: np.ndarray,
        log_probability: np.ndarray,
        log_rank: np.ndarray,
    ) -> None:
        """Put what a row of scores says of each triple in its place among the features."""
        first = SIDES.index(side) * len(_OF_A_SIDE)
        single = 1 - self._one_more[side][0][triples[:, 1], 1]
        out[:, first], out[:, first + 1] = log_probability, log_rank
        out[:, first + 2] = log_probability * single

    def counts(self, triples: np.ndarray) -> np.ndarray:
        """The same without rows of scores, which are taken to be as good as can be."""
        triples = np.asarray(triples, dtype=np.int64).reshape(-1, 3)
        out = np.zeros((len(triples), len(FEATURES)))
        is_known = self.known.holds(triples)
        k = len(self.graph.relations)
        for i, side in enumerate(SIDES):
            given = triples[:, COLUMNS[side][0]]
            start, stop = self.known[side].spans(given, triples[:, 1])
            answers = stop - start - is_known
            chances, usual = self._one_more[side]
            directed = triples[:, 1] + (k if side == "head" else 0)
            found = self._entities.features(given, directed)
            own = out[:, i * len(_OF_A_SIDE) + _ROW : (i + 1) * len(_OF_A_SIDE)]
            own[:, 0] = np.log1p(answers)
            own[:, 1] = answers == 0
            own[:, 2] = _log_odds(chances[triples[:, 1], np.minimum(answers, _MOST_ANSWERS)])
            own[:, 3], own[:, 4] = _log_odds(found[:, 1]), _log_odds(found[:, 2])
            own[:, 5], own[:, 6] = found[:, 3], found[:, 4]
            own[:, 7] = np.log1p(found[:, 0])
            own[:, 8] = usual[triples[:, 1]]
        n = len(self.graph.entities)
        pairs = self._pairs.features(triples[:, 0] * n + triples[:, 2], triples[:, 1])
        last = out[:, -len(_OF_A_PAIR) :]
        last[:, 0] = np.log1p(pairs[:, 0])
        last[:, 1], last[:, 2], last[:, 3] = pairs[:, 3], pairs[:, 5], pairs[:, 1]
        last[:, 4] = self._facts[triples[:, 1]]
        return out

    # -- rows of scores ----------------------------------------------------------------------------

    def _compare(self, side: Side, triples: np.ndarray, repeatable: bool) -> np.ndarray:
        """(n, 2): log-probability of each answer among what is not known, −log of its rank."""
        given, answer = COLUMNS[side]
        known, out = self.known[side], np.empty((len(triples), 2))
        size = self._block_size()

        def work(block: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
            rows, asked, place = block
            scores = self.scorer.scores(side, asked[:, 0], asked[:, 1], repeatable=repeatable)
            start, stop = known.spans(asked[:, 0], asked[:, 1])
            own = np.where(self._loops[asked[:, 1]], -1, asked[:, 0])
            values = np.empty((len(rows), 2))
            ids = triples[rows, answer]
            _compare_rows(scores, start, stop, known.answers, own, place, ids, values)
            out[rows] = values

        _spread(work, question_blocks(triples[:, [given, 1]], size, cores()))
        return out

    def lists(
        self,
        places: Places,
        k: int,
        progress: Callable[[int], None] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> Lists:
        """The ``k`` best candidates of each place that are not known."""
        side, known = places.side, self.known[places.side]
        found: list[tuple[int, np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []
        size = self._block_size()

        def work(first: int) -> None:
            if stop is not None and stop():
                return
            given = places.given[first : first + size]
            relations = places.relations[first : first + size]
            scores = self.scorer.scores(side, given, relations)
            starts, stops = known.spans(given, relations)
            own = np.where(self._loops[relations], -1, given)
            best = np.full((len(given), min(k, scores.shape[1])), -1, dtype=np.int64)
            values = np.zeros(best.shape)
            _best_of_rows(scores, starts, stops, known.answers, own, best, values)
            rows, ranks = np.nonzero(best >= 0)
            columns = [given[rows], relations[rows], best[rows, ranks]]
            triples = np.stack(columns if side == "tail" else columns[::-1], axis=1)
            found.append((first, triples, rows + first, values[rows, ranks], -np.log1p(ranks)))
            if progress:
                progress(len(given))

        _spread(work, range(0, len(places.given), size))
        found.sort(key=lambda part: part[0])
        if not found:
            none = np.empty(0)
            return Lists(np.empty((0, 3), np.int64), none.astype(np.int64), none, none)
        _, *parts = zip(*found, strict=True)
        return Lists(*(np.concatenate(part) for part in parts))

    def places(self, side: Side, relation: int | None = None) -> Places:
        """What may be asked: each entity that is seen in its position, or fits it."""
        k = len(self.graph.relations)
        shift = k if side == "head" else 0
        wanted = range(k) if relation is None else (relation,)
        given, relations = [], []
        for r in wanted:
            units = np.unique(self._fitting(r + shift))
            given.append(units)
            relations.append(np.full(len(units), r, dtype=np.int64))
        return Places(side, np.concatenate(given), np.concatenate(relations))

    def _fitting(self, directed: int) -> np.ndarray:
        """The entities with a directed relation, and those whose others mostly go with it."""
        groups = self._entities
        row = slice(groups.together.indptr[directed], groups.together.indptr[directed + 1])
        others, both = groups.together.indices[row], groups.together.data[row]
        fitting = others[both / (groups.counts[others] + 2.0) >= _FITS]
        units = np.repeat(groups.keys, np.diff(groups.start))
        wanted = np.zeros(2 * len(self.graph.relations), dtype=bool)
        wanted[fitting], wanted[directed] = True, True
        return units[wanted[groups.relation]]

    def _block_size(self) -> int:
        return int(max(1, min(256, _BYTES // self.scorer.row_bytes)))


def _spread(work: Callable[[Any], None], items: Iterable[Any]) -> None:
    """Do the work on threads, item by item; the first error ends it."""
    with single_threaded_blas(), ThreadPoolExecutor(cores()) as pool:
        jobs = [pool.submit(work, item) for item in items]
        try:
            for job in jobs:
                job.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _by_entity(facts: np.ndarray, k: int) -> np.ndarray:
    """(entity, directed relation) of each fact, in both directions."""
    heads, tails = facts[:, [0, 1]], facts[:, [2, 1]] + [0, k]
    return np.concatenate([heads, tails])


def _by_pair(facts: np.ndarray, n: int, k: int) -> np.ndarray:
    """(pair of entities, directed relation) of each fact, in both directions."""
    forwards = np.stack([facts[:, 0] * n + facts[:, 2], facts[:, 1]], axis=1)
    backwards = np.stack([facts[:, 2] * n + facts[:, 0], facts[:, 1] + k], axis=1)
    return np.concatenate([forwards, backwards])


def _one_more(known: KnownAnswers) -> tuple[np.ndarray, np.ndarray]:
    """For each relation and number of answers, the share of places with more; the usual number."""
    k = known.n_relations
    sizes, relations = np.diff(known.offsets), known.keys % max(k, 1)
    number = np.minimum(sizes, _MOST_ANSWERS + 1)
    histogram = np.zeros((k, _MOST_ANSWERS + 2))
    np.add.at(histogram, (relations, number), 1)
    at_least = np.cumsum(histogram[:, ::-1], axis=1)[:, ::-1]
    total = at_least.sum(axis=0)
    common = (total[1:] + 1) / (total[:-1] + 2)
    chances = (at_least[:, 1:] + _PRIOR * common) / (at_least[:, :-1] + _PRIOR)
    chances[:, 0] = 0.5  # how many places could have an answer, and have none, nobody knows
    facts = np.bincount(relations, sizes, minlength=k)
    usual = np.log(np.maximum(facts, 1) / np.maximum(at_least[:, 1], 1))
    return chances, usual


def _log_odds(share: np.ndarray) -> np.ndarray:
    clipped = np.clip(share, _CLIP, 1 - _CLIP)
    return np.log(clipped / (1 - clipped))


@kernel
def _compare_rows(scores, start, stop, known, own, place, ids, out):
    """For each answer: its log-probability among the candidates not known, and −log of its rank.

    Row place[i] of the scores is spoilt: known answers, and the given entity own[place[i]], are
    taken out of it.  The answers of a row stand together.
    """
    n = scores.shape[1]
    values = np.empty(ids.shape[0])
    for i in range(ids.shape[0]):
        values[i] = scores[place[i], ids[i]]
    first = 0
    while first < ids.shape[0]:
        line, last = place[first], first
        while last < ids.shape[0] and place[last] == line:
            last += 1
        row = scores[line]
        for j in range(start[line], stop[line]):
            row[known[j]] = -np.inf
        if own[line] >= 0:
            row[own[line]] = -np.inf
        top, total = -np.inf, 0.0
        for j in range(n):
            top = max(top, row[j])
        for j in range(n):
            if row[j] > -np.inf:
                total += np.exp(np.float64(row[j]) - top)
        for i in range(first, last):
            value, above, level = values[i], 0, 0
            for j in range(n):
                above += row[j] > value
                level += row[j] == value
            taken_out = row[ids[i]] == -np.inf
            # Of whichever is larger, so that nothing overflows however far apart they are.
            most = max(top, value)
            whole = total * np.exp(top - most) if top > -np.inf else 0.0
            whole += np.exp(value - most) if taken_out else 0.0
            others = level if taken_out else level - 1
            out[i, 0] = max(value - most - np.log(whole), _LOWEST)
            out[i, 1] = -np.log(1 + above + others / 2)
        first = last


@kernel
def _best_of_rows(scores, start, stop, known, own, best, values):
    """The best candidates of each row that are not known, and their log-probabilities."""
    n, k = scores.shape[1], best.shape[1]
    for line in range(scores.shape[0]):
        row = scores[line]
        for j in range(start[line], stop[line]):
            row[known[j]] = -np.inf
        if own[line] >= 0:
            row[own[line]] = -np.inf
        found = 0
        for j in range(n):
            if row[j] == -np.inf or (found == k and row[j] <= row[best[line, k - 1]]):
                continue
            i = found if found < k else k - 1
            while i > 0 and row[best[line, i - 1]] < row[j]:
                best[line, i] = best[line, i - 1]
                i -= 1
            best[line, i] = j
            found = min(found + 1, k)
        if found == 0:
            continue
        top, total = row[best[line, 0]], 0.0
        for j in range(n):
            total += np.exp(np.float64(row[j]) - top)
        for i in range(found):
            values[line, i] = max(row[best[line, i]] - top - np.log(total), _LOWEST)
