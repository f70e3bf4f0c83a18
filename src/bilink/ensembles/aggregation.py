"""How rules are aggregated: weights of their features, for each relation and side.

Learnt weights maximise the likelihood of held-out answers, as stacked ensembles do.  They compete
with aggregations that need no learning (the best rule, noisy-or); for each relation and side, what
ranks held-out answers best is taken.  All of it is done on the validation split.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from bilink._random import Stream, generator
from bilink.data.graph import COLUMNS, Graph
from bilink.data.index import known_answers
from bilink.ensembles.fitting import compare_answers
from bilink.errors import ConfigError
from bilink.evaluation.entity_ranking import VALIDATION_FILTER
from bilink.evaluation.ranks import question_blocks
from bilink.evaluation.regression import Comparisons, fit_weights
from bilink.models.scorer import SIDES, Side
from bilink.paths.scorer import AGGREGATIONS, PathScorer, fixed_weights
from bilink.paths.walking import CLUSTERS, FEATURES

Aggregation = Literal["auto", "learnt", "max", "sum", "noisy-or", "clusters"]
LEARNT = "learnt"
BY_CLUSTER = ("auto", "clusters")  # aggregations that look at clusters
# Clusters have no learnt weight: it gains less than 0.001 of validation MRR (WN18RR, FB15k-237),
# and ranking FB15K would take a quarter longer.
_LEARNT_FEATURES = [i for i in range(len(FEATURES)) if i != CLUSTERS]
_TRIPLES = 10_000  # that weights are learnt on, at most
_BYTES = 32 * 2**20  # of scores at once, in each thread
_RANDOM, _HARD = 20, 4  # negatives of a question: random ones, and the best of each feature
_FEW = 10  # triples of a relation that the judgement of all relations counts as


def check_aggregation(name: str) -> None:
    """Complain about a name that is no aggregation."""
    if name not in get_args(Aggregation):
        raise ConfigError(
            f"aggregation must be one of {', '.join(get_args(Aggregation))}, not {name!r}"
        )


def fit_aggregation(
    scorer: PathScorer,
    graph: Graph,
    aggregation: str = "auto",
    *,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
    triples: np.ndarray | None = None,
) -> tuple[dict[Side, np.ndarray], dict[Side, list[str]]]:
    """Weights for each side and relation, and the name of the aggregation that each is.

    They are learnt on the validation split, or on those of its triples that are given.  Without
    any there is nothing to learn from, and the best rule decides.
    """
    check_aggregation(aggregation)
    k = len(graph.relations)
    triples = graph.valid if triples is None else triples
    if not len(triples) and aggregation in ("auto", LEARNT):
        aggregation = "max"
    if aggregation in AGGREGATIONS:
        return fixed_weights(aggregation, k), {side: [aggregation] * k for side in SIDES}
    random = generator(seed, Stream.ENSEMBLE_SAMPLE)
    triples = triples[random.permutation(len(triples))[:_TRIPLES]]
    job = _Fit(scorer, graph, triples, aggregation, seed, progress)
    with ThreadPoolExecutor(len(SIDES)) as pool:  # the kernels run without Python's lock
        sides = dict(zip(SIDES, pool.map(job.side, SIDES), strict=True))
    return (
        {side: weights for side, (weights, _) in sides.items()},
        {side: names for side, (_, names) in sides.items()},
    )


@dataclass(frozen=True)
class _Fit:
    """What weights are fitted to."""

    scorer: PathScorer
    graph: Graph
    triples: np.ndarray
    aggregation: str
    seed: int
    progress: Callable[[int], None] | None

    def side(self, side: Side) -> tuple[np.ndarray, list[str]]:
        """The weights of one side, and the aggregation of each relation."""
        k, relations = len(self.graph.relations), self.triples[:, 1]
        comparisons = self._compare(side)
        fit = fit_weights(comparisons, k, seed=self.seed)
        if self.aggregation == LEARNT or len(relations) < 2 * _FEW:
            return _whole(fit.weights), [LEARNT] * k
        choices = {name: fixed_weights(name, k)[side] for name in AGGREGATIONS}
        half = np.arange(len(relations)) % 2  # each half is judged by the weights of the other
        others = [
            _whole(
                fit_weights(
                    _part(comparisons, half != i), k, shrinkage=fit.shrinkage, seed=self.seed
                ).weights
            )
            for i in range(2)
        ]
        gains = self._gains(side, np.stack([*choices.values(), *others]))
        crossed = np.where(half == 0, gains[-2], gains[-1])
        gains = np.stack([*gains[:-2], crossed])
        choices[LEARNT] = _whole(fit.weights)
        sums = np.stack([np.bincount(relations, gain, k) for gain in gains])
        sums += _FEW * gains.mean(axis=1, keepdims=True)
        names = [list(choices)[b] for b in sums.argmax(axis=0)]
        return np.stack([choices[name][r] for r, name in enumerate(names)]), names

    def _compare(self, side: Side) -> Comparisons:
        """The features of right answers beside those of wrong ones."""
        scorer = self.scorer

        def features(given: np.ndarray, relations: np.ndarray) -> np.ndarray:
            asked = scorer.queries(side, given, relations)
            return scorer.features(asked, _LEARNT_FEATURES)

        return compare_answers(
            features,
            (len(_LEARNT_FEATURES), scorer.n_entities, scorer.dtype.itemsize),
            self.triples,
            known_answers(self.graph, VALIDATION_FILTER),
            side,
            random_negatives=_RANDOM,
            hard_negatives=_HARD,
            seed=self.seed,
            progress=self.progress,
        )

    def _gains(self, side: Side, weights: np.ndarray) -> np.ndarray:
        """1 / rank of each triple's ``side``, under several weights of relations at once."""
        scorer, triples = self.scorer, self.triples
        given, answer = COLUMNS[side]
        known = known_answers(self.graph, VALIDATION_FILTER)[side]
        start, stop = known.spans(triples[:, given], triples[:, 1])
        gains = np.empty((len(weights), len(triples)))
        size = max(1, _BYTES // (len(weights) * scorer.n_entities * 4))
        for rows, asked, place in question_blocks(triples[:, [given, 1]], size):
            scores = np.zeros((len(weights), len(asked), scorer.n_entities), dtype=np.float32)
            questions = scorer.queries(side, *asked.T)
            scorer.add_weighted(questions, np.ascontiguousarray(weights[:, asked[:, 1]]), scores)
            for i, line in zip(rows, place, strict=True):
                row = scores[:, line]
                value = row[:, [triples[i, answer]]]
                others = row[:, known.answers[start[i] : stop[i]]]  # the answer itself among them
                above = (row > value).sum(axis=1) - (others > value).sum(axis=1)
                level = (row == value).sum(axis=1) - (others == value).sum(axis=1)
                gains[:, i] = 1 / (1 + above + level / 2)
            if self.progress:
                self.progress(len(rows))
        return gains


def _whole(weights: np.ndarray) -> np.ndarray:
    """Learnt weights, with a column for the feature that has none."""
    return np.insert(weights, CLUSTERS, 0.0, axis=1)


def _part(comparisons: Comparisons, where: np.ndarray) -> Comparisons:
    return Comparisons(
        comparisons.relations[where], comparisons.gaps[where], comparisons.log_counts
    )
