"""From scores to probabilities: for each relation, the log-odds are a line in the score.

    log-odds(h, r, t) = weight_r · score(h, r, t) + offset_r       (Platt, 1999, for each relation)

Weights and offsets maximise the likelihood of the validation triples and as many false ones, less
λ/2 of their squared distance from those of all relations together; a relation without validation
triples gets the common ones.  Scores are brought to one scale before (``score_standards``), so that
relations can learn from each other.  That is the regression of ``regression``, where each example
has one wrong answer: a false triple is compared with 0, and 0 with a true one.

A weight is never negative, so that probabilities rank the answers of a question as scores do.

What share of the triples asked about is true cannot be learnt from false triples of our own making.
It is given: the ``prior``.

Two things are asked.  *Facts*: is this triple true?  The false ones are then made of true ones, by
entities that fit the position.  *Answers*: is this one of the best answers to a question right?
The false ones are then the scorer's own best wrong answers, which are far harder to tell.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from scipy.special import expit, logit

from bilink._random import Stream, generator
from bilink.data.graph import Graph
from bilink.data.index import KnownAnswers, known_answers
from bilink.errors import ConfigError, DataError
from bilink.evaluation.classification import (
    Score,
    finite_scores,
    labelled_triples,
    score_standards,
)
from bilink.evaluation.regression import Comparisons, fit_weights
from bilink.evaluation.reliability import BINS, chance_ece, ece_within, reliability
from bilink.models.scorer import SIDES, Scorer, Side

Asked = Literal["facts", "answers"]
BEST = 10  # answers to a question
QUESTIONS = 5_000  # of each side, at most
OWN_ANSWERS = "the best wrong answers"
_BYTES = 32 * 2**20  # of scores at a time
Method = Literal["platt", "isotonic", "global"]
METHODS: dict[str, str] = {
    "platt": "a line for each relation, shrunk towards that of all",
    "isotonic": "the same, bent by a monotone curve of all relations; makes ties, so not for ranks",
    "global": "one line for all relations (Platt, 1999)",
}
PRIOR = 0.5  # of facts
FITTED_ON = "valid"
_FOLDS = 5
_LARGEST = 30.0  # log-odds of the isotonic curve, whose probabilities may be 0 or 1


@dataclass(frozen=True, eq=False)
class Examples:
    """Triples with their scores, and whether they are true."""

    triples: np.ndarray
    scores: np.ndarray  # float64
    labels: np.ndarray  # bool
    n_relations: int
    negatives: str  # where the false ones come from

    @property
    def relations(self) -> np.ndarray:
        """Of each triple."""
        return self.triples[:, 1]

    @property
    def log_odds(self) -> float:
        """Logarithm of how many are true for one that is false."""
        true = int(np.count_nonzero(self.labels))
        return float(np.log(true / (len(self.labels) - true)))

    def part(self, where: np.ndarray) -> "Examples":
        """Those that ``where`` selects."""
        columns = (self.triples[where], self.scores[where], self.labels[where])
        return Examples(*columns, self.n_relations, self.negatives)

    def with_scores(self, scores: np.ndarray) -> "Examples":
        """The same with other scores."""
        return replace(self, scores=scores)


def find_examples(
    scorer: Scorer | Score, graph: Graph, split: str, asked: str = "facts", seed: int = 0
) -> Examples:
    """True and false triples of ``split``; an error if there are not both."""
    if asked == "facts":
        found = _facts(scorer.score if isinstance(scorer, Scorer) else scorer, graph, split, seed)
    elif asked != "answers":
        raise ConfigError(f"asked must be facts or answers, not {asked!r}")
    elif isinstance(scorer, Scorer):
        found = _answers(scorer, graph, split, seed)
    else:
        raise ConfigError("answers need a scorer; a function of triples does not find them")
    if found.labels.all() or not found.labels.any():
        missing = "false" if found.labels.any() else "right" if len(found.labels) else split
        raise DataError(
            f"graph {graph.name!r} has no {missing} triples to learn or test probabilities on"
            + ("" if len(found.labels) else "; make some with: bilink data split")
        )
    return found


def _facts(score: Score, graph: Graph, split: str, seed: int) -> Examples:
    triples, labels, origin = labelled_triples(graph, split, seed)
    return Examples(triples, finite_scores(score, triples), labels, len(graph.relations), origin)


def _answers(scorer: Scorer, graph: Graph, split: str, seed: int) -> Examples:
    """The best answers to the questions of ``split``, but for what is known before it."""
    before = ("train",) if split == "valid" else ("train", "valid")
    known, right = known_answers(graph, before), known_answers(graph, (split,))
    parts = []
    for side in SIDES:
        keys = right[side].keys  # each question once, however many right answers it has
        if len(keys) > QUESTIONS:
            random = generator(seed, Stream.CALIBRATION_QUERIES)
            keys = np.sort(random.choice(keys, QUESTIONS, replace=False))
        given, relations = np.divmod(keys, len(graph.relations))
        for part, block in scorer.blocks(side, given, relations, _BYTES):
            asked = given[part], relations[part]
            triples, scores = _best(block, graph, known[side], side, *asked)
            parts.append((triples, scores, right.holds(triples)))
    if not parts:
        return Examples(graph.train[:0], np.empty(0), np.empty(0, bool), 0, OWN_ANSWERS)
    triples, scores, labels = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Examples(triples, scores, labels, len(graph.relations), OWN_ANSWERS)


def _best(
    scores: np.ndarray,
    graph: Graph,
    known: KnownAnswers,
    side: Side,
    given: np.ndarray,
    relations: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The triples and scores of the best answers to each question, without those known."""
    start, stop = known.spans(given, relations)
    for row, i, j in zip(scores, start, stop, strict=True):
        row[known.answers[i:j]] = -np.inf
    loops = np.isin(relations, list(graph.reflexive_relations))
    scores[np.flatnonzero(~loops), given[~loops]] = -np.inf
    k = min(BEST, scores.shape[1])
    best = np.argpartition(scores, -k, axis=1)[:, -k:]
    found = np.take_along_axis(scores, best, axis=1)
    rows, places = np.nonzero(np.isfinite(found))
    columns = [given[rows], relations[rows], best[rows, places]]
    triples = np.stack(columns if side == "tail" else columns[::-1], axis=1).astype(np.int32)
    return triples, found[rows, places].astype(np.float64)


