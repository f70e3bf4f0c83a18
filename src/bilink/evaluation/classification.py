"""Triple classification: tell true triples from false ones (Socher et al., 2013).

Every held-out triple is joined by a false one, which the files give or which is made by replacing
the head or the tail.  A triple is called true where its score is larger than the threshold of its
relation; thresholds are chosen on the validation split.

Scores of different relations cannot be compared.  They are standardised by the mean and the
standard deviation of what the model gives to training triples of the relation and as many false
ones, so that a threshold, and an area under a curve, of several relations means something.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bilink._text import html_table
from bilink.data.graph import SPLITS, Graph
from bilink.data.negatives import random_numbers, sample_negatives
from bilink.errors import ConfigError, DataError
from bilink.evaluation.metrics import BINARY_METRICS, binary_metrics, groups

Score = Callable[[np.ndarray], np.ndarray]  # triples of ids (n, 3) → scores; higher is more likely

CHOSEN_ON = "valid"
PRIOR = 10.0  # found on halves of FB15K's validation split; anything from 3 to 100 is as good
GIVEN, BY_POSITION, ANY_ENTITY = "given", "sampled by position", "sampled from all entities"
EXAMPLES = 100  # training triples of a relation that its scores are standardised by
BLOCK = 1 << 16  # triples to score at once


@dataclass(frozen=True, eq=False)
class Classification:
    """What was called true and what false, and the protocol under which it was."""

    split: str
    negatives: str  # "given", "sampled by position" or "sampled from all entities"
    threshold_negatives: str  # the same of the split that the thresholds were chosen on
    seed: int
    prior: float
    fingerprint: str  # of the graph
    unseen: int  # triples with an entity that training never saw; they are kept
    seconds: float
    triples: np.ndarray
    labels: np.ndarray  # bool
    scores: np.ndarray
    margins: np.ndarray  # (score − threshold) / deviation; what is above 0 is called true
    thresholds: np.ndarray  # of each relation
    examples: np.ndarray  # of each relation: true and false triples that chose its threshold
    relation_names: tuple[str, ...]

    def __repr__(self) -> str:
        figures = ", ".join(f"{name} {value:.3f}" for name, value in self._shown().items())
        return f"Classification({len(self.labels):,} triples of {self.split}: {figures})"

    def _repr_html_(self) -> str:
        found = self._shown()
        title = f"{len(self.labels):,} triples of {self.split}"
        note = f"negatives {self.negatives}; graph {self.fingerprint}"
        return html_table(tuple(found), [list(found.values())], title=title, note=note)

    def _shown(self) -> dict[str, float]:
        names = ("accuracy", "precision", "recall", "f1", "auc")
        found = self.metrics()
        return {name: found[name] for name in names}

    @property
    def predicted(self) -> np.ndarray:
        """Whether each triple is called true."""
        return self.margins > 0

    def metrics(self, where: np.ndarray | None = None) -> dict[str, float]:
        """Metrics of all triples, or of those that ``where`` selects.

        The curves of AUC and average precision rank triples by their margin.  NaN is what is not
        defined, as the AUC of true triples alone.
        """
        chosen = slice(None) if where is None else where
        return binary_metrics(self.labels[chosen], self.margins[chosen])

    @cached_property
    def _per_relation(self) -> list[dict[str, Any]]:
        rows = []
        for where in sorted(groups(self.triples[:, 1]), key=len, reverse=True):
            r = self.triples[where[0], 1]
            positives = int(self.labels[where].sum())
            rows.append(
                {
                    "relation": self.relation_names[r],
                    "positives": positives,
                    "negatives": len(where) - positives,
                    "threshold": float(self.thresholds[r]),
                    "threshold_examples": int(self.examples[r]),
                    **self.metrics(where),
                }
            )
        return rows

    def per_relation(self) -> list[dict[str, Any]]:
        """One row of metrics per relation that occurs, most frequent first."""
        return [dict(row) for row in self._per_relation]

    def macro(self) -> dict[str, float]:
        """The mean over relations of their metrics, as far as these are defined."""
        found = {}
        for name in BINARY_METRICS:
            values = [row[name] for row in self._per_relation if not math.isnan(row[name])]
            found[name] = float(np.mean(values)) if values else float("nan")
        return found

    @property
    def protocol(self) -> str:
        """How it was found, in words: results with the same words can be compared."""
        return (
            f"{self.split}, triple classification, negatives {self.negatives}, seed {self.seed}, "
            f"thresholds with prior {self.prior:g}, negatives {self.threshold_negatives}"
        )

    def to_dict(self) -> dict[str, Any]:
        """The result as ``bilink classify --json`` prints it; null is what is not defined."""
        positives = int(self.labels.sum())
        return {
            "protocol": self.protocol,
            "split": self.split,
            "negatives": self.negatives,
            "seed": self.seed,
            "thresholds": {
                "chosen_on": CHOSEN_ON,
                "negatives": self.threshold_negatives,
                "prior": self.prior,
            },
            "true_triples": positives,
            "false_triples": len(self.labels) - positives,
            "triples_with_unseen_entities": self.unseen,
            "graph": self.fingerprint,
            "seconds": round(self.seconds, 3),
            **_defined(self.metrics()),
            "macro": _defined(self.macro()),
            "relations": [_defined(row) for row in self._per_relation],
        }


def classify_triples(
    score: Score,
    graph: Graph,
    split: str = "test",
    seed: int = 0,
    *,
    plausible: bool = True,
    prior: float = PRIOR,
) -> Classification:
    """Tell the true triples of ``split`` from false ones with ``score``, such as ``model.score``.

    ``seed`` is for the negatives, which are drawn where the graph has none of its own; they are
    ``plausible``, or made with any entity, which is a far easier task.  ``prior``
    says how much the thresholds of relations lean on that of all (see ``choose_thresholds``); 0
    leaves each relation to itself, as in Wang et al. (2018).
    """
    if not 0 <= prior < math.inf:
        raise ConfigError(f"prior must be at least 0 and finite, not {prior}")
    for name in (CHOSEN_ON, split):
        if not len(graph.split(name)):
            raise DataError(
                f"graph {graph.name!r} has no {name} triples"
                + (", on which thresholds are chosen" if name == CHOSEN_ON else " to classify")
            )
    started = time.perf_counter()
    means, deviations = score_standards(score, graph, seed)

    def standardised(scores: np.ndarray, triples: np.ndarray) -> np.ndarray:
        return (scores - means[triples[:, 1]]) / deviations[triples[:, 1]]

    triples, labels, threshold_origin = labelled_triples(graph, CHOSEN_ON, seed, plausible)
    examples = np.bincount(triples[:, 1], minlength=len(means))
    scores = standardised(finite_scores(score, triples), triples)
    chosen = choose_thresholds(scores, labels, triples[:, 1], len(means), prior)
    triples, labels, origin = labelled_triples(graph, split, seed, plausible)
    scores = finite_scores(score, triples)
    return Classification(
        split=split,
        negatives=origin,
        threshold_negatives=threshold_origin,
        seed=seed,
        prior=prior,
        fingerprint=graph.fingerprint,
        unseen=int(np.isin(triples[:, [0, 2]], graph.unseen_entities).any(axis=1).sum()),
        seconds=time.perf_counter() - started,
        triples=triples,
        labels=labels,
        scores=scores,
        margins=standardised(scores, triples) - chosen[triples[:, 1]],
        thresholds=means + deviations * chosen,
        examples=examples,
        relation_names=graph.relations.names,
    )


def labelled_triples(
    graph: Graph, split: str, seed: int = 0, plausible: bool = True
) -> tuple[np.ndarray, np.ndarray, str]:
    """The true triples of ``split``, then the false ones; their labels; where these come from.

    The triples of test are not looked at when negatives are drawn for the validation split, since
    these choose thresholds.
    """
    positives = graph.split(split)
    if split in graph.negatives:
        negatives, origin = graph.negatives[split], GIVEN
    else:
        known = ("train", "valid") if split == "valid" else SPLITS
        stream = [seed, SPLITS.index(split)]
        negatives = sample_negatives(graph, positives, stream, known=known, plausible=plausible)
        origin = BY_POSITION if plausible else ANY_ENTITY
    labels = np.arange(len(positives) + len(negatives)) < len(positives)
    return np.concatenate([positives, negatives]), labels, origin


def finite_scores(score: Score, triples: np.ndarray) -> np.ndarray:
    """The scores of all triples, in double precision, a block at a time."""
    scores = np.empty(len(triples))
    for start in range(0, len(triples), BLOCK):
        scores[start : start + BLOCK] = score(triples[start : start + BLOCK])
    if not np.isfinite(scores).all():
        raise DataError(
            "the model gives scores that are not finite, so no threshold would mean anything; "
            "train it with a smaller learning rate or a constraint"
        )
    return scores


def score_standards(score: Score, graph: Graph, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the scores of training triples and false ones, by relation.

    A relation that training does not have gets those of all.
    """
    random = random_numbers([seed, len(SPLITS)])
    order = random.permutation(len(graph.train))
    order = order[np.argsort(graph.train[order, 1], kind="stable")]
    relations = graph.train[order, 1]
    place = np.arange(len(order)) - np.searchsorted(relations, relations)
    true = graph.train[order[place < EXAMPLES]]
    false = sample_negatives(graph, true, [seed, len(SPLITS)], known=("train", "valid"))
    triples = np.concatenate([true, false])
    scores, k = finite_scores(score, triples), len(graph.relations)
    counts = np.bincount(triples[:, 1], minlength=k)
    seen = counts > 0
    means = np.where(
        seen, np.bincount(triples[:, 1], scores, k) / np.maximum(counts, 1), scores.mean()
    )
    squares = np.bincount(triples[:, 1], (scores - means[triples[:, 1]]) ** 2, k)
    deviations = np.where(seen, np.sqrt(squares / np.maximum(counts, 1)), scores.std())
    rounding = 1e-12 * np.abs(means)  # a constant scorer has no deviation but that of its mean
    return means, np.where(deviations > rounding, deviations, 1.0)


