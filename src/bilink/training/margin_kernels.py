"""The compiled step of margin training, as a template over a model's kernel functions.

One step takes a positive triple, hides its head or its tail, and compares the answer with random
other entities, the negatives, under the query that is left.  So all corruptions of one side share a
query, and the whole gradient passes through one backward function, whatever the model.
"""

from typing import Any, NamedTuple

import numpy as np

from bilink._jit import draw, kernel_function, mix
from bilink.models.form import dot
from bilink.training.optimizers import move_row, move_scaled_row

LOSSES = {"margin": 0, "sigmoid-margin": 1, "logistic": 2}
HINGE, SIGMOID_HINGE, LOGISTIC = LOSSES.values()
CONSTRAINTS = {"none": 0, "ball": 1, "sphere": 2, "ball-all": 3}
FREE, BALL, SPHERE, BALL_ALL = CONSTRAINTS.values()

TRIES = 100  # draws before a corruption is given up: the relation may hold for every entity


class Parameters(NamedTuple):
    """What is trained, and the optimizer's state of it."""

    entities: Any
    relations: Any
    entity_state: Any
    relation_state: Any
    relation_scales: Any  # steps and penalties are those of relations / scales; empty for ones


class Sampling(NamedTuple):
    """How negatives are drawn."""

    known: Any  # the training triples as a hash table
    pools: Any  # the entities seen in each position of each relation,
    pool_starts: Any  # those of relation r's heads from pool_starts[2r] on, its tails from 2r + 1
    plausible: Any  # of 2³¹: the chance to draw from the pools
    head_chance: Any  # of each relation, of 2³¹: the chance that the head is hidden
    both_sides: Any
    negatives: Any  # for each positive and side
    rejected_keys: Any  # sorted: 2 · (given · n_relations + relation) + whether the head is hidden
    rejected_starts: Any  # of each key, and the end, among
    rejected: Any  # the entities that were rejected as answers


class Rules(NamedTuple):
    """What is minimised, and how steps are taken."""

    margin: Any
    loss: Any
    rate: Any
    entity_penalty: Any
    relation_penalty: Any
    optimizer: Any
    epsilon: Any  # of Adagrad
    constraint: Any
    one_by_one: Any  # whether each triple of a pair has a step of its own


@kernel_function
def contains(table, key):
    """Whether the open-addressing hash table holds ``key`` (see ``margin.known_table``)."""
    mask = np.uint64(table.shape[0] - 1)
    slot = mix(np.uint64(key)) & mask
    while table[slot] >= 0:
        if table[slot] == key:
            return True
        slot = (slot + np.uint64(1)) & mask
    return False


@kernel_function
def sigmoid(x):
    """1 / (1 + exp(−x))."""
    return 1 / (1 + np.exp(-x))


@kernel_function
def softplus(x):
    """log(1 + exp(x)), without overflow."""
    return max(x, 0) + np.log1p(np.exp(-abs(x)))


@kernel_function
def constrain(row, constraint):
    """Scale a row back into the unit ball, or onto the unit sphere."""
    if constraint == FREE:
        return
    rescale(row, dot(row, row), constraint)


@kernel_function
def rescale(row, total, constraint):
    """The same for a row whose squared norm counts as ``total``."""
    if total > 1 or (constraint == SPHERE and total > 0):
        scale = row.dtype.type(1 / np.sqrt(total))
        for k in range(row.shape[0]):
            row[k] *= scale


@kernel_function
def move_entity(entities, states, e, gradient, rules):
    """One step on an entity, within the constraint unless it acts once the whole pair is done."""
    rate, penalty = rules.rate, rules.entity_penalty
    move_row(entities[e], states[e], gradient, rate, penalty, rules.optimizer, rules.epsilon)
    if not rules.one_by_one:
        constrain(entities[e], rules.constraint)


@kernel_function
def move_relation(row, scales, state, gradient, rules):
    """One step on a relation."""
    rate, penalty = rules.rate, rules.relation_penalty
    if scales.shape[0] > 0:
        move_scaled_row(row, scales, state, gradient, rate, penalty, rules.optimizer, rules.epsilon)
    else:
        move_row(row, state, gradient, rate, penalty, rules.optimizer, rules.epsilon)


@kernel_function
def finish_pair(entities, compared, given, relation, scales, rules):
    """The constraints that act once all steps of a pair are done."""
    if rules.one_by_one:
        constrain(entities[given], rules.constraint)
        for e in compared:
            constrain(entities[e], rules.constraint)
    if rules.constraint == BALL_ALL:
        total = dot(relation, relation)
        if scales.shape[0] > 0:
            total *= 0
            for k in range(relation.shape[0]):
                total += (relation[k] / scales[k]) ** 2
        rescale(relation, total, BALL)


@kernel_function
def draw_negative(random, known, pools, pool_starts, plausible, count, h, r, t, hide_head):
    """An entity to put in the hidden place, but for those that make a training triple; else −1."""
    n_relations = (pool_starts.shape[0] - 1) // 2
    for _ in range(TRIES):
        if plausible > 0 and draw(random, 1 << 31) < plausible:
            place = 2 * r if hide_head else 2 * r + 1
            first = pool_starts[place]
            size = pool_starts[place + 1] - first
            negative = np.int64(pools[first + draw(random, size)])
        else:
            negative = draw(random, count)
        a, b = (negative, t) if hide_head else (h, negative)
        if not contains(known, (a * n_relations + r) * count + b):
            return negative
    return np.int64(-1)


@kernel_function
def draw_rejected(random, keys, starts, rejected, key):
    """An answer to the query of this key that was rejected; −1 if there is none."""
    if keys.shape[0] == 0:
        return np.int64(-1)
    place = np.searchsorted(keys, key)
    if place == keys.shape[0] or keys[place] != key:
        return np.int64(-1)
    return np.int64(rejected[starts[place] + draw(random, starts[place + 1] - starts[place])])