@dataclass(frozen=True, eq=False)
class Calibration:
    """What turns the scores of one scorer into probabilities."""

    method: Method
    asked: Asked  # "facts" or "answers"
    prior: float  # the share of true triples among those asked about
    seed: int
    negatives: str  # where the false triples came from
    fingerprint: str  # of the graph
    shrinkage: float
    weights: np.ndarray  # of each relation
    offsets: np.ndarray  # of each relation, for a prior of one half
    examples: np.ndarray  # of each relation: true and false triples that it was fitted on
    curve: tuple[np.ndarray, np.ndarray] | None = None  # isotonic: from log-odds to log-odds

    def log_odds(self, triples: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """log(p / (1 − p)) of each triple of ids, given its score."""
        relations = np.asarray(triples).reshape(-1, 3)[:, 1]
        odds = self.weights[relations] * np.asarray(scores, np.float64) + self.offsets[relations]
        if self.curve is not None:
            odds = np.interp(odds, *self.curve)
        return odds + logit(self.prior)

    def probabilities(self, triples: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """How likely each triple of ids is true, given its score."""
        return expit(self.log_odds(triples, scores))

    def with_prior(self, prior: float) -> "Calibration":
        """The same, were another share of what is asked true."""
        return replace(self, prior=_checked_prior(prior))

    def to_dict(self) -> dict[str, Any]:
        """As it stands in ``calibration.json``."""
        found = {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in vars(self).items()
        }
        return found | {"curve": self.curve and [part.tolist() for part in self.curve]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Calibration":
        """The opposite of ``to_dict``; a ValueError, KeyError or TypeError says what is wrong."""
        found = dict(values)
        if "slopes" in found:  # as version 0.1.0 called them
            found["weights"] = found.pop("slopes")
        for name, kind in (
            ("weights", np.float64),
            ("offsets", np.float64),
            ("examples", np.int64),
        ):
            found[name] = np.array(found[name], dtype=kind)
        if found["curve"] is not None:
            x, y = (np.array(part, dtype=np.float64) for part in found["curve"])
            found["curve"] = x, y
        made = cls(**found)
        arrays = [made.weights, made.offsets, *(made.curve or ())]
        if not all(array.ndim == 1 and np.isfinite(array).all() for array in arrays):
            raise ValueError("a weight, an offset or the curve is not a finite number")
        if not len(made.weights) == len(made.offsets) == len(made.examples):
            raise ValueError("weights, offsets and examples differ in number")
        _checked_prior(made.prior)
        return made


def fit_calibration(
    scorer: Scorer | Score,
    graph: Graph,
    *,
    asked: str = "facts",
    method: str = "platt",
    prior: float | None = None,
    shrinkage: float = 0.0,
    seed: int = 0,
) -> Calibration:
    """Learn on the validation split what the scores of ``scorer`` are worth.

    With ``asked="facts"`` it is asked of a triple whether it is true.  The false triples are those
    that the graph calls so, or one for each validation triple, made of entities seen in that
    position; ``scorer`` may then be any function of triples (n, 3) of ids.  With ``"answers"`` it
    is asked of one of the ten best answers to a question whether it is right.

    ``prior`` is the share of true triples among those that will be asked about: one half for facts
    unless given, what was found on valid for answers.  A ``shrinkage`` of 0 is chosen by
    cross-validation.
    """
    if method not in METHODS:
        raise ConfigError(f"unknown method {method!r}; there are {', '.join(METHODS)}")
    if prior is not None:
        _checked_prior(prior)
    examples = find_examples(scorer, graph, FITTED_ON, asked, seed)
    if prior is None:
        prior = PRIOR if asked == "facts" else float(examples.labels.mean())
    n_relations, curve = len(graph.relations), None
    if method == "global":
        line = fit_platt(examples.scores, examples.labels)
        weights, offsets = (np.full(n_relations, value) for value in line)
        shrinkage = 0.0
    else:
        score = scorer.score if isinstance(scorer, Scorer) else scorer
        means, deviations = score_standards(score, graph, seed)
        own = means[examples.relations], deviations[examples.relations]
        standard = examples.with_scores((examples.scores - own[0]) / own[1])
        lines, shrinkage = _fit(standard, shrinkage, seed)
        weights = lines[:, 0] / deviations
        offsets = lines[:, 1] - weights * means
        if method == "isotonic":
            curve = _fit_curve(standard, shrinkage, seed)
    if curve is None:
        offsets = offsets - examples.log_odds
    else:
        curve = curve[0], curve[1] - examples.log_odds
    return Calibration(
        method=method,  # type: ignore[arg-type]
        asked=asked,  # type: ignore[arg-type]
        prior=prior,
        seed=seed,
        negatives=examples.negatives,
        fingerprint=graph.fingerprint,
        shrinkage=shrinkage,
        weights=weights,
        offsets=offsets,
        examples=np.bincount(examples.relations, minlength=n_relations),
        curve=curve,
    )


def _checked_prior(prior: float) -> float:
    if not 0 < prior < 1:
        raise ConfigError(f"prior must be between 0 and 1, not {prior}")
    return prior


def _fit(examples: Examples, shrinkage: float, seed: int) -> tuple[np.ndarray, float]:
    """Weight and offset of each relation, and the λ that was chosen."""
    features = np.stack([examples.scores, np.ones(len(examples.scores))], axis=1)
    gaps = np.where(examples.labels[:, None], -features, features).astype(np.float32)
    fit = fit_weights(
        Comparisons(examples.relations, gaps[:, None, :], np.zeros(1, np.float32)),
        examples.n_relations,
        shrinkage=shrinkage,
        non_negative=(True, False),
        seed=seed,
    )
    return fit.weights, fit.shrinkage


def _fit_curve(examples: Examples, shrinkage: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A monotone curve through what came true of log-odds that were fitted on other examples."""
    from sklearn.isotonic import IsotonicRegression

    fold = generator(seed, Stream.CALIBRATION_FOLDS).integers(0, _FOLDS, len(examples.scores))
    odds = np.empty(len(examples.scores))
    for i in range(_FOLDS):
        weights, _ = _fit(examples.part(fold != i), shrinkage, seed)
        own = weights[examples.relations[fold == i]]
        odds[fold == i] = own[:, 0] * examples.scores[fold == i] + own[:, 1]
    model = IsotonicRegression(out_of_bounds="clip").fit(odds, examples.labels)
    x, y = model.X_thresholds_, model.y_thresholds_
    least = 1 / (len(odds) + 2)  # no finite number of examples makes anything certain
    return x, np.clip(logit(np.clip(y, least, 1 - least)), -_LARGEST, _LARGEST)


def fit_platt(scores: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """The weight and offset that make ``scores`` log-odds of ``labels`` (Platt, 1999)."""
    from sklearn.linear_model import LogisticRegression

    scale = max(scores.std(), 1e-12)
    model = LogisticRegression(C=1e6).fit(scores[:, None] / scale, labels)
    return float(model.coef_[0, 0]) / scale, float(model.intercept_[0])


def compare_calibrations(
    scorer: Scorer | Score, graph: Graph, calibration: Calibration, split: str = "test"
) -> dict[str, Any]:
    """How good its probabilities are on ``split``, beside the plain sigmoid and one line for all.

    Asked about are the triples of the split and as many false ones, so that the prior is one half,
    or the best answers to its questions.
    """
    examples = find_examples(scorer, graph, split, calibration.asked, calibration.seed)
    triples, scores, labels = examples.triples, examples.scores, examples.labels
    relations = examples.relations
    one_line = fit_calibration(
        scorer, graph, asked=calibration.asked, method="global", seed=calibration.seed
    )
    methods = {"sigmoid": expit(scores)}
    for each in (one_line, calibration):
        if calibration.asked == "facts":  # as many false triples as were made
            each = each.with_prior(float(labels.mean()))
        methods[each.method] = each.probabilities(triples, scores)
    found: dict[str, Any] = {}
    for name, p in methods.items():
        whole, within = chance_ece(p, relations, seed=calibration.seed)
        found[name] = {
            "ece_within_relations": ece_within(p, labels, relations),
            "ece_within_relations_by_chance": within,
            "ece_by_chance": whole,
            **reliability(p, labels, BINS).to_dict(),
        }
    return {
        "split": split,
        "fitted_on": FITTED_ON,
        "asked": calibration.asked,
        "negatives": examples.negatives,
        "seed": calibration.seed,
        "prior": float(labels.mean()),
        "true_triples": int(labels.sum()),
        "false_triples": int((~labels).sum()),
        "graph": graph.fingerprint,
        "method": calibration.method,
        "shrinkage": calibration.shrinkage,
        "relations_without_examples": int((calibration.examples == 0).sum()),
        "results": found,
    }


assert set(get_args(Method)) == set(METHODS)
