"""How rules are aggregated: weights of their features, for each relation and side.

Learnt weights maximise the likelihood of held-out answers, as stacked ensembles do.  They compete
with aggregations that need no learning (the best rule, noisy-or); for each relation and side, what
ranks held-out answers best is taken.  All of it is done on the validation split.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, get_args

import numpy as np

from bilink._random import Stream, generator
from bilink._threads import cores
from bilink.data.graph import COLUMNS, Graph
from bilink.data.index import known_answers
from bilink.ensembles.fitting import compare_answers
from bilink.errors import ConfigError
from bilink.evaluation.entity_ranking import VALIDATION_FILTER
from bilink.evaluation.regression import Comparisons, fit_weights
from bilink.models.scorer import SIDES, Side
from bilink.paths.scorer import AGGREGATIONS, PathScorer, fixed_weights
from bilink.paths.walking import FEATURES

Aggregation = Literal["auto", "learnt", "max", "sum", "noisy-or"]
LEARNT = "learnt"
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
) -> tuple[dict[Side, np.ndarray], dict[Side, list[str]]]:
    """Weights for each side and relation, and the name of the aggregation that each is.

    Without a validation split there is nothing to learn from, and the best rule decides.
    """
    check_aggregation(aggregation)
    k = len(graph.relations)
    if not len(graph.valid) and aggregation in ("auto", LEARNT):
        aggregation = "max"
    if aggregation in AGGREGATIONS:
        return fixed_weights(aggregation, k), {side: [aggregation] * k for side in SIDES}
    random = generator(seed, Stream.ENSEMBLE_SAMPLE)
    triples = graph.valid[random.permutation(len(graph.valid))[:_TRIPLES]]
    half = np.arange(len(triples)) % 2
    weights: dict[Side, np.ndarray] = {}
    chosen: dict[Side, list[str]] = {}
    for side in SIDES:
        comparisons = _compare(scorer, graph, triples, side, seed, progress)
        learnt = fit_weights(comparisons, k, seed=seed).weights
        weights[side], chosen[side] = learnt, [LEARNT] * k
        if aggregation == LEARNT or len(triples) < 2 * _FEW:
            continue
        choices = {name: fixed_weights(name, k)[side] for name in AGGREGATIONS}
        tried = [row[triples[:, 1]] for row in choices.values()]
        crossed = np.empty_like(tried[0])  # each half by the weights of the other
        for i in range(2):
            fitted = fit_weights(_part(comparisons, half != i), k, seed=seed).weights
            crossed[half == i] = fitted[triples[half == i, 1]]
        gains = _gains(scorer, graph, triples, side, np.stack([*tried, crossed]), progress)
        choices[LEARNT] = learnt
        sums = np.stack([np.bincount(triples[:, 1], gain, k) for gain in gains])
        sums += _FEW * gains.mean(axis=1, keepdims=True)
        best = sums.argmax(axis=0)
        names = list(choices)
        weights[side] = np.stack([choices[names[b]][r] for r, b in enumerate(best)])
        chosen[side] = [names[b] for b in best]
    return weights, chosen


def _compare(
    scorer: PathScorer,
    graph: Graph,
    triples: np.ndarray,
    side: Side,
    seed: int,
    progress: Callable[[int], None] | None,
) -> Comparisons:
    """The features of right answers beside those of wrong ones."""

    def features(given: np.ndarray, relations: np.ndarray) -> np.ndarray:
        return scorer.features(scorer.queries(side, given, relations))

    return compare_answers(
        features,
        (len(FEATURES), scorer.n_entities, scorer.dtype.itemsize),
        triples,
        known_answers(graph, VALIDATION_FILTER),
        side,
        random_negatives=_RANDOM,
        hard_negatives=_HARD,
        seed=seed,
        progress=progress,
    )


def _part(comparisons: Comparisons, where: np.ndarray) -> Comparisons:
    return Comparisons(
        comparisons.relations[where], comparisons.gaps[where], comparisons.log_counts
    )


def _gains(
    scorer: PathScorer,
    graph: Graph,
    triples: np.ndarray,
    side: Side,
    weights: np.ndarray,
    progress: Callable[[int], None] | None,
) -> np.ndarray:
    """1 / rank of each triple's ``side``, under several weights for each triple at once."""
    given, answer = COLUMNS[side]
    known = known_answers(graph, VALIDATION_FILTER)[side]
    start, stop = known.spans(triples[:, given], triples[:, 1])
    gains = np.empty((len(weights), len(triples)))
    size = max(1, _BYTES // (len(weights) * scorer.n_entities * 4))
    blocks = iter(range(0, len(triples), size))

    def work() -> None:
        for first in blocks:
            rows = slice(first, first + size)
            part = triples[rows]
            scores = np.zeros((len(weights), len(part), scorer.n_entities), dtype=np.float32)
            questions = scorer.queries(side, part[:, given], part[:, 1])
            scorer.add_weighted(questions, np.ascontiguousarray(weights[:, rows]), scores)
            for i, own in enumerate(part[:, answer]):
                row, value = scores[:, i], scores[:, i, own].copy()
                row[:, known.answers[start[first + i] : stop[first + i]]] = -1
                above = (row > value[:, None]).sum(axis=1)
                level = (row == value[:, None]).sum(axis=1)
                gains[:, first + i] = 1 / (1 + above + level / 2)
            if progress:
                progress(len(part))

    with ThreadPoolExecutor(cores()) as pool:
        for job in [pool.submit(work) for _ in range(cores())]:
            job.result()
    return gains
