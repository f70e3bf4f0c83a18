"""Which new facts a person should look at next, because the answer would teach the model most.

That is where the probability is near one half and the evidence disagrees: the members of an
ensemble among each other, or the two sides of a triple.  So that a batch takes seconds on a graph
of any size, it is chosen from the best answers of some places, drawn at random from all relations.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import expit

from bilink._random import Stream, generator
from bilink._text import printable
from bilink.data.graph import Graph
from bilink.data.index import FactIndex
from bilink.ensembles.mixture import MixtureScorer
from bilink.errors import QueryStopped
from bilink.evaluation.evidence import Lists, Places
from bilink.evaluation.probability import Judge
from bilink.evaluation.ranks import rank_triples
from bilink.models.scorer import SIDES, Scorer

PLACES = 4_000  # whose best answers are candidates
LEAST = 10  # places of each side of a relation
LISTED = 5  # answers of a place
JUDGED = 600  # candidates at most, those that may be near one half
COMPARED = 300  # of these, the nearest to one half, whose evidence is compared
_NEAR = 0.1  # a candidate that cannot be more probable teaches little


class Asking(Protocol):
    """Whose facts are asked about: a run."""

    graph: Graph

    @property
    def scorer(self) -> Scorer:
        """What ranks and answers."""

    @property
    def judge(self) -> Judge | None:
        """What makes probabilities."""

    @property
    def known(self) -> FactIndex:
        """What the graph knows."""

    @property
    def member_names(self) -> Sequence[str]:
        """The members of an ensemble, in the order of its scorer."""


@dataclass(frozen=True)
class WorthAsking:
    """A new fact, as ids, and why a person should decide about it."""

    triple: tuple[int, int, int]
    probability: float
    worth: float  # in [0, 1]
    why: str


def worth_asking(
    run: Asking,
    relation: int | None = None,
    *,
    k: int = 200,
    seed: int = 0,
    stop: Callable[[], bool] | None = None,
) -> list[WorthAsking]:
    """Up to ``k`` new facts, of one relation or spread over all, the most instructive first.

    There are none in a run without probabilities.  Another ``seed`` draws other candidates.
    """
    if run.judge is None:
        return []
    random = generator(seed, Stream.CALIBRATION_QUERIES)
    triples = _candidates(run.judge, relation, random, stop)
    if not len(triples):
        return []
    _, chances = run.judge(triples)
    doubt = 1 - np.abs(2 * chances - 1)
    near = np.argsort(-doubt, kind="stable")[:COMPARED]
    triples, chances, doubt = triples[near], chances[near], doubt[near]
    ranks = _ranks(run, triples)
    worth = doubt * (1 + _disagreement(run, ranks)) / 2
    order = _spread(triples[:, 1], worth)[:k]
    return [
        WorthAsking(
            (int(triples[i, 0]), int(triples[i, 1]), int(triples[i, 2])),
            float(chances[i]),
            float(worth[i]),
            _why(run, float(chances[i]), ranks[i]),
        )
        for i in order.tolist()
    ]


def _candidates(
    judge: Judge,
    relation: int | None,
    random: np.random.Generator,
    stop: Callable[[], bool] | None,
) -> np.ndarray:
    """New facts that may be about as likely true as not."""
    evidence = judge.evidence
    parts, bounds = [], []
    for side in SIDES:
        places = _drawn(evidence.places(side, relation), random)
        lists: Lists = evidence.lists(places, LISTED, stop=stop)
        if stop is not None and stop():
            raise QueryStopped("the search was stopped")
        features = evidence.counts(lists.triples)
        evidence.set_row_features(
            features, side, lists.triples, lists.log_probability, lists.log_rank
        )
        parts.append(lists.triples)
        bounds.append(expit(judge.probability.log_odds(features)))
    triples, first = np.unique(np.concatenate(parts), axis=0, return_index=True)
    highest, open_ = np.concatenate(bounds)[first], ~evidence.rejected.holds(triples)
    triples, highest = triples[open_], highest[open_]
    if len(triples) > JUDGED:  # never fewer than that, even where nothing is probable
        triples = triples[highest >= min(_NEAR, np.partition(highest, -JUDGED)[-JUDGED])]
    return triples[np.sort(random.permutation(len(triples))[:JUDGED])]


def _drawn(places: Places, random: np.random.Generator) -> Places:
    """Some places of each relation."""
    order = random.permutation(len(places.given))
    order = order[np.argsort(places.relations[order], kind="stable")]
    starts = np.flatnonzero(np.diff(places.relations[order], prepend=-1))
    number = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    chosen = order[number < max(LEAST, PLACES // (2 * max(len(starts), 1)))]
    return Places(places.side, places.given[chosen], places.relations[chosen])


def _ranks(run: Asking, triples: np.ndarray) -> np.ndarray:
    """(n, members, sides): the rank of each triple, known ones left out."""
    scorer = run.scorer
    members = scorer.members if isinstance(scorer, MixtureScorer) else [scorer]
    found = np.empty((len(triples), len(members), len(SIDES)))
    for i, member in enumerate(members):
        ranks = rank_triples(member, triples, run.known)
        for j, side in enumerate(SIDES):
            found[:, i, j] = ranks[side].values()
    return found


def _disagreement(run: Asking, ranks: np.ndarray) -> np.ndarray:
    """How far apart the members are, or else the two sides, in [0, 1)."""
    logs = np.log(ranks)
    logs = logs.mean(axis=2) if ranks.shape[1] > 1 else logs[:, 0, :]
    return 1 - np.exp(-(logs.max(axis=1) - logs.min(axis=1)) / 3)


def _spread(relations: np.ndarray, worth: np.ndarray) -> np.ndarray:
    """The order of worth, in which each further fact of a relation counts less."""
    order = np.lexsort((-worth, relations))
    starts = np.flatnonzero(np.diff(relations[order], prepend=-1))
    sizes = np.diff(np.append(starts, len(order)))
    number = np.arange(len(order)) - np.repeat(starts, sizes)
    return order[np.argsort(-worth[order] / np.sqrt(1 + number), kind="stable")]


def _why(run: Asking, chance: float, ranks: np.ndarray) -> str:
    """A sentence for people."""
    even = "As likely true as not" if 0.4 <= chance <= 0.6 else f"{chance:.0%} likely"
    if len(ranks) > 1:
        means = np.exp(np.log(ranks).mean(axis=1))
        order = np.argsort(means, kind="stable")
        best, last = (int(i) for i in (order[0], order[-1]))
        if _are_far(means[best], means[last]):
            names = [printable(run.member_names[i]) for i in (best, last)]
            return (
                f"{even}, and the members disagree: {names[0]} has it on rank "
                f"{means[best]:.0f}, {names[1]} on rank {means[last]:.0f}."
            )
    elif _are_far(min(ranks[0]), max(ranks[0])):
        head, tail = ranks[0]
        return (
            f"{even}, and the sides disagree: it is on rank {tail:.0f} of the tails and "
            f"{head:.0f} of the heads."
        )
    return f"{even}."


def _are_far(best: float, last: float) -> bool:
    return last >= max(10, 3 * best)
