"""The compiled step of the per-triple engine, as a template over a model's verbs.

One step takes a positive triple, hides its head or its tail, and compares the answer with random
other entities under the query that is left: s = inner(query, entity).  So all corruptions of one
side share a query, and the whole gradient passes through one pullback, whatever the model.
"""

from typing import Any

import numpy as np

from bilink._jit import verb
from bilink.models.inner import dot

HINGE, SIGMOID_HINGE, LOGISTIC = 0, 1, 2  # losses
ADAGRAD, SGD = 0, 1  # optimisers
FREE, BALL, SPHERE = 0, 1, 2  # constraints on entity rows

TRIES = 100  # draws before a corruption is given up: the relation may hold for every entity
EPSILON = np.float32(1e-10)


@verb
def mix(z):
    """The finalizer of splitmix64: a good hash of 64 bits."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@verb
def draw(state, n):
    """A random integer below n ≤ 2³¹; advances the one-element ``state`` (splitmix64)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    return np.int64(((mix(state[0]) >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))


@verb
def contains(table, key):
    """Whether the open-addressing hash table holds ``key`` (see ``negatives.known_table``)."""
    mask = np.uint64(table.shape[0] - 1)
    slot = mix(np.uint64(key)) & mask
    while table[slot] >= 0:
        if table[slot] == key:
            return True
        slot = (slot + np.uint64(1)) & mask
    return False


@verb
def sigmoid(x):
    """1 / (1 + exp(−x))."""
    return 1 / (1 + np.exp(-x))


@verb
def softplus(x):
    """log(1 + exp(x)), without overflow."""
    return max(x, 0) + np.log1p(np.exp(-abs(x)))


@verb
def move(row, state, slope, rate, penalty, optimizer):
    """One gradient step on a row, with ``penalty`` · row added to the slope (L2)."""
    if optimizer == ADAGRAD:
        for k in range(row.shape[0]):
            g = slope[k] + penalty * row[k]
            state[k] += g * g
            row[k] -= rate * g / np.sqrt(state[k] + EPSILON)
    else:
        for k in range(row.shape[0]):
            row[k] -= rate * (slope[k] + penalty * row[k])


@verb
def constrain(row, constraint):
    """Scale a row back into the unit ball, or onto the unit sphere."""
    if constraint == FREE:
        return
    total = dot(row, row)
    if total > 1 or (constraint == SPHERE and total > 0):
        scale = row.dtype.type(1 / np.sqrt(total))
        for k in range(row.shape[0]):
            row[k] *= scale


@verb
def draw_rival(random, known, pools, pool_starts, plausible, count, h, r, t, hide_head):
    """An entity to put in the hidden place, but for those that make a training triple; else −1.

    ``plausible`` of 2³¹ is the chance to draw from ``pools``, entities seen in that place.
    """
    n_relations = (pool_starts.shape[0] - 1) // 2
    for _ in range(TRIES):
        if plausible > 0 and draw(random, 1 << 31) < plausible:
            place = 2 * r if hide_head else 2 * r + 1
            first = pool_starts[place]
            rival = np.int64(pools[first + draw(random, pool_starts[place + 1] - first)])
        else:
            rival = draw(random, count)
        a, b = (rival, t) if hide_head else (h, rival)
        if not contains(known, (a * n_relations + r) * count + b):
            return rival
    return np.int64(-1)


@verb
def add_slope(rivals, slopes, active, rival, slope):
    """Note the slope of a rival, or add it to that of the same one; return how many there are."""
    for j in range(active):
        if rivals[j] == rival:
            slopes[j] += slope
            return active
    rivals[active] = rival
    slopes[active] = slope
    return active + 1


@verb
def compare(answer, rival, margin, loss):
    """Loss of a positive and a negative score, its slopes in both, and whether it is violated."""
    zero = answer * 0
    if loss == LOGISTIC:
        value = softplus(-answer) + softplus(rival)
        return value, -sigmoid(-answer), sigmoid(rival), not rival < answer
    if loss == HINGE:
        gap = margin + rival - answer
        if gap <= 0:  # false for NaN, which must show in the loss
            return zero, zero, zero, False
        return gap, zero - 1, zero + 1, True
    p, n = sigmoid(answer), sigmoid(rival)
    gap = margin + n - p
    if gap <= 0:
        return zero, zero, zero, False
    return gap, -p * (1 - p), n * (1 - n), True


# Placeholders that ``bind`` replaces by a model's verbs.
tail_query: Any = None
head_query: Any = None
tail_pullback: Any = None
head_pullback: Any = None
inner: Any = None
query_slope: Any = None
entity_slope: Any = None


def train_chunk(
    entities,
    relations,
    entity_state,
    relation_state,
    triples,
    order,
    known,
    pools,
    pool_starts,
    plausible,
    head_chance,
    both_sides,
    negatives,
    margin,
    loss,
    rate,
    entity_penalty,
    relation_penalty,
    optimizer,
    constraint,
    seed,
    totals,
):
    """Take one step per side of each triple in ``order``; add loss, violated, pairs to totals.

    ``head_chance[r]`` of 2³¹ is the chance that the head is hidden; ``pools`` from
    ``pool_starts[2r]`` on are the heads of relation r, and from 2r + 1 on its tails.
    ``seed`` is one uint64 per call, so that chunks are independent of each other and of the number
    of threads.
    """
    number = entities.dtype.type  # so that no loop is widened to double precision
    count = entities.shape[0]
    random = np.array([seed], dtype=np.uint64)
    query = np.empty(entities.shape[1], dtype=entities.dtype)
    slope = np.empty_like(query)
    given_slope = np.empty_like(query)
    rival_slope = np.empty_like(query)
    relation_slope = np.empty(relations.shape[1], dtype=relations.dtype)
    rivals = np.empty(negatives, dtype=np.int64)
    slopes = np.empty(negatives, dtype=entities.dtype)
    total_loss, violated, pairs = 0.0, 0, 0

    for i in order:
        h, r, t = np.int64(triples[i, 0]), np.int64(triples[i, 1]), np.int64(triples[i, 2])
        hide_head = draw(random, 1 << 31) < head_chance[r]
        for side in range(1 + both_sides):
            if side == 1:
                hide_head = not hide_head
            given, answer = (t, h) if hide_head else (h, t)
            if hide_head:
                head_query(entities[given], relations[r], query)
            else:
                tail_query(entities[given], relations[r], query)
            score = inner(query, entities[answer])

            # First all slopes, then all moves: the step is the gradient at one point.
            answer_total = number(0)
            active = 0
            for _ in range(negatives):
                rival = draw_rival(
                    random, known, pools, pool_starts, plausible, count, h, r, t, hide_head
                )
                if rival < 0:
                    continue
                pairs += 1
                rival_score = inner(query, entities[rival])
                value, down, up, broken = compare(score, rival_score, margin, loss)
                total_loss += value
                violated += broken
                if value != 0:
                    answer_total += number(down)
                    active = add_slope(rivals, slopes, active, rival, number(up))
            if active == 0:
                continue

            slope[:] = 0
            given_slope[:] = 0
            relation_slope[:] = 0
            query_slope(query, entities[answer], answer_total, slope)
            for j in range(active):
                query_slope(query, entities[rivals[j]], slopes[j], slope)
            if hide_head:
                head_pullback(entities[given], relations[r], slope, given_slope, relation_slope)
            else:
                tail_pullback(entities[given], relations[r], slope, given_slope, relation_slope)

            for j in range(active):
                e = rivals[j]
                rival_slope[:] = 0
                entity_slope(query, entities[e], slopes[j], rival_slope)
                move(entities[e], entity_state[e], rival_slope, rate, entity_penalty, optimizer)
                constrain(entities[e], constraint)
            rival_slope[:] = 0
            entity_slope(query, entities[answer], answer_total, rival_slope)
            e = answer
            move(entities[e], entity_state[e], rival_slope, rate, entity_penalty, optimizer)
            constrain(entities[answer], constraint)
            e = given
            move(entities[e], entity_state[e], given_slope, rate, entity_penalty, optimizer)
            constrain(entities[given], constraint)
            move(relations[r], relation_state[r], relation_slope, rate, relation_penalty, optimizer)

    totals[0] += total_loss
    totals[1] += violated
    totals[2] += pairs
