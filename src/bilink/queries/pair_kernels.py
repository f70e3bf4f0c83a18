"""The loops over scores of the pair search (``pairs``, ``pair_scans``): which pairs are kept.

The best pairs so far of a thread are a heap with its worst on top; ``bar`` is the score that all
threads know to be reached by as many pairs as are wanted.
"""

import numpy as np

from bilink._jit import kernel, reduction, verb
from bilink.queries.bounds import STEP
from bilink.ranking.ranks import exact_score

SEGMENT = 64  # pairs that are looked at together


@reduction
def _count_alive(scores, rests, rest, limit):
    """How many pairs of a segment may reach the limit; counted in the scores' own type."""
    one, zero = scores.dtype.type(1), scores.dtype.type(0)
    alive = zero
    for j in range(scores.shape[0]):
        alive += one if scores[j] + rest * rests[j] >= limit else zero
    return alive


@reduction
def _partial(query, candidate, start, stop):
    """Σ qₖ cₖ over start ≤ k < stop."""
    total = query[start] * candidate[start]
    for k in range(start + 1, stop):
        total += query[k] * candidate[k]
    return total


@verb
def _may_reach(score, level, q, c, q_rests, c_rests, i, j, limit):
    """Whether a pair still may reach the limit as more and more of its coordinates are seen."""
    last = q_rests.shape[1] - 1
    while level < last:
        after = min(level + 2, last)
        score += _partial(q[i], c[j], level * STEP, after * STEP)
        if score + q_rests[i, after] * c_rests[j, after] < limit:
            return False
        level = after
    return True


@verb
def _contains(keys, key):
    """Whether sorted ``keys`` hold ``key``."""
    place = np.searchsorted(keys, key)
    return place < keys.shape[0] and keys[place] == key


@verb
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
    scores,
    level,
    q,
    c,
    q_rests,
    c_rests,
    slack,
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
    """Look at a tile of partial scores; keep the pairs that are among the best so far."""
    n = candidates.shape[0]
    rests = c_rests[:, level].copy()
    for i in range(scores.shape[0]):
        rest = q_rests[i, level]
        for start in range(0, scores.shape[1], SEGMENT):
            stop = min(scores.shape[1], start + SEGMENT)
            least = bar[0] - slack[i]
            limit = scores.dtype.type(least - abs(least) * 1e-6)
            if _count_alive(scores[i, start:stop], rests[start:stop], rest, limit) == 0:
                continue
            for j in range(start, stop):
                if not scores[i, j] + rest * rests[j] >= limit:
                    continue
                if not _may_reach(scores[i, j], level, q, c, q_rests, c_rests, i, j, limit):
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
