"""The probability that a triple is true, given all evidence: one number, wherever it is shown.

It is learnt where it is used: among what would be shown.  *Candidates* are the best answers, none
of them known, to the questions that the graph suggests.  *Positives* are validation facts, which
the scorer has not seen, judged as if nobody knew them.  Which candidates are true is not known, but
this is: of the true ones there are as many as facts are missing, and their evidence is spread as
that of the validation facts, which are a sample of what can be missing.  So with v(e) positives and
N(e) candidates at evidence e, and m missing facts for V validation facts,

    q(e) = (m / V) · v(e) / N(e)        is the chance that a candidate is true.

A logistic regression q = σ(w·e) is fitted by the likelihood of being a positive rather than a
candidate, c·q / (1 + c·q) with c = V / m, and a penalty on w that cross-validation chooses.

That is the chance of a fact that nobody asked about.  People ask where something is missing, so a
second logistic regression p = σ(v·e) is fitted on answers to questions about validation facts, none
of which is known: a validation fact is right, and any other candidate with its chance q.  p is the
probability that is shown, and that orders answers.

What people rejected is false: it counts so among the answers, and its probability is the lowest.

How many facts are missing is not known either.  It is given: the share ``missing``.  The evidence
may contradict it: no candidate is more than certain, so the chances of all may add up to less.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from bilink._random import Stream, generator
from bilink._text import counted
from bilink._threads import single_threaded_blas
from bilink.data.graph import COLUMNS, Graph
from bilink.data.index import known_answers
from bilink.errors import ConfigError, DataError
from bilink.evaluation.evidence import FEATURES, Evidence, Places
from bilink.evaluation.reliability import BINS, reliability
from bilink.models.scorer import SIDES, Scorer

MISSING = 0.1  # share of all facts that the graph lacks, unless told otherwise
SHARES = (0.01, 0.03, 0.1, 0.2, 0.4)  # for which weights are fitted; others lie between them
LISTED = 20  # candidates of a place
PLACES = 1_000  # of each side, at most
POSITIVES = 5_000  # at most
LEAST = 20  # positives
ASKED = 500  # questions of each side that the second regression is fitted on
QUESTIONS = 2_000  # of each side, by which probabilities are judged
_PENALTIES = (0.3, 3.0, 30.0)
_FOLDS = 3
_ASKED_PENALTY = 10.0  # on the weights of the second regression
_STEPS = 30  # of a fit
_NEAR = 1e-4  # a gain of likelihood that ends it
_FARTHEST = 30.0  # log-odds


@dataclass(frozen=True, eq=False)
class Examples:
    """Positives and candidates with their evidence."""

    positives: np.ndarray  # (n, features)
    candidates: np.ndarray  # (m, features)
    weights: np.ndarray  # how many candidates each one stands for
    place: np.ndarray  # of each candidate, the place that lists it
    asked: np.ndarray  # (l, features): answers to questions about validation facts
    right: np.ndarray  # bool, whether each of them is a validation fact
    wrong: np.ndarray  # bool, whether it was rejected
    shown: np.ndarray  # what each counts: the first answers are those that are looked at
    validation: int  # facts that were looked at
    known: int  # facts of the graph


def find_examples(evidence: Evidence, seed: int = 0) -> Examples:
    """Validation facts and candidates of one graph; an error if there are too few facts."""
    graph = evidence.graph
    random = generator(seed, Stream.CALIBRATION_QUERIES)
    facts = graph.valid[np.sort(random.permutation(len(graph.valid))[:POSITIVES])]
    found = evidence.features(facts)
    listed = np.zeros(len(facts), dtype=bool)
    for i in range(len(SIDES)):
        listed |= found[:, _rank_of(i)] >= -np.log(LISTED) - 1e-9
    if np.count_nonzero(listed) < LEAST:
        raise DataError(
            f"graph {graph.name!r} has {np.count_nonzero(listed)} validation facts among the best "
            f"answers; {LEAST} are needed to learn probabilities. More are held out with: "
            "bilink data split"
        )
    parts, places = [], 0
    for i, side in enumerate(SIDES):
        possible = evidence.places(side)
        count = len(possible.given)
        chosen = np.sort(random.permutation(count)[:PLACES])
        sample = Places(side, possible.given[chosen], possible.relations[chosen])
        lists = evidence.lists(sample, LISTED)
        own = evidence.features(lists.triples)
        # What both of its places list may be found twice, and then counts half each time.
        twice = own[:, _rank_of(1 - i)] >= -np.log(LISTED) - 1e-9
        weights = count / max(len(chosen), 1) * np.where(twice, 0.5, 1.0)
        parts.append((own, weights, lists.place + places))
        places += len(chosen)
    candidates, weights, place = (np.concatenate(part) for part in zip(*parts, strict=True))
    asked, right, wrong, shown = _asked(evidence, random)
    return Examples(
        positives=found[listed],
        candidates=candidates,
        weights=weights,
        place=place,
        asked=asked,
        right=right,
        wrong=wrong,
        shown=shown,
        validation=len(facts),
        known=evidence.known.count,
    )


def _asked(
    evidence: Evidence, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The answers to questions about validation facts, none of which is known; which are right.

    Then which of them were rejected, and what each counts.  An answer counts 1 / √rank.
    """
    graph = evidence.graph
    unknown = Evidence(evidence.scorer, replace(graph, valid=graph.valid[:0]))
    true = known_answers(graph, ("valid",))
    parts = []
    for side in SIDES:
        facts = graph.valid[random.permutation(len(graph.valid))[:ASKED]].astype(np.int64)
        places = Places(side, facts[:, COLUMNS[side][0]], facts[:, 1])
        lists = unknown.lists(places, LISTED)
        features, right = unknown.features(lists.triples), true.holds(lists.triples)
        wrong = evidence.rejected.holds(lists.triples)
        parts.append((features, right, wrong, np.exp(lists.log_rank / 2)))
    features, right, wrong, shown = (np.concatenate(part) for part in zip(*parts, strict=True))
    return features, right, wrong, shown * len(shown) / max(shown.sum(), 1e-12)


