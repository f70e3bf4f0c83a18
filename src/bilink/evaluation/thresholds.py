"""Thresholds: from which score on a triple is called true.

Scores must be comparable between relations, roughly at least, since relations with few examples
lean on all the others.  Larger than the threshold is true; equal scores are never separated.
"""

import numpy as np

PRIOR = 10.0  # found on halves of FB15K's validation split; anything from 3 to 100 is as good


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


def groups(relations: np.ndarray) -> list[np.ndarray]:
    """The rows of each relation that occurs."""
    order = np.argsort(relations, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(relations[order])) + 1) if len(order) else []
