"""The softmax of rows of scores, and its slopes: what happens between two matrix products.

Each kernel works on a range of rows, so that threads share a batch without touching each other's.
"""

import numpy as np

from bilink._jit import kernel, reduction, verb
from bilink.models.inner import dot
from bilink.training.kernels import mix

LOWEST = np.float32(-87.0)  # exp of less is no normal number in single precision
NOWHERE = np.float32(1e-12)  # a squared distance whose root has no slope
LANES = 32
SEGMENT = 64  # candidates whose probabilities are added up together


# -- verbs on a row --------------------------------------------------------------------------------


@verb
def exp(x):
    """E to the power of x ≤ 0 in single precision, to 1e-7, in a form that compilers vectorise.

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


@verb
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


@verb
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


@verb
def sum_segments(row, sums):
    """The sum of a row, and those of its segments."""
    total = 0.0
    for s in range(sums.shape[0]):
        sums[s] = sum_row(row[s * SEGMENT : (s + 1) * SEGMENT])
        total += sums[s]
    return total


@verb
def keep_some(row, sums, grain, random, scale, factors, columns, values):
    """Round entries below ``grain`` to it or to nothing, with the same mean; returns how many stay.

    Those that stay are multiplied by ``scale`` and, if there are any, by their ``factors``.

    The entries lie end to end on a line, and one stays if one of the marks on it, ``grain`` apart
    from a random start, falls on its part.  So at most 1 + sum / grain stay.  ``sums`` are those of
    segments, so that segments without a mark are passed over.
    """
    mark = grain * (random >> np.uint64(11)) * 2.0**-53
    seen, kept = 0.0, 0
    for s in range(sums.shape[0]):
        if seen + sums[s] > mark:
            here = np.float64(seen)
            for j in range(s * SEGMENT, min((s + 1) * SEGMENT, row.shape[0])):
                here += row[j]
                if here > mark:
                    mark += grain * (np.floor((here - mark) / grain) + 1)
                    value = scale * max(row[j], np.float32(grain))
                    columns[kept] = j
                    values[kept] = value * factors[j] if factors.shape[0] else value
                    kept += 1
        seen += sums[s]
    return kept


@verb
def scale_row(row, factor):
    """row[j] *= factor."""
    for j in range(row.shape[0]):
        row[j] *= factor


@verb
def to_distances(row, distances):
    """Turn negative squared distances into negative distances; keep 1 / (2 distance) aside."""
    for j in range(row.shape[0]):
        distance = np.sqrt(max(-row[j], NOWHERE))
        row[j] = -distance
        distances[j] = np.float32(0.5) / distance


@verb
def times_row(row, factors):
    """row[j] *= factors[j]."""
    for j in range(row.shape[0]):
        row[j] *= factors[j]


@verb
def add_scaled(row, factor, out):
    """Out += factor · row."""
    for k in range(row.shape[0]):
        out[k] += factor * row[k]


# -- scores to slopes ------------------------------------------------------------------------------


@kernel
def softmax_slopes(first, last, scores, starts, answers, weights, smoothing, root, losses, beaten):
    """Turn rows of scores into the slopes of weights[i] times their cross-entropy, in place.

    The answers of row i stand from starts[i] on and share its target evenly.  ``smoothing`` of the
    target goes to all candidates.  With ``root``, scores are negative squared distances, the
    loss sees distances, and the slopes are those in the squared ones.  Notes the loss of each row
    and the share of its answers that are not the best candidate.
    """
    size = scores.shape[1]
    factors = np.empty(size if root else 0, dtype=scores.dtype)
    for i in range(first, last):
        row = scores[i]
        if root:
            to_distances(row, factors)
        top = max_row(row)
        count = starts[i + 1] - starts[i]
        share = (1 - smoothing) / count
        goal = smoothing * (sum_row(row) / size) if smoothing > 0 else 0.0
        worse = 0
        for a in range(starts[i], starts[i + 1]):
            goal += share * row[answers[a]]
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
        losses[i] = np.log(total) + top - goal
        beaten[i] = worse / count


@kernel
def rounded_slopes(
    first,
    last,
    scores,
    starts,
    answers,
    weights,
    grain,
    seed,
    root,
    columns,
    values,
    counts,
    answer_slopes,
    losses,
    beaten,
):
    """The slopes of ``softmax_slopes``, most of them rounded to 0; the answers' targets go aside.

    A probability below ``grain`` becomes ``grain`` with the chance that keeps its mean, and else
    nothing (``keep_some``).  Those that stay of row i are columns[i, :counts[i]], ascending.
    """
    size = scores.shape[1]
    factors = np.empty(size if root else 0, dtype=scores.dtype)
    sums = np.empty(-(-size // SEGMENT))
    for i in range(first, last):
        row = scores[i]
        if root:
            to_distances(row, factors)
        top = max_row(row)
        count = starts[i + 1] - starts[i]
        goal, worse = 0.0, 0
        share = np.float32(weights[i] / count)
        for a in range(starts[i], starts[i + 1]):
            goal += row[answers[a]] / count
            worse += row[answers[a]] < top
            answer_slopes[a] = -share * factors[answers[a]] if root else -share
        exp_row(row, top)
        total = sum_segments(row, sums)
        scale = np.float32(weights[i] / total)
        key = mix(seed + np.uint64(i))
        counts[i] = keep_some(row, sums, grain * total, key, scale, factors, columns[i], values[i])
        losses[i] = np.log(total) + top - goal
        beaten[i] = worse / count


@kernel
def pull_kept_queries(first, last, right, columns, values, counts, left_slopes):
    """left_slopes[i] = Σ values[i, k] · right[columns[i, k]]."""
    for i in range(first, last):
        left_slopes[i, :] = 0
        for k in range(counts[i]):
            add_scaled(right[columns[i, k]], values[i, k], left_slopes[i])


@kernel
def pull_kept_candidates(first, last, left, columns, values, counts, right_slopes):
    """right_slopes[columns[i, k]] += values[i, k] · left[i], for candidates from first to last."""
    for i in range(left.shape[0]):
        row = columns[i, : counts[i]]
        for k in range(np.searchsorted(row, first), np.searchsorted(row, last)):
            add_scaled(left[i], values[i, k], right_slopes[row[k]])


@kernel
def sampled_slopes(
    first,
    last,
    scores,
    left,
    own,
    starts,
    hits,
    weights,
    count,
    grain,
    seed,
    root,
    columns,
    values,
    counts,
    answer_slopes,
    losses,
    beaten,
):
    """Turn scores of shared negatives into slopes, in place; those of the answers go aside.

    The answers of row i are the rows of ``own`` from starts[i] on and share its target evenly.
    The sum over the wrong ones of ``count`` candidates is estimated by the sample's, scaled up; a
    negative that is answer a of its row, at hits[a], is left out (−1 where there is none).  With a
    ``grain``, the slopes are not in place but those of ``rounded_slopes``.
    """
    size = scores.shape[1]
    factors = np.empty(size if root else 0, dtype=scores.dtype)
    sums = np.empty(-(-size // SEGMENT))
    for i in range(first, last):
        row, answers = scores[i], answer_slopes[starts[i] : starts[i + 1]]
        if root:
            to_distances(row, factors)
        wrong = size
        for a in range(starts[i], starts[i + 1]):
            answer_slopes[a] = dot(left[i], own[a])
            if root:
                answer_slopes[a] = -np.sqrt(max(-answer_slopes[a], NOWHERE))
            if hits[a] >= 0:
                row[hits[a]] = -np.inf
                wrong -= 1
        best = max_row(row)
        top = max(best, max_row(answers))
        exp_row(row, top)
        scale = (count - len(answers)) / max(wrong, 1)
        total, goal, worse = 0.0, 0.0, 0
        for a in range(starts[i], starts[i + 1]):
            if hits[a] >= 0:
                row[hits[a]] = 0
            total += np.exp(answer_slopes[a] - top)
            goal += answer_slopes[a]
            worse += best > answer_slopes[a]
        total += scale * sum_segments(row, sums)
        factor = np.float32(weights[i] * scale / total)
        share = 1 / len(answers)
        for a in range(starts[i], starts[i + 1]):
            answer = answer_slopes[a]
            slope = np.float32(weights[i] * (np.exp(answer - top) / total - share))
            answer_slopes[a] = slope * (np.float32(-0.5) / answer) if root else slope
        if grain > 0:
            key = mix(seed + np.uint64(i))
            unit = grain * total / scale
            counts[i] = keep_some(row, sums, unit, key, factor, factors, columns[i], values[i])
        else:
            scale_row(row, factor)
            if root:
                times_row(row, factors)
        losses[i] = np.log(total) + top - goal * share
        beaten[i] = worse * share


@kernel
def pull_answers(first, last, left, own, starts, answer_slopes, left_slopes, own_slopes):
    """Add what the answers' slopes make of the left side; note what they make of the answers."""
    for i in range(first, last):
        for a in range(starts[i], starts[i + 1]):
            add_scaled(own[a], answer_slopes[a], left_slopes[i])
            own_slopes[a, :] = answer_slopes[a] * left[i]