def _rank_of(side: int) -> int:
    """The feature that holds −log of the rank on a side."""
    return FEATURES.index(f"{SIDES[side]}: logarithm of the rank")


@dataclass(frozen=True, eq=False)
class Probability:
    """What turns evidence into probabilities."""

    fingerprint: str  # of the graph
    seed: int
    penalty: float
    positives: int  # validation facts that it was fitted on
    candidates: int
    mean: np.ndarray  # of each feature
    scale: np.ndarray
    shares: np.ndarray  # of missing facts
    weights: np.ndarray  # (shares, features)
    offsets: np.ndarray  # (shares,)
    features: tuple[str, ...] = FEATURES

    def __repr__(self) -> str:
        return f"Probability(learnt from {counted(self.positives, 'validation fact')})"

    def log_odds(self, features: np.ndarray, missing: float | None = None) -> np.ndarray:
        """Of each row of evidence; interpolated between the two nearest shares of missing facts."""
        share = check_missing(MISSING if missing is None else missing)
        x, knots = np.log(share / (1 - share)), np.log(self.shares / (1 - self.shares))
        i = int(np.clip(np.searchsorted(knots, x) - 1, 0, len(knots) - 2))
        part = float((x - knots[i]) / (knots[i + 1] - knots[i]))
        weights = (1 - part) * self.weights[i] + part * self.weights[i + 1]
        offset = (1 - part) * self.offsets[i] + part * self.offsets[i + 1]
        odds = ((np.asarray(features) - self.mean) / self.scale) @ weights + offset
        return np.clip(odds, -_FARTHEST, _FARTHEST)

    def to_dict(self) -> dict[str, Any]:
        """As it stands in ``probability.json``."""
        found = {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in vars(self).items()
        }
        return found | {"features": list(self.features)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Probability":
        """The opposite of ``to_dict``; a ValueError, KeyError or TypeError says what is wrong."""
        found = dict(values)
        for name in ("mean", "scale", "shares", "weights", "offsets"):
            found[name] = np.array(found[name], dtype=np.float64)
            if not np.isfinite(found[name]).all():
                raise ValueError(f"{name} has numbers that are not finite")
        found["features"] = tuple(found["features"])
        made = cls(**found)
        count, width = len(made.shares), len(FEATURES)
        shapes = (made.mean.shape, made.scale.shape, made.weights.shape, made.offsets.shape)
        if shapes != ((width,), (width,), (count, width), (count,)) or count < 2:
            raise ValueError("its tables do not fit each other")
        if made.features != FEATURES:
            raise ValueError("its features are not those of this version")
        if not ((made.scale > 0).all() and (np.diff(made.shares) > 0).all()):
            raise ValueError("a scale or a share is out of order")
        return made


def check_missing(missing: float) -> float:
    """The share of facts thought missing, if it is one."""
    if not isinstance(missing, Real) or not 0 < missing < 1:
        raise ConfigError(f"missing must be a share between 0 and 1, not {missing}")
    return missing


def fit_probability(
    scorer: Scorer, graph: Graph, *, evidence: Evidence | None = None, seed: int = 0
) -> Probability:
    """Learn from the validation split what the evidence for a fact is worth.

    All facts of the graph are known to it, as they are to whoever asks; those of the validation
    split are positives, each judged as if it were not known.
    """
    examples = find_examples(evidence or Evidence(scorer, graph), seed)
    with single_threaded_blas():  # the products are small: threads would wait for each other
        return _fit(examples, graph, seed)


def fitting_products(scorer: Scorer, graph: Graph) -> float:
    """About how many multiplications it takes to learn probabilities: each look at all entities.

    Facts and the answers that places list are looked at from both sides.
    """
    places = 2 * (min(PLACES, len(graph.entities)) + min(ASKED, len(graph.valid)))
    looks = 2 * min(POSITIVES, len(graph.valid)) + places * (1 + 2 * LISTED)
    return float(looks) * scorer.n_entities * scorer.width


def _fit(examples: Examples, graph: Graph, seed: int) -> Probability:
    mean = np.average(examples.candidates, axis=0, weights=examples.weights)
    spread = np.average((examples.candidates - mean) ** 2, axis=0, weights=examples.weights)
    scale = np.sqrt(spread) + 1e-9
    scale[spread < 1e-12] = 1.0
    data = _Data(
        _with_one((examples.positives - mean) / scale),
        _with_one((examples.candidates - mean) / scale),
        examples.weights,
    )
    penalty = _choose_penalty(data, examples, seed)
    answers = _with_one((examples.asked - mean) / scale)
    weights, offsets = [], []
    start = asked = np.zeros(data.positives.shape[1])
    for share in SHARES:
        missing = share / (1 - share) * examples.known
        start = data.fit(examples.validation / missing, penalty, start)
        chances = np.where(examples.wrong, 0.0, expit(answers @ start))
        right = np.where(examples.right, 1.0, chances)
        asked = _fit_asked(answers, right, examples.shown, asked)
        weights.append(asked[:-1])
        offsets.append(asked[-1])
    return Probability(
        fingerprint=graph.fingerprint,
        seed=seed,
        penalty=penalty,
        positives=len(data.positives),
        candidates=len(data.candidates),
        mean=mean,
        scale=scale,
        shares=np.array(SHARES),
        weights=np.array(weights),
        offsets=np.array(offsets),
    )


def _with_one(features: np.ndarray) -> np.ndarray:
    return np.hstack([features, np.ones((len(features), 1))])


@dataclass(frozen=True, eq=False)
class _Data:
    positives: np.ndarray
    candidates: np.ndarray
    weights: np.ndarray  # of candidates

    def part(self, positives: np.ndarray, candidates: np.ndarray) -> "_Data":
        return _Data(
            self.positives[positives], self.candidates[candidates], self.weights[candidates]
        )

    def loss(self, w: np.ndarray, c: float) -> float:
        """−log-likelihood: of log(c q / (1 + c q)) and −log(1 + c q), q = σ(x·w)."""
        x, y = self.positives @ w, self.candidates @ w
        value = -(np.log(c) + log_expit(x) - np.log1p(c * expit(x))).sum()
        return value + (self.weights * np.log1p(c * expit(y))).sum()

    def fit(self, c: float, penalty: float, start: np.ndarray) -> np.ndarray:
        """The weights that are most likely, with a penalty on all but the constant.

        Fisher scoring: the log-odds of being a positive are log(c q), so a row counts
        s (1 − s) (1 − q)² with s = c q / (1 + c q).
        """
        free = np.append(np.full(len(start) - 1, penalty), 1e-6)
        w = start
        value = self.loss(w, c) + (free * w * w).sum() / 2
        damping = 1e-3
        for _ in range(_STEPS):
            p, q = expit(self.positives @ w), expit(self.candidates @ w)
            s, t = c * p / (1 + c * p), c * q / (1 + c * q)
            gradient = self.candidates.T @ (self.weights * t * (1 - q)) + free * w
            gradient -= self.positives.T @ ((1 - s) * (1 - p))
            rows = self.weights * t * (1 - t) * (1 - q) ** 2
            information = (self.candidates * rows[:, None]).T @ self.candidates
            rows = s * (1 - s) * (1 - p) ** 2
            information += (self.positives * rows[:, None]).T @ self.positives
            information[np.diag_indices_from(information)] += free
            while damping < 1e9:
                damped = information + damping * np.diag(np.diag(information))
                tried = w - np.linalg.solve(damped, gradient)
                new = self.loss(tried, c) + (free * tried * tried).sum() / 2
                if new <= value:
                    break
                damping *= 10
            else:
                return w
            gain, w, value, damping = value - new, tried, new, damping / 10
            if gain < _NEAR:
                break
        return w


def _choose_penalty(data: _Data, examples: Examples, seed: int) -> float:
    """The penalty whose weights give held-out examples the best likelihood."""
    random = generator(seed, Stream.CALIBRATION_FOLDS)
    positives = random.integers(0, _FOLDS, len(data.positives))
    candidates = random.integers(0, _FOLDS, examples.place.max(initial=0) + 1)[examples.place]
    c = examples.validation / (MISSING / (1 - MISSING) * examples.known)
    losses = dict.fromkeys(_PENALTIES, 0.0)
    for i in range(_FOLDS):
        seen = data.part(positives != i, candidates != i)
        held_out = data.part(positives == i, candidates == i)
        w = np.zeros(data.positives.shape[1])
        for penalty in reversed(_PENALTIES):
            w = seen.fit(c, penalty, w)
            losses[penalty] += held_out.loss(w, c)
    return min(losses, key=lambda penalty: losses[penalty])


def _fit_asked(
    answers: np.ndarray, right: np.ndarray, shown: np.ndarray, start: np.ndarray
) -> np.ndarray:
    """Weights for the chance that an answer is right, where someone asks."""
    free = np.append(np.full(len(start) - 1, _ASKED_PENALTY), 1e-6)

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        odds = answers @ w
        value = -(shown * (right * log_expit(odds) + (1 - right) * log_expit(-odds))).sum()
        gradient = answers.T @ (shown * (expit(odds) - right)) + free * w
        return value + (free * w * w).sum() / 2, gradient

    return minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 300}).x


