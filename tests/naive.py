"""Slow, obvious references.  This file imports nothing from bilink."""

import numpy as np


def score(model, h, r, t):
    """The paper's formulas, on the paper's parameters (HolE: real vectors)."""
    d = len(h)
    if model == "rescal":
        return sum(h[i] * r[i * d + j] * t[j] for i in range(d) for j in range(d))
    if model == "distmult":
        return sum(h[k] * r[k] * t[k] for k in range(d))
    if model == "complex":
        h, r, t = (x[: d // 2] + 1j * x[d // 2 :] for x in (h, r, t))
        return sum(h[k] * r[k] * np.conj(t[k]) for k in range(d // 2)).real
    if model == "hole":
        return sum(r[k] * sum(h[i] * t[(k + i) % d] for i in range(d)) for k in range(d))
    if model == "transe":
        return -sum((h[k] + r[k] - t[k]) ** 2 for k in range(d))
    if model == "transe-l1":
        return -sum(abs(h[k] + r[k] - t[k]) for k in range(d))
    if model == "cp":
        return sum(h[k] * r[k] * t[d // 2 + k] for k in range(d // 2))
    if model == "simple":
        return (
            sum(
                h[k] * r[k] * t[d // 2 + k] + t[k] * r[d // 2 + k] * h[d // 2 + k]
                for k in range(d // 2)
            )
            / 2
        )
    if model == "analogy":
        n = d - 2 * (d // 4)
        return score("distmult", h[:n], r[:n], t[:n]) + score("complex", h[n:], r[n:], t[n:])
    if model == "rotate":
        h, t = (x[: d // 2] + 1j * x[d // 2 :] for x in (h, t))
        return -sum(abs(h[k] * np.exp(1j * r[k]) - t[k]) ** 2 for k in range(d // 2))
    if model == "quate":
        h, r, t = (quaternions(x) for x in (h, r, t))
        products = (np.conj(t[k]).T @ h[k] @ r[k] for k in range(d // 4))
        return sum(np.trace(product).real / 2 for product in products)
    return score_of_several_forms(model, h, r, t)


def score_of_several_forms(model, h, r, t):
    """The models that are no bilinear form."""
    d = len(h)
    if model == "transh":
        translation, normal = r[:d], r[d:] / np.linalg.norm(r[d:])
        translation = translation - (normal @ translation) * normal  # in the plane
        h, t = (x - (normal @ x) * normal for x in (h, t))
        return -(np.linalg.norm(h + translation - t) ** 2)
    if model == "transr":
        matrix = r[d:].reshape(d, d)
        return -(np.linalg.norm(matrix @ h + r[:d] - matrix @ t) ** 2)
    if model == "transg":
        chances = np.exp(r[-4:]) / np.exp(r[-4:]).sum()
        gaps = [h + r[m * d : (m + 1) * d] - t for m in range(4)]
        return np.log(sum(p * np.exp(-(gap @ gap)) for p, gap in zip(chances, gaps, strict=True)))
    if model == "ntn":
        matrices, vectors = np.split(r[: 4 * d * (d + 2)], [4 * d * d])
        constants, weights = np.split(r[4 * d * (d + 2) :], 2)
        total = 0
        for i in range(4):
            inner = h @ matrices.reshape(4, d, d)[i] @ t + constants[i]
            inner += vectors.reshape(4, 2 * d)[i] @ np.concatenate([h, t])
            total += weights[i] * np.tanh(inner)
        return total
    raise ValueError(model)


def quaternions(x):
    """Numbers in four quarters (real, i, j, k) → quaternions as complex 2 × 2 matrices."""
    a, b, c, e = np.split(x, 4)
    return np.moveaxis(np.array([[a + 1j * b, c + 1j * e], [-c + 1j * e, a - 1j * b]]), 2, 0)


def rank(scores, answer, known, ties):
    """The rank of ``answer``, where other known answers are no rivals."""
    rivals = [s for e, s in enumerate(scores) if e != answer and e not in known]
    above = sum(s > scores[answer] for s in rivals)
    level = sum(s == scores[answer] for s in rivals)
    worth = {"optimistic": 0, "realistic": 0.5, "pessimistic": 1}[ties]
    return 1 + above + worth * level, 1 + len(rivals)


def answers(triples, side, given, relation):
    """All entities that complete (given, relation) in ``triples``."""
    if side == "head":
        return {h for h, r, t in triples if (r, t) == (relation, given)}
    return {t for h, r, t in triples if (h, r) == (given, relation)}


def pair_loss(loss, margin, positive, negative):
    """Loss of one positive and one negative score."""

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    if loss == "margin":
        return max(0.0, margin + negative - positive)
    if loss == "sigmoid-margin":
        return max(0.0, margin + sigmoid(negative) - sigmoid(positive))
    return np.log1p(np.exp(-positive)) + np.log1p(np.exp(negative))


def correct(scores, labels, threshold):
    """How many labels are right if what scores above the threshold is called true."""
    return sum((score > threshold) == label for score, label in zip(scores, labels, strict=True))


def cuts(scores):
    """A threshold below all scores, between any two that differ, and above all."""
    levels = sorted(set(scores))
    return [levels[0] - 1, *((a + b) / 2 for a, b in zip(levels, levels[1:])), levels[-1] + 1]  # noqa: B905, RUF007


def confusion_metrics(labels, called):
    """Accuracy, precision, recall and F1 by their definitions; 0 where there is nothing."""
    pairs = list(zip(labels, called, strict=True))
    hits = pairs.count((True, True))
    precision = hits / called.count(True) if any(called) else 0
    recall = hits / labels.count(True) if any(labels) else 0
    return {
        "accuracy": sum(a == b for a, b in pairs) / len(pairs),
        "precision": precision,
        "recall": recall,
        "f1": 2 * precision * recall / (precision + recall) if hits else 0,
    }


def calibration_error(probabilities, truths, bins):
    """The expected calibration error of distinct probabilities, in bins of equally many."""
    pairs = sorted(zip(probabilities, truths, strict=True))
    size = len(pairs) // bins
    total = 0.0
    for i in range(0, len(pairs), size):
        part = pairs[i : i + size]
        total += abs(sum(p for p, _ in part) - sum(y for _, y in part))
    return total / len(pairs)


def best_pairs(score, n, k, left_out, loops):
    """The k best (score, head, tail) of all pairs; equal scores by ascending head, then tail."""
    pairs = [(h, t) for h in range(n) for t in range(n)]
    allowed = [(h, t) for h, t in pairs if (h, t) not in left_out and (loops or h != t)]
    return sorted(((score(h, t), h, t) for h, t in allowed), key=lambda x: (-x[0], *x[1:]))[:k]


def numeric_gradient(loss, array, step=1e-6):
    """The slopes of ``loss()`` in each number of ``array``, by central differences."""
    gradient = np.zeros_like(array)
    for index in np.ndindex(array.shape):
        kept = array[index]
        array[index] = kept + step
        up = loss()
        array[index] = kept - step
        gradient[index] = (up - loss()) / (2 * step)
        array[index] = kept
    return gradient


def sgd_step(model, loss, margin, rate, penalties, entities, relations, positive, negative):
    """The rows of a model after a step on a pair, in the parameters of its paper.

    ``penalties`` are those of the entities and of the relation that the pair touches.
    """

    def value():
        scores = [score(model, entities[h], relations[r], entities[t]) for h, r, t in pair]
        return pair_loss(loss, margin, *scores)

    pair = (positive, negative)
    gradients = [numeric_gradient(value, array) for array in (entities, relations)]
    entities, relations = entities.copy(), relations.copy()
    touched = sorted({e for h, _, t in pair for e in (h, t)})
    gradients[0][touched] += penalties[0] * entities[touched]
    gradients[1][positive[1]] += penalties[1] * relations[positive[1]]
    return entities - rate * gradients[0], relations - rate * gradients[1]


def two_steps_of_transe(entities, relations, squares, rate, epsilon, positive, negative):
    """Adagrad on the distance of a true triple, then on minus that of a false one; then the ball.

    ``squares`` are the sums of squared gradients.  All arrays are changed.
    """

    def move(row, squared, gradient):
        squared += gradient**2
        row -= rate * gradient / np.sqrt(squared + epsilon)

    for sign, (h, r, t) in ((1, positive), (-1, negative)):
        gradient = sign * 2 * (entities[h] + relations[r] - entities[t])
        move(entities[h], squares[0][h], gradient)
        move(relations[r], squares[1][r], gradient)
        move(entities[t], squares[0][t], -gradient)
    for row in (relations[positive[1]], *(entities[e] for e in {*positive[::2], *negative[::2]})):
        row /= max(1, np.linalg.norm(row))


def convolution(triples, given, matrices, itself, by_relation):
    """A layer of R-GCN without σ: h'_i = Σ_r Σ_j h_j W_r / c + h_i W_0, for vectors as rows.

    ``matrices`` are those of the relations and, behind them, of their inverses; c is the number of
    edges that reach an entity, or of those of the same relation.
    """
    n, k = len(given), len(matrices) // 2
    edges = [(h, r, t) for h, r, t in triples] + [(t, r + k, h) for h, r, t in triples]
    out = given @ itself
    for j, r, i in edges:
        others = [e for e in edges if e[2] == i and (e[1] == r or not by_relation)]
        out[i] += given[j] @ matrices[r] / len(others)
    assert out.shape == (n, itself.shape[1])
    return out
