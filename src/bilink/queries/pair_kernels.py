"""The loops over scores of the pair search (``pairs``, ``pair_scans``): which pairs are kept.

The best pairs so far of a thread are a heap with its worst on top; ``bar`` is the score that all
threads know to be reached by as many pairs as are wanted.
"""

import numpy as np

from bilink._jit import kernel, kernel_function, reduction
from bilink.models.scorer import exact_score


@reduction
def _product(row, column):
    """⟨b, b′⟩ of two rows of bytes, exactly."""
    total = np.float32(0)
    for k in range(row.shape[0]):
        total += np.float32(row[k]) * np.float32(column[k])
    return total


@kernel_function
def _contains(keys, key):
    """Whether sorted ``keys`` hold ``key``."""
    place = np.searchsorted(keys, key)
    return place < keys.shape[0] and keys[place] == key


@kernel_function
def _keep(score, key, bar, heap_scores, heap_keys):
    """Put a pair in the place of the worst of a heap (which has its worst on top), if better."""
    if score < heap_scores[0] or (score == heap_scores[0] and key > heap_keys[0]):
        return
    k = heap_scores.shape[0]
    at = 0
    while 2 * at + 1 < k:
        child = 2 * at + 1
        right = child + 1
        if right < k and (
            heap_scores[right] < heap_scores[child]
            or (heap_scores[right] == heap_scores[child] and heap_keys[right] > heap_keys[child])
        ):
            child = right
        if heap_scores[child] > score or (heap_scores[child] == score and heap_keys[child] < key):
            break
        heap_scores[at], heap_keys[at] = heap_scores[child], heap_keys[child]
        at = child
    heap_scores[at], heap_keys[at] = score, key
    bar[0] = max(bar[0], heap_scores[0])


@kernel
def follow(
    pairs,
    rows,
    columns,
    limits,
    queries,
    candidates,
    places,
    heads,
    tails,
    leave_out,
    loops,
    bar,
    heap_scores,
    heap_keys,
):
    """Look closer at some pairs of a tile; keep those that are among the best so far."""
    n = candidates.shape[0]
    for pair in pairs:
        i, j = pair // columns.shape[0], pair % columns.shape[0]
        if _product(rows[i], columns[j]) < limits[i]:
            continue
        head, tail = heads[places[i]], tails[j]
        key = head * n + tail
        if (head == tail and not loops) or _contains(leave_out, key):
            continue
        score = exact_score(queries[places[i]], candidates[tail])
        if score >= bar[0]:
            _keep(score, key, bar, heap_scores, heap_keys)


@kernel
def take_scores(
    scores,
    queries,
    candidates,
    tolerances,
    is_product,
    heads,
    tails,
    leave_out,
    loops,
    bar,
    heap_scores,
    heap_keys,
):
    """Look at all scores of some heads; keep the pairs that are among the best so far."""
    n = candidates.shape[0]
    for i in range(scores.shape[0]):
        for tail in tails:
            score = np.float64(scores[i, tail])
            if not score >= bar[0] - tolerances[i]:
                continue
            key = heads[i] * n + tail
            if (heads[i] == tail and not loops) or _contains(leave_out, key):
                continue
            if is_product:
                score = exact_score(queries[i], candidates[tail])
            if score >= bar[0]:
                _keep(score, key, bar, heap_scores, heap_keys)