def _defined(row: dict[str, Any]) -> dict[str, Any]:
    """``row`` with None for NaN, as JSON wants it."""
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in row.items()
    }


# -- thresholds: from which score on a triple is called true --------------------------------------
# Scores must be comparable between relations, roughly at least, since relations with few examples
# lean on all the others.  Larger than the threshold is true; equal scores are never separated.


def choose_thresholds(
    scores: np.ndarray,
    labels: np.ndarray,
    relations: np.ndarray,
    n_relations: int,
    prior: float = PRIOR,
) -> np.ndarray:
    """The threshold of each relation: it gets most of the relation's own examples right.

    The examples of all relations together count as ``prior`` more examples of each, so that a
    relation without any gets the threshold that is best for all, one with few does not follow
    chance, and of equally good cuts the one is taken that is better for all.  With a prior of 0
    only the last is left of it.  Every cut between two different scores is tried.
    """
    values, correct = accuracy_curve(scores, labels)
    shares = correct / len(scores)
    cuts = cut_points(values)
    thresholds = np.full(n_relations, cuts[shares.argmax()])
    for where in groups(relations):
        own_values, own_correct = accuracy_curve(scores[where], labels[where])
        # The cuts of all fall into the gaps between own scores; own_correct is constant in a gap.
        gaps = np.append(0, np.searchsorted(values, own_values) + 1)
        best = np.maximum.reduceat(shares, gaps)
        total = own_correct + prior * best
        gap = max(np.flatnonzero(total == total.max()), key=lambda i: best[i])
        inside = slice(gaps[gap], gaps[gap + 1] if gap + 1 < len(gaps) else None)
        thresholds[relations[where[0]]] = cuts[inside][shares[inside].argmax()]
    return thresholds


def accuracy_curve(scores: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different scores in order, and how many labels each cut gets right.

    Cut 0 is below all scores, cut i right above the i-th of them.  When a cut moves over a score,
    the true triples that have it are lost and the false ones won.
    """
    values, place = np.unique(scores, return_inverse=True)
    gains = np.bincount(place, np.where(labels, -1, 1), len(values)).astype(np.int64)
    return values, np.count_nonzero(labels) + np.append(0, gains.cumsum())


def cut_points(values: np.ndarray) -> np.ndarray:
    """A number for each cut: halfway between two values, or one beyond the first or the last."""
    low, high = values[:-1], values[1:]
    middle = low / 2 + high / 2
    middle = np.where((low <= middle) & (middle < high), middle, low)  # no number lies between
    first = min(values[0] - 1, np.nextafter(values[0], -np.inf))
    return np.concatenate([[first], middle, [values[-1] + 1]])
