"""The softmax of rows of scores, and its gradients: what happens between two matrix products.

Each kernel works on a range of rows, so that threads share a batch without touching each other's.
"""

from typing import Any, NamedTuple

import numpy as np

from bilink._jit import kernel, kernel_function, mix, reduction
from bilink.models.form import dot

LOWEST = np.float32(-87.0)  # exp of less is no normal number in single precision
NOWHERE = np.float32(1e-12)  # a squared distance whose root has no derivative
LANES = 32
SEGMENT = 64  # candidates whose probabilities are added up together


# -- functions of a row ----------------------------------------------------------------------------


@kernel_function
def exp(x):
    """e to the power of x ≤ 0 in single precision, to 1e-7, in a form that compilers vectorise.

    The whole part of x / ln 2 goes into the exponent's bits, the rest through a polynomial (the
    coefficients are those of the Cephes library).
    """
    x = max(x, LOWEST)
    whole = np.floor(x * np.float32(1.44269504) + np.float32(0.5))
    rest = x - whole * np.float32(0.693359375)
    rest = rest - whole * np.float32(-2.12194440e-4)
    p = np.float32(1.9875691500e-4)
    p = p * rest + np.float32(1.3981999507e-3)
    p = p * rest + np.float32(8.3334519073e-3)
    p = p * rest + np.float32(4.1665795894e-2)
    p = p * rest + np.float32(1.6666665459e-1)
    p = p * rest + np.float32(5.0000001201e-1)
    p = p * rest * rest + rest + np.float32(1)
    bits = np.int32((np.int32(whole) + np.int32(127)) << np.int32(23))
    return p * bits.view(np.float32)


@kernel_function
def exp_row(row, top):
    """row[j] = exp(row[j] − top)."""
    for j in range(row.shape[0]):
        row[j] = exp(row[j] - top)


@reduction
def sum_row(row):
    """The sum of a row."""
    total = row[0]
    for j in range(1, row.shape[0]):
        total += row[j]
    return total


@kernel_function
def max_row(row):
    """The largest entry of a row, in lanes, since compilers do not reorder a comparison."""
    lanes = np.full(LANES, row[0])
    whole = row.shape[0] // LANES * LANES
    for start in range(0, whole, LANES):
        for k in range(LANES):
            lanes[k] = max(lanes[k], row[start + k])
    for j in range(whole, row.shape[0]):
        lanes[0] = max(lanes[0], row[j])
    top = lanes[0]
    for k in range(1, LANES):
        top = max(top, lanes[k])
    return top


@kernel_function
def sum_segments(row, sums):
    """The sum of a row, and those of its segments."""
    total = 0.0
    for s in range(sums.shape[0]):
        sums[s] = sum_row(row[s * SEGMENT : (s + 1) * SEGMENT])
        total += sums[s]
    return total


@kernel_function
def keep_some(row, sums, rounding, random, scale, factors, columns, values):
    """Round entries below ``rounding`` to it or to 0, with the same mean; returns how many stay.

    Those that stay are multiplied by ``scale`` and, if there are any, by their ``factors``.

    The entries lie end to end on a line, and one stays if one of the marks on it, ``rounding``
    apart from a random start, falls on its part.  So at most 1 + sum / rounding stay.  ``sums``
    are those of segments, so that segments without a mark are passed over.
    """
    mark = rounding * (random >> np.uint64(11)) * 2.0**-53
    seen, kept = 0.0, 0
    for s in range(sums.shape[0]):
        if seen + sums[s] > mark:
            here = np.float64(seen)
            for j in range(s * SEGMENT, min((s + 1) * SEGMENT, row.shape[0])):
                here += row[j]
                if here > mark:
                    mark += rounding * (np.floor((here - mark) / rounding) + 1)
                    value = scale * max(row[j], np.float32(rounding))
                    columns[kept] = j
                    values[kept] = value * factors[j] if factors.shape[0] else value
                    kept += 1
        seen += sums[s]
    return kept


@kernel_function
def scale_row(row, factor):
    """row[j] *= factor."""
    for j in range(row.shape[0]):
        row[j] *= factor