@kernel_function
def add_pair(compared, weights, active, negative, value, down, up):
    """Note a negative whose pair has a loss, and both weights in the gradient.

    Returns how many there are to compare; the answer is the first.
    """
    if value == 0:
        return active
    weights[0] += down
    for j in range(1, active):
        if compared[j] == negative:
            weights[j] += up
            return active
    compared[active] = negative
    weights[active] = up
    return active + 1


@kernel_function
def pair_loss(positive, negative, margin, loss):
    """The loss of two scores, its derivatives in both, and whether the margin is violated."""
    zero = positive * 0
    if loss == LOGISTIC:
        value = softplus(-positive) + softplus(negative)
        return value, -sigmoid(-positive), sigmoid(negative), not negative < positive
    if loss == HINGE:
        gap = margin + negative - positive
        if gap <= 0:  # false for NaN, which must show in the loss
            return zero, zero, zero, False
        return gap, zero - 1, zero + 1, True
    p, n = sigmoid(positive), sigmoid(negative)
    gap = margin + n - p
    if gap <= 0:
        return zero, zero, zero, False
    return gap, -p * (1 - p), n * (1 - n), True


# Placeholders that ``bind`` replaces by a model's kernel functions.
tail_query: Any = None
head_query: Any = None
tail_backward: Any = None
head_backward: Any = None
compare: Any = None
query_gradient: Any = None
entity_gradient: Any = None
query_width: Any = None


def train_chunk(params, triples, order, sampling, rules, seed, totals):
    """Take one step per side of each triple in ``order``; add loss, violated, pairs to totals.

    ``seed`` is the one uint64 that random numbers are drawn from: in parts, one after the other,
    a chunk gives the same as in one go.
    """
    # Unpacked before the loop: each look into a tuple counts a reference, which threads share.
    entities, relations, entity_state, relation_state, scales = params
    known, pools, pool_starts, plausible, head_chance, both_sides, per_positive = sampling[:7]
    rejected_keys, rejected_starts, rejected = sampling[7:]
    number = entities.dtype.type  # so that no loop is widened to double precision
    count = entities.shape[0]
    random = np.array([seed[0]], dtype=np.uint64)
    query = np.empty(query_width(entities.shape[1]), dtype=entities.dtype)
    gradient = np.empty_like(query)
    given_gradient = np.empty(entities.shape[1], dtype=entities.dtype)
    candidate_gradient = np.empty_like(given_gradient)
    relation_gradient = np.empty(relations.shape[1], dtype=relations.dtype)
    compared = np.empty(1 + per_positive, dtype=np.int64)  # the answer and then the negatives
    weights = np.empty(1 + per_positive, dtype=entities.dtype)
    total_loss, violated, pairs = totals[0], 0, 0

    for i in order:
        h, r, t = np.int64(triples[i, 0]), np.int64(triples[i, 1]), np.int64(triples[i, 2])
        hide_head = draw(random, 1 << 31) < head_chance[r]
        for side in range(1 + both_sides):
            hide_head = hide_head != (side == 1)
            given, answer = (t, h) if hide_head else (h, t)
            if hide_head:
                head_query(entities[given], relations[r], query)
            else:
                tail_query(entities[given], relations[r], query)
            score = compare(query, entities[answer])

            compared[0], weights[0] = answer, number(0)
            active = 1
            for j in range(per_positive):
                negative = np.int64(-1)
                if j == 0:  # one of them is what people rejected, if anything
                    key = 2 * (given * relations.shape[0] + r) + hide_head
                    negative = draw_rejected(random, rejected_keys, rejected_starts, rejected, key)
                if negative < 0:
                    negative = draw_negative(
                        random, known, pools, pool_starts, plausible, count, h, r, t, hide_head
                    )
                if negative < 0:
                    continue
                pairs += 1
                other = compare(query, entities[negative])
                value, down, up, broken = pair_loss(score, other, rules.margin, rules.loss)
                total_loss += value
                violated += broken
                down, up = number(down), number(up)
                active = add_pair(compared, weights, active, negative, value, down, up)
            if active == 1:
                continue

            # One step for all that is compared, or one for each, the answer's first.
            given_row, relation = entities[given], relations[r]
            steps, size = (active, 1) if rules.one_by_one else (1, active)
            for first in range(0, steps * size, size):
                if first > 0:  # what the query is made of has moved
                    if hide_head:
                        head_query(given_row, relation, query)
                    else:
                        tail_query(given_row, relation, query)
                # First all gradients, then all moves: the step is the gradient at one point.
                gradient[:] = 0
                given_gradient[:] = 0
                relation_gradient[:] = 0
                for j in range(first, first + size):
                    query_gradient(query, entities[compared[j]], weights[j], gradient)
                if hide_head:
                    head_backward(given_row, relation, gradient, given_gradient, relation_gradient)
                else:
                    tail_backward(given_row, relation, gradient, given_gradient, relation_gradient)
                for j in range(first + size - 1, first - 1, -1):
                    candidate_gradient[:] = 0
                    entity_gradient(query, entities[compared[j]], weights[j], candidate_gradient)
                    move_entity(entities, entity_state, compared[j], candidate_gradient, rules)
                move_entity(entities, entity_state, given, given_gradient, rules)
                move_relation(relation, scales, relation_state[r], relation_gradient, rules)
            finish_pair(entities, compared[:active], given, relation, scales, rules)

    seed[0] = random[0]
    totals[0] = total_loss
    totals[1] += violated
    totals[2] += pairs