@dataclass(frozen=True, eq=False)
class Judge:
    """Evidence and what it is worth: judges triples of one graph."""

    evidence: Evidence
    probability: Probability

    def __call__(
        self, triples: np.ndarray, missing: float | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Of each triple of ids, the log-odds that order it, and the probability that is shown.

        They are the same whatever else is asked: a triple has one probability.
        """
        features = self.evidence.features(triples, repeatable=True)
        odds = self.probability.log_odds(features, missing)
        odds[self.evidence.rejected.holds(np.asarray(triples).reshape(-1, 3))] = -_FARTHEST
        return odds, expit(odds)


@dataclass(frozen=True, eq=False)
class Asked:
    """The best answers to questions about held-out facts: what was promised, and what is true."""

    relations: np.ndarray
    probabilities: np.ndarray
    right: np.ndarray  # bool
    missing: float  # the share of facts that was held out

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        bins = min(BINS, max(1, len(self.right) // 30))
        found = reliability(self.probabilities, self.right, bins)
        return {
            "questions": len(self.right),
            "missing": self.missing,
            "right": float(self.right.mean()),
            "promised": float(self.probabilities.mean()),
            "ece": found.ece,
            "brier": found.brier,
            "log_loss": found.log_loss,
            "bins": [
                {"count": int(count), "predicted": float(said), "observed": float(true)}
                for count, said, true in zip(
                    found.counts, found.predicted, found.observed, strict=True
                )
            ],
        }


def ask_test(scorer: Scorer, graph: Graph, *, seed: int = 0) -> Asked:
    """Ask about the facts of the test split, with probabilities that were learnt without it.

    The best new answer of each question counts; it is right if it is a fact of the test split.
    """
    if not len(graph.test):
        raise DataError(f"graph {graph.name!r} has no test triples to judge probabilities by")
    hidden = replace(graph, test=graph.test[:0], negatives={})
    right = known_answers(graph, ("test",))
    evidence = Evidence(scorer, hidden)
    judge = Judge(evidence, fit_probability(scorer, hidden, evidence=evidence, seed=seed))
    missing = right.count / max(right.count + evidence.known.count, 1)
    random = generator(seed, Stream.CALIBRATION_QUERIES)
    facts = graph.test[random.permutation(len(graph.test))[:QUESTIONS]]
    parts = []
    for side in SIDES:
        places = Places(side, *(facts[:, i].astype(np.int64) for i in (COLUMNS[side][0], 1)))
        lists = evidence.lists(places, LISTED)
        odds, chances = judge(lists.triples, missing)
        order = np.lexsort((-odds, lists.place))
        best = order[np.flatnonzero(np.diff(lists.place[order], prepend=-1))]
        triples = lists.triples[best]
        parts.append((triples[:, 1], chances[best], right.holds(triples)))
    relations, said, true = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Asked(relations, said, true, missing)