@kernel_function
def to_distances(row, distances):
    """Turn negative squared distances into negative distances; keep 1 / (2 distance) aside."""
    for j in range(row.shape[0]):
        distance = np.sqrt(max(-row[j], NOWHERE))
        row[j] = -distance
        distances[j] = np.float32(0.5) / distance


@kernel_function
def times_row(row, factors):
    """row[j] *= factors[j]."""
    for j in range(row.shape[0]):
        row[j] *= factors[j]


@kernel_function
def add_scaled(row, factor, out):
    """out += factor · row."""
    for k in range(row.shape[0]):
        out[k] += factor * row[k]


# -- scores to gradients ---------------------------------------------------------------------------


class Targets(NamedTuple):
    """The answers of some queries: those of row i stand from starts[i] on and share its target."""

    starts: Any
    answers: Any
    weights: Any  # of each query in the mean loss
    losses: Any  # of each query, written
    beaten: Any  # share of each query's answers that a wrong candidate beats, written


class Kept(NamedTuple):
    """Of a matrix of gradients, those of each row that were not rounded to 0."""

    columns: Any  # (rows, most), int32, ascending
    values: Any  # (rows, most), float32
    counts: Any  # (rows,): how many there are


@kernel
def softmax_gradients(first, last, scores, targets, smoothing, root):
    """Turn rows of scores into the gradients of weights[i] times their cross-entropy, in place.

    ``smoothing`` of the target goes to all candidates.  With ``root``, scores are negative squared
    distances, the loss sees distances, and the gradients are those in the squared ones.
    """
    size = scores.shape[1]
    starts, answers, weights = targets.starts, targets.answers, targets.weights
    factors = np.empty(size if root else 0, dtype=scores.dtype)
    for i in range(first, last):
        row = scores[i]
        if root:
            to_distances(row, factors)
        top = max_row(row)
        count = starts[i + 1] - starts[i]
        share = (1 - smoothing) / count
        target = smoothing * (sum_row(row) / size) if smoothing > 0 else 0.0
        worse = 0
        for a in range(starts[i], starts[i + 1]):
            target += share * row[answers[a]]
            worse += row[answers[a]] < top
        exp_row(row, top)
        total = sum_row(row)
        scale_row(row, np.float32(weights[i] / total))
        if smoothing > 0:
            even = np.float32(weights[i] * smoothing / size)
            for j in range(size):
                row[j] -= even
        for a in range(starts[i], starts[i + 1]):
            row[answers[a]] -= np.float32(weights[i] * share)
        if root:
            times_row(row, factors)
        targets.losses[i] = np.log(total) + top - target
        targets.beaten[i] = worse / count


