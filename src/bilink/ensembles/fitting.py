"""From members to one scorer: the relation-level ensemble and simpler baselines."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from bilink._random import Stream, generator
from bilink.data.graph import Graph
from bilink.data.index import known_answers
from bilink.data.negatives import sample_negatives
from bilink.ensembles.config import EnsembleConfig
from bilink.ensembles.mixture import MixtureScorer, Weights, check_members
from bilink.ensembles.stacking import ask_members
from bilink.errors import DataError
from bilink.evaluation.calibration import fit_platt
from bilink.evaluation.entity_ranking import VALIDATION_FILTER, rank_entities
from bilink.evaluation.regression import Comparisons, fit_weights
from bilink.models.scorer import SIDES, Scorer

Progress = Callable[[int], None]


def fit_ensemble(
    members: Sequence[Scorer],
    graph: Graph,
    config: EnsembleConfig,
    progress: Progress | None = None,
) -> MixtureScorer:
    """The scorer that ``config.method`` makes of ``members``."""
    check_members(members)
    triples = graph.split(config.fit)
    if not len(triples):
        other = "train" if config.fit == "valid" else "valid"
        raise DataError(
            f"graph {graph.name!r} has no {config.fit} triples to fit an ensemble on; fit it on "
            f"{other} (--fit {other})"
        )
    if config.method == "platt":
        return MixtureScorer(members, *_platt(members, graph, config))
    methods = {"stack": _stack, "paper": _paper, "best": _best, "average": _average}
    return MixtureScorer(members, methods[config.method](members, graph, config, progress))


def _stack(
    members: Sequence[Scorer], graph: Graph, config: EnsembleConfig, progress: Progress | None
) -> Weights:
    def weights(comparisons: Comparisons) -> np.ndarray:
        return fit_weights(
            comparisons,
            len(graph.relations),
            shrinkage=config.shrinkage,
            non_negative=config.non_negative,
            seed=config.seed,
        ).weights

    asked = _ask(members, graph, config, progress)
    if config.sides:
        with ThreadPoolExecutor(len(asked)) as pool:  # the kernels run without Python's lock
            return dict(zip(SIDES, pool.map(weights, asked), strict=True))
    return dict.fromkeys(SIDES, weights(_joined(asked)))


def _ask(
    members: Sequence[Scorer], graph: Graph, config: EnsembleConfig, progress: Progress | None
) -> list[Comparisons]:
    triples = graph.split(config.fit)
    if len(triples) > config.triples:
        random = generator(config.seed, Stream.ENSEMBLE_SAMPLE)
        triples = triples[np.sort(random.choice(len(triples), config.triples, replace=False))]
    known = known_answers(graph, VALIDATION_FILTER)
    return [
        ask_members(
            members,
            triples,
            known,
            side,
            random_negatives=config.random_negatives,
            hard_negatives=config.hard_negatives,
            seed=config.seed,
            progress=progress,
        )
        for side in SIDES
    ]


def _joined(asked: Sequence[Comparisons]) -> Comparisons:
    return Comparisons(
        np.concatenate([side.relations for side in asked]),
        np.concatenate([side.gaps for side in asked]),
        asked[0].log_counts,
    )


def _average(
    members: Sequence[Scorer], graph: Graph, config: EnsembleConfig, progress: Progress | None
) -> Weights:
    """One over the standard deviation of each member's score gaps to random negatives."""
    gaps = _joined(_ask(members, graph, config, progress)).gaps[:, : config.random_negatives]
    deviations = np.maximum(gaps.std(axis=(0, 1), dtype=np.float64), 1e-12)
    weights = np.tile(1 / deviations, (len(graph.relations), 1))
    return dict.fromkeys(SIDES, weights)


def _best(
    members: Sequence[Scorer], graph: Graph, config: EnsembleConfig, progress: Progress | None
) -> Weights:
    """One for the member with the best MRR on the relation; elsewhere for the best in general."""
    triples, k = graph.split(config.fit), len(graph.relations)
    known = known_answers(graph, VALIDATION_FILTER)
    gains = np.empty((len(members), len(triples)))
    for i, member in enumerate(members):
        found = rank_entities(member, graph, config.fit, filter=VALIDATION_FILTER, known=known)
        gains[i] = np.mean([1 / found.values(side) for side in SIDES], axis=0)
        if progress:
            progress(2 * len(triples) // len(members))
    sums = np.stack([np.bincount(triples[:, 1], row, k) for row in gains], axis=1)
    seen = np.bincount(triples[:, 1], minlength=k) > 0
    chosen = np.where(seen, sums.argmax(axis=1), gains.mean(axis=1).argmax())
    return dict.fromkeys(SIDES, np.eye(len(members))[chosen])


def _paper(
    members: Sequence[Scorer], graph: Graph, config: EnsembleConfig, progress: Progress | None
) -> Weights:
    """Logistic regression on each relation's triples and as many corrupted ones.

    Features are the members' scores, brought to [0, 1] within the relation.
    """
    from sklearn.linear_model import LogisticRegression

    features, labels, relations = _examples(members, graph, config)
    spreads = np.maximum(np.ptp(features, axis=0), 1e-12)
    weights = np.tile(1 / spreads, (len(graph.relations), 1))  # where there is nothing to learn
    order = np.argsort(relations, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(relations[order])) + 1):
        if progress:
            progress(int(labels[rows].sum()) * 2)
        x, y = features[rows], labels[rows]
        low, spread = x.min(axis=0), np.ptp(x, axis=0)
        spread[spread == 0] = 1
        if y.any() and not y.all():
            model = LogisticRegression(solver="liblinear", random_state=config.seed)
            fitted = model.fit((x - low) / spread, y).coef_[0]
            weights[relations[rows[0]]] = fitted / spread
    return dict.fromkeys(SIDES, weights)


def _examples(
    members: Sequence[Scorer], graph: Graph, config: EnsembleConfig
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each member's scores of true and corrupted triples, their labels and their relations."""
    true = graph.split(config.fit)
    false = sample_negatives(
        graph,
        true,
        [config.seed, Stream.ENSEMBLE_NEGATIVES],
        known=VALIDATION_FILTER,
        plausible=False,
    )
    triples = np.concatenate([true, false])
    scores = np.stack([member.score(triples) for member in members], axis=1).astype(np.float64)
    if not len(false) or not np.isfinite(scores).all():
        raise DataError(
            "an ensemble is fitted on finite scores of true and false triples; here "
            + ("some score is not finite" if len(false) else "no triple is false")
        )
    return scores, np.arange(len(triples)) < len(true), triples[:, 1]


def _platt(
    members: Sequence[Scorer], graph: Graph, config: EnsembleConfig
) -> tuple[Weights, np.ndarray]:
    """For each member the weight and offset that make its scores log-odds, in all relations."""
    features, labels, _ = _examples(members, graph, config)
    weights, offsets = zip(*(fit_platt(column, labels) for column in features.T), strict=True)
    return dict.fromkeys(SIDES, np.tile(weights, (len(graph.relations), 1))), np.array(offsets)
