"""The loops of the pair search: over rows, over the scores of pairs, and the heap of the best."""

from typing import NamedTuple

import numpy as np

from bilink._jit import kernel, kernel_function
from bilink.models.form import exact_score

STEP = 16  # coordinates; products can be cut off after any multiple of it
_SEGMENT = 64  # scores that are compared together, and looked at singly where one is high enough


class Selection(NamedTuple):
    """Which pairs count."""

    leave_out: np.ndarray  # int64, sorted: pairs that do not, as head · n_entities + tail
    loops: bool  # whether pairs of an entity and itself do
    threshold: np.ndarray  # float64, one number: what as many pairs as wanted are known to reach


class Heap(NamedTuple):
    """The best pairs of one thread, the worst of them first."""

    scores: np.ndarray  # float64
    keys: np.ndarray  # int64, head · n_entities + tail


@kernel
def change_axes(rows, places, order, weights, values, rests):
    """values[i, k] = rows[places[i], order[k]] · weights[k]; rests[i, l] = ‖values[i, l · STEP :]‖.

    The norms are those before the values are rounded to float32.
    """
    width = order.shape[0]
    for i in range(places.shape[0]):
        row, squares = rows[places[i]], 0.0
        for level in range(rests.shape[1] - 1, -1, -1):
            for k in range(level * STEP, min((level + 1) * STEP, width)):
                x = row[order[k]] * weights[k]
                values[i, k] = x
                squares += x * x
            rests[i, level] = np.sqrt(squares)


@kernel_function
def _any_reaches(scores, limit):
    """Whether one of some scores is ``limit`` or higher."""
    found = False
    for j in range(scores.shape[0]):
        found |= scores[j] >= limit
    return found


@kernel_function
def _contains(keys, key):
    """Whether sorted ``keys`` hold ``key``."""
    place = np.searchsorted(keys, key)
    return place < keys.shape[0] and keys[place] == key


@kernel_function
def _is_worse(heap, i, score, key):
    """Whether pair ``i`` of a heap stands behind another one: equal scores stand by key."""
    return heap.scores[i] < score or (heap.scores[i] == score and heap.keys[i] > key)


@kernel_function
def _push(heap, score, key):
    """Put a pair in the place of the worst of a heap, if it is better."""
    if not _is_worse(heap, 0, score, key):
        return
    k = heap.scores.shape[0]
    at = 0
    while 2 * at + 1 < k:
        child = 2 * at + 1
        right = child + 1
        if right < k and _is_worse(heap, right, heap.scores[child], heap.keys[child]):
            child = right
        if not _is_worse(heap, child, score, key):
            break
        heap.scores[at], heap.keys[at] = heap.scores[child], heap.keys[child]
        at = child
    heap.scores[at], heap.keys[at] = score, key


@kernel
def keep_best(
    scores, unit, tolerances, queries, candidates, heads, tails, is_product, selection, heap
):
    """Keep the pairs of a block that are among the best so far.

    The score of (heads[i], tails[j]) is at most unit · (scores[i, j] + tolerances[i]).  That of a
    product is ⟨queries[i], candidates[tails[j]]⟩ in double precision, any other scores[i, j].
    """
    n, threshold = candidates.shape[0], selection.threshold
    for i in range(scores.shape[0]):
        for start in range(0, scores.shape[1], _SEGMENT):
            stop = min(start + _SEGMENT, scores.shape[1])
            # Rounding a limit to the scores' type cannot lift it above a score that reaches it.
            limit = scores.dtype.type(threshold[0] / unit - tolerances[i])
            if not _any_reaches(scores[i, start:stop], limit):
                continue
            for j in range(start, stop):
                if not scores[i, j] >= limit:
                    continue
                score = np.float64(scores[i, j])
                if is_product:
                    score = exact_score(queries[i], candidates[tails[j]])
                if score < threshold[0] or (heads[i] == tails[j] and not selection.loops):
                    continue
                key = heads[i] * n + tails[j]
                if not _contains(selection.leave_out, key):
                    _push(heap, score, key)
                    threshold[0] = max(threshold[0], heap.scores[0])