@kernel
def rounded_gradients(first, last, scores, targets, rounding, seed, root, kept, answer_gradients):
    """The gradients of ``softmax_gradients``, most of them rounded to 0; those of targets go aside.

    A probability below ``rounding`` becomes ``rounding`` with the chance that keeps its mean, and
    else 0 (``keep_some``).
    """
    size = scores.shape[1]
    starts, answers, weights = targets.starts, targets.answers, targets.weights
    factors = np.empty(size if root else 0, dtype=scores.dtype)
    sums = np.empty(-(-size // SEGMENT))
    for i in range(first, last):
        row = scores[i]
        if root:
            to_distances(row, factors)
        top = max_row(row)
        count = starts[i + 1] - starts[i]
        target, worse = 0.0, 0
        share = np.float32(weights[i] / count)
        for a in range(starts[i], starts[i + 1]):
            target += row[answers[a]] / count
            worse += row[answers[a]] < top
            answer_gradients[a] = -share * factors[answers[a]] if root else -share
        exp_row(row, top)
        total = sum_segments(row, sums)
        scale = np.float32(weights[i] / total)
        key = mix(seed + np.uint64(i))
        columns, values = kept.columns[i], kept.values[i]
        kept.counts[i] = keep_some(
            row, sums, rounding * total, key, scale, factors, columns, values
        )
        targets.losses[i] = np.log(total) + top - target
        targets.beaten[i] = worse / count


@kernel
def kept_query_backward(first, last, candidates, kept, query_gradients):
    """query_gradients[i] = Σ values[i, k] · candidates[columns[i, k]]."""
    for i in range(first, last):
        query_gradients[i, :] = 0
        for k in range(kept.counts[i]):
            add_scaled(candidates[kept.columns[i, k]], kept.values[i, k], query_gradients[i])


@kernel
def kept_candidate_backward(first, last, queries, kept, candidate_gradients):
    """candidate_gradients[columns[i, k]] += values[i, k] · queries[i], of a range of candidates."""
    for i in range(queries.shape[0]):
        row = kept.columns[i, : kept.counts[i]]
        for k in range(np.searchsorted(row, first), np.searchsorted(row, last)):
            add_scaled(queries[i], kept.values[i, k], candidate_gradients[row[k]])


@kernel
def sampled_gradients(
    first, last, scores, queries, own, targets, hits, count, rounding, seed, root, kept
):
    """Turn scores of shared negatives into gradients, in place; those of the answers go aside.

    The answers of row i are the rows of ``own`` from starts[i] on; their gradients are written to
    ``targets.answers``.  The sum over the wrong ones of ``count`` candidates is estimated by the
    sample's, scaled up; a negative that is answer a of its row, at hits[a], is left out (−1 where
    there is none).  With ``rounding``, the gradients are not in place but in ``kept``.
    """
    size = scores.shape[1]
    starts, weights, gradients = targets.starts, targets.weights, targets.answers
    factors = np.empty(size if root else 0, dtype=scores.dtype)
    sums = np.empty(-(-size // SEGMENT))
    for i in range(first, last):
        row, answers = scores[i], gradients[starts[i] : starts[i + 1]]
        if root:
            to_distances(row, factors)
        wrong = size
        for a in range(starts[i], starts[i + 1]):
            gradients[a] = dot(queries[i], own[a])  # the score, to begin with
            if root:
                gradients[a] = -np.sqrt(max(-gradients[a], NOWHERE))
            if hits[a] >= 0:
                row[hits[a]] = -np.inf
                wrong -= 1
        best = max_row(row)
        top = max(best, max_row(answers))
        exp_row(row, top)
        scale = (count - len(answers)) / max(wrong, 1)
        total, target, worse = 0.0, 0.0, 0
        for a in range(starts[i], starts[i + 1]):
            if hits[a] >= 0:
                row[hits[a]] = 0
            total += np.exp(gradients[a] - top)
            target += gradients[a]
            worse += best > gradients[a]
        total += scale * sum_segments(row, sums)
        factor = np.float32(weights[i] * scale / total)
        share = 1 / len(answers)
        for a in range(starts[i], starts[i + 1]):
            answer = gradients[a]
            gradient = np.float32(weights[i] * (np.exp(answer - top) / total - share))
            gradients[a] = gradient * (np.float32(-0.5) / answer) if root else gradient
        if rounding > 0:
            key = mix(seed + np.uint64(i))
            unit = rounding * total / scale
            columns, values = kept.columns[i], kept.values[i]
            kept.counts[i] = keep_some(row, sums, unit, key, factor, factors, columns, values)
        else:
            scale_row(row, factor)
            if root:
                times_row(row, factors)
        targets.losses[i] = np.log(total) + top - target * share
        targets.beaten[i] = worse * share


@kernel
def answer_backward(
    first, last, queries, own, starts, answer_gradients, query_gradients, own_gradients
):
    """Carry the answers' gradients to the queries, to which they are added, and to the answers."""
    for i in range(first, last):
        for a in range(starts[i], starts[i + 1]):
            add_scaled(own[a], answer_gradients[a], query_gradients[i])
            own_gradients[a, :] = answer_gradients[a] * queries[i]


@kernel
def add_rows(gradients, rows, into):
    """into[rows[i]] += gradients[i]; a row may come more than once."""
    for i in range(rows.shape[0]):
        add_scaled(gradients[i], np.float32(1), into[rows[i]])
