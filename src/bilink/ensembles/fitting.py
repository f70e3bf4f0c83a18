"""From members to one scorer: the relation-level ensemble and simpler baselines."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

import numpy as np

from bilink._jit import draw, kernel
from bilink._random import Stream, generator, seeds
from bilink._threads import cores, single_threaded_blas
from bilink.data.graph import COLUMNS, Graph
from bilink.data.index import KnownAnswers, known_answers
from bilink.data.negatives import sample_negatives
from bilink.ensembles.factors import fit_ranking_weights
from bilink.ensembles.mixture import MixtureScorer, Weights, check_members
from bilink.errors import ConfigError, DataError
from bilink.evaluation.entity_ranking import VALIDATION_FILTER, rank_entities
from bilink.evaluation.ranks import question_blocks
from bilink.evaluation.regression import Comparisons
from bilink.models.scorer import SIDES, Scorer, Side

Progress = Callable[[int], None]
TRIES = 100  # draws before a negative is given up: all entities may be answers
_BYTES = 64 * 2**20  # of scores at once, in each thread
_REPEATS = 100  # how often a triple counts for each side, in the code of Wang et al. (2018)
_EXAMPLES = 1 << 13  # that are scored at once
Method = Literal["stack", "paper", "best", "average", "platt"]
METHODS: dict[str, str] = {
    "stack": "weights per relation and side, fitted on held-out questions and shrunk",
    "paper": "weights per relation by logistic regression on training triples (Wang et al., 2018)",
    "best": "the member that is best on the relation",
    "average": "the mean of the members' standardised scores, the same for all relations",
    "platt": "the mean of the members' Platt-scaled probabilities (Krompaß and Tresp, 2015)",
}
_COMMON = {"method", "fit", "seed"}  # options that every method has
_OWN: dict[str, set[str]] = {
    "stack": {
        "shrinkage",
        "sides",
        "non_negative",
        "random_negatives",
        "hard_negatives",
        "triples",
    },
    "average": {"random_negatives", "triples"},
    "paper": {"corruptions"},
}


@dataclass(frozen=True, kw_only=True)
class EnsembleConfig:
    """Everything that is needed to fit an ensemble again, but for its members."""

    method: Method = "stack"
    fit: Literal["", "valid", "train"] = ""  # split to fit on; empty is valid, train for "paper"
    shrinkage: float = 0.0  # towards the weights of all relations; 0 is chosen by cross-validation
    sides: bool = True  # whether heads and tails have weights of their own
    non_negative: bool = True
    random_negatives: int = 40
    hard_negatives: int = 8  # from each member
    triples: int = 50_000  # at most so many are asked about
    # Of "paper": so many heads and as many tails replace those of each triple, and count as the 100
    # of the authors' code.  0 is what the paper says: one false triple for each, head or tail.
    corruptions: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ConfigError(f"unknown method {self.method!r}; there are {', '.join(METHODS)}")
        if not self.fit:
            object.__setattr__(self, "fit", "train" if self.method == "paper" else "valid")
        if self.fit not in ("valid", "train"):
            raise ConfigError(f"fit must be valid or train, not {self.fit!r}")
        limits = {
            "shrinkage": 0,
            "random_negatives": 1,
            "hard_negatives": 0,
            "triples": 1,
            "corruptions": 0,
            "seed": 0,
        }
        for name, least in limits.items():
            if not least <= getattr(self, name) < float("inf"):
                raise ConfigError(f"{name} must be at least {least}, not {getattr(self, name)}")
        self._check_applies()

    def _check_applies(self) -> None:
        """An option that the method would not look at is a mistake."""
        known = _COMMON | _OWN.get(self.method, set())
        for field in fields(self):
            if field.name not in known and getattr(self, field.name) != field.default:
                having = [method for method in METHODS if field.name in _OWN.get(method, set())]
                raise ConfigError(
                    f"the method {self.method!r} has no option {field.name}; it belongs to "
                    f"{' and '.join(having)}"
                )

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for TOML and JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "EnsembleConfig":
        """The opposite of ``to_dict``; options of version 0.1.0 are understood."""
        former = {"random_rivals": "random_negatives", "hard_rivals": "hard_negatives"}
        values = {former.get(name, name): value for name, value in values.items()}
        if values.get("method") == "paper":
            values = {"corruptions": 0, **values}  # as before there was this option
        unknown = set(values) - {field.name for field in fields(cls)}
        if unknown:
            raise ConfigError(f"unknown ensemble option {sorted(unknown)[0]!r}")
        return cls(**values)


assert set(get_args(Method)) == set(METHODS)


def fit_ensemble(
    members: Sequence[Scorer],
    graph: Graph,
    config: EnsembleConfig,
    progress: Progress | None = None,
    triples: np.ndarray | None = None,
) -> MixtureScorer:
    """The scorer that ``config.method`` makes of ``members``.

    With ``triples``, "stack" is fitted on these of the split only.
    """
    check_members(members)
    if triples is not None and config.method != "stack":
        raise ConfigError(f"the method {config.method!r} is fitted on a whole split")
    if not len(graph.split(config.fit)):
        other = "train" if config.fit == "valid" else "valid"
        raise DataError(
            f"graph {graph.name!r} has no {config.fit} triples to fit an ensemble on; fit it on "
            f"{other} (--fit {other})"
        )
    if config.method == "platt":
        return MixtureScorer(members, *_platt(members, graph, config))
    if config.method == "stack":
        return MixtureScorer(members, _stack(members, graph, config, progress, triples))
    methods = {"paper": _paper, "best": _best, "average": _average}
    return MixtureScorer(members, methods[config.method](members, graph, config, progress))


def _stack(
    members: Sequence[Scorer],
    graph: Graph,
    config: EnsembleConfig,
    progress: Progress | None,
    triples: np.ndarray | None,
) -> Weights:
    def weights(comparisons: Comparisons) -> np.ndarray:
        return fit_ranking_weights(
            comparisons,
            len(graph.relations),
            shrinkage=config.shrinkage,
            non_negative=config.non_negative,
            seed=config.seed,
        )

    asked = _ask(members, graph, config, progress, triples)
    if config.sides:
        with ThreadPoolExecutor(len(asked)) as pool:  # the kernels run without Python's lock
            return dict(zip(SIDES, pool.map(weights, asked), strict=True))
    return dict.fromkeys(SIDES, weights(_joined(asked)))


def _ask(
    members: Sequence[Scorer],
    graph: Graph,
    config: EnsembleConfig,
    progress: Progress | None,
    triples: np.ndarray | None = None,
) -> list[Comparisons]:
    triples = graph.split(config.fit) if triples is None else triples
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
    """Logistic regression on each relation's triples and corrupted ones.

    Features are the members' scores, brought to [0, 1] within the relation.
    """
    from sklearn.linear_model import LogisticRegression

    weights = np.full((len(graph.relations), len(members)), np.nan)
    widest = np.full(len(members), 1e-12)
    for examples in _examples_by_relation(members, graph, config):
        if progress:
            progress(examples.number)
        x, y = examples.features, examples.labels
        low, spread = x.min(axis=0), np.ptp(x, axis=0)
        widest = np.maximum(widest, spread)
        spread[spread == 0] = 1
        if y.any() and not y.all():
            model = LogisticRegression(solver="liblinear", random_state=config.seed)
            fitted = model.fit((x - low) / spread, y, examples.weights).coef_[0]
            weights[examples.relation] = fitted / spread
    weights = np.where(np.isnan(weights), 1 / widest, weights)  # where there is nothing to learn
    return dict.fromkeys(SIDES, weights)


@dataclass(frozen=True)
class _Examples:
    """What the weights of one relation are fitted on."""

    relation: int
    features: np.ndarray  # each member's scores
    labels: np.ndarray  # whether a triple is true
    weights: np.ndarray | None  # how often an example counts
    number: int  # of questions, for progress


def _examples_by_relation(
    members: Sequence[Scorer], graph: Graph, config: EnsembleConfig
) -> Iterator[_Examples]:
    if config.corruptions:
        yield from _examples_of_the_code(members, graph, config)
        return
    features, labels, relations = _examples(members, graph, config)
    order = np.argsort(relations, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(relations[order])) + 1):
        number = 2 * int(labels[rows].sum())
        yield _Examples(int(relations[rows[0]]), features[rows], labels[rows], None, number)


def _examples_of_the_code(
    members: Sequence[Scorer], graph: Graph, config: EnsembleConfig
) -> Iterator[_Examples]:
    """As the code of Wang et al. (2018) has them, but for how many negatives are drawn.

    Each triple stands there 200 times, beside 100 triples with another head and 100 with another
    tail, none of which is of the training split.  Here fewer are drawn and count for more.
    """
    true = graph.split(config.fit)
    true = true[np.argsort(true[:, 1], kind="stable")]
    for k, rows in enumerate(np.split(true, np.flatnonzero(np.diff(true[:, 1])) + 1)):
        features, labels = [], []
        for side in SIDES:
            false = sample_negatives(
                graph,
                rows,
                [config.seed, Stream.ENSEMBLE_NEGATIVES, k, SIDES.index(side)],
                count=config.corruptions,
                sides=side,
                known=("train",),
                plausible=False,
            )
            triples = np.concatenate([rows, false])
            features.append(np.stack([_side_scores(m, side, triples) for m in members], axis=1))
            labels.append(np.arange(len(triples)) < len(rows))
        x, y = np.concatenate(features).astype(np.float64), np.concatenate(labels)
        if not np.isfinite(x).all():
            raise DataError("an ensemble is fitted on finite scores; here some score is not")
        weights = np.where(y, _REPEATS, _REPEATS / config.corruptions)
        yield _Examples(int(rows[0, 1]), x, y, weights, 2 * len(rows))


def _side_scores(member: Scorer, side: Side, triples: np.ndarray) -> np.ndarray:
    """The score of each triple as an answer to the question for its ``side``."""
    given, answer = COLUMNS[side]
    order = np.argsort(triples[:, given], kind="stable")  # so that a question is asked once
    scores = np.empty(len(triples), dtype=member.dtype)
    for start in range(0, len(order), _EXAMPLES):
        rows = order[start : start + _EXAMPLES]
        part = triples[rows]
        asked, place = np.unique(part[:, given], return_inverse=True)
        queries = member.queries(side, asked, np.full_like(asked, part[0, 1]))
        if member.is_product:
            found = member.form.pair_scores(queries[place], member.candidates[part[:, answer]])
        else:
            found = member.query_scores(queries)[place, part[:, answer]]
        scores[rows] = found
    return scores


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


def fit_platt(scores: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """The weight and offset that make ``scores`` log-odds of ``labels`` (Platt, 1999)."""
    from sklearn.linear_model import LogisticRegression

    scale = max(scores.std(), 1e-12)
    model = LogisticRegression(C=1e6).fit(scores[:, None] / scale, labels)
    return float(model.coef_[0, 0]) / scale, float(model.intercept_[0])


def _platt(
    members: Sequence[Scorer], graph: Graph, config: EnsembleConfig
) -> tuple[Weights, np.ndarray]:
    """For each member the weight and offset that make its scores log-odds, in all relations."""
    features, labels, _ = _examples(members, graph, config)
    weights, offsets = zip(*(fit_platt(column, labels) for column in features.T), strict=True)
    return dict.fromkeys(SIDES, np.tile(weights, (len(graph.relations), 1))), np.array(offsets)


# -- what stacking is fitted on: questions, their answers and some negatives -----------------------


def ask_members(
    members: Sequence[Scorer],
    triples: np.ndarray,
    known: Mapping[str, KnownAnswers],
    side: Side,
    *,
    random_negatives: int,
    hard_negatives: int,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Comparisons:
    """Hide one side of each triple; let each member name its hardest negatives, and draw some.

    Known answers are no negatives.
    """
    dtype = np.result_type(*(member.dtype for member in members))

    def scores(given: np.ndarray, relations: np.ndarray) -> np.ndarray:
        found = np.empty((len(members), len(given), members[0].n_entities), dtype=dtype)
        for member, block in zip(members, found, strict=True):
            member.query_scores(member.queries(side, given, relations), block)
        return found

    return compare_answers(
        scores,
        (len(members), members[0].n_entities, dtype.itemsize),
        triples,
        known,
        side,
        random_negatives=random_negatives,
        hard_negatives=hard_negatives,
        seed=seed,
        progress=progress,
    )


def compare_answers(
    scores: Callable[[np.ndarray, np.ndarray], np.ndarray],
    sizes: tuple[int, int, int],
    triples: np.ndarray,
    known: Mapping[str, KnownAnswers],
    side: Side,
    *,
    random_negatives: int,
    hard_negatives: int,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Comparisons:
    """The answers of questions beside the hardest negatives of each feature, and random ones.

    ``scores(given, relations)`` has the values of all features, questions and entities; ``sizes``
    are the numbers of features and entities, and the bytes of a value.
    """
    given, answer = COLUMNS[side]
    features, n, itemsize = sizes
    negatives = random_negatives + hard_negatives * features
    gaps = np.empty((len(triples), negatives, features), dtype=np.float32)
    start, stop = known[side].spans(triples[:, given], triples[:, 1])
    threads = cores()
    size = max(1, _BYTES // (itemsize * n * features))
    blocks = iter(question_blocks(triples[:, [given, 1]], size, threads))

    def work() -> None:
        for rows, asked, place in blocks:
            _fill_gaps(
                scores(*asked.T),
                place,
                triples[rows, answer],
                known[side].answers,
                start[rows],
                stop[rows],
                random_negatives,
                hard_negatives,
                seeds(seed, Stream.ENSEMBLE_DRAWS, int(rows[0])).generate_state(1, np.uint64)[0],
                rows,
                gaps,
            )
            if progress:
                progress(len(rows))

    with single_threaded_blas(), ThreadPoolExecutor(threads) as pool:
        for job in [pool.submit(work) for _ in range(threads)]:
            job.result()
    log_counts = np.zeros(negatives, dtype=np.float32)
    log_counts[:random_negatives] = np.log(max(1.0, n / max(1, random_negatives)))
    return Comparisons(triples[:, 1], gaps, log_counts)


@kernel
def _fill_gaps(
    scores, place, answers, known, start, stop, random_negatives, hard_negatives, seed, rows, gaps
):
    """gaps[rows[i], j, m] = score of negative j − score of the answer, by member m.

    The scores of question i stand in line place[i].

    A negative that is not to be found, because all entities are answers, is the answer itself.
    """
    members, _, n = scores.shape
    random = np.array([seed], dtype=np.uint64)
    barred = np.zeros(n, dtype=np.bool_)
    best = np.empty(max(1, hard_negatives), dtype=np.int64)
    for i in range(answers.shape[0]):
        answer, line = answers[i], place[i]
        barred[answer] = True
        for k in range(start[i], stop[i]):
            barred[known[k]] = True
        row = rows[i]
        for j in range(random_negatives):
            other, tries = draw(random, n), 0
            while barred[other] and tries < TRIES:
                other, tries = draw(random, n), tries + 1
            if barred[other]:
                other = answer
            for m in range(members):
                gaps[row, j, m] = scores[m, line, other] - scores[m, line, answer]
        for member in range(members):
            found = _find_best(scores[member, line], barred, best[:hard_negatives])
            for j in range(hard_negatives):
                other = best[j] if j < found else answer
                column = random_negatives + member * hard_negatives + j
                for m in range(members):
                    gaps[row, column, m] = scores[m, line, other] - scores[m, line, answer]
                if j < found:
                    barred[other] = True  # the next member names others
        # All that this question has barred is free again.
        barred[:] = False


@kernel
def _find_best(row, barred, best):
    """Fill ``best`` with the places of the largest entries that are free, and count them."""
    found = 0
    for j in range(row.shape[0]):
        if found == best.shape[0] and (found == 0 or not row[j] > row[best[found - 1]]):
            continue
        if barred[j]:
            continue
        place = found if found < best.shape[0] else found - 1
        found = place + 1
        while place > 0 and row[best[place - 1]] < row[j]:
            best[place] = best[place - 1]
            place -= 1
        best[place] = j
    return found
