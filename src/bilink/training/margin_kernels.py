"""The compiled step of margin training, as a template over a model's kernel functions.

One step takes a positive triple, hides its head or its tail, and compares the answer with random
other entities, the negatives, under the query that is left.  So all corruptions of one side share a
query, and the whole gradient passes through one backward function, whatever the model.
"""

from typing import Any, NamedTuple

import numpy as np

from bilink._jit import draw, kernel_function, mix
from bilink.models.form import dot
from bilink.training.optimizers import move_row

LOSSES = {"margin": 0, "sigmoid-margin": 1, "logistic": 2}
HINGE, SIGMOID_HINGE, LOGISTIC = LOSSES.values()
CONSTRAINTS = {"none": 0, "ball": 1, "sphere": 2}
FREE, BALL, SPHERE = CONSTRAINTS.values()

TRIES = 100  # draws before a corruption is given up: the relation may hold for every entity


class Parameters(NamedTuple):
    """What is trained, and the optimizer's state of it."""

    entities: Any
    relations: Any
    entity_state: Any
    relation_state: Any


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
    constraint: Any


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
    total = dot(row, row)
    if total > 1 or (constraint == SPHERE and total > 0):
        scale = row.dtype.type(1 / np.sqrt(total))
        for k in range(row.shape[0]):
            row[k] *= scale


@kernel_function
def move_entity(entities, states, e, gradient, rules):
    """One step on an entity, within the constraint."""
    move_row(entities[e], states[e], gradient, rules.rate, rules.entity_penalty, rules.optimizer)
    constrain(entities[e], rules.constraint)


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
    place = np.searchsorted(keys, key)
    if place == keys.shape[0] or keys[place] != key:
        return np.int64(-1)
    return np.int64(rejected[starts[place] + draw(random, starts[place + 1] - starts[place])])


@kernel_function
def add_weight(negatives, weights, active, negative, weight):
    """Note a negative and its weight in the gradient, or add to that of the same one.

    Returns how many there are.
    """
    for j in range(active):
        if negatives[j] == negative:
            weights[j] += weight
            return active
    negatives[active] = negative
    weights[active] = weight
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
    entities, relations, entity_state, relation_state = params
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
    negatives = np.empty(per_positive, dtype=np.int64)
    weights = np.empty(per_positive, dtype=entities.dtype)
    total_loss, violated, pairs = totals[0], 0, 0

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
            score = compare(query, entities[answer])

            # First all gradients, then all moves: the step is the gradient at one point.
            answer_weight = number(0)
            active = 0
            for j in range(per_positive):
                negative = np.int64(-1)
                if j == 0 and rejected_keys.shape[0] > 0:  # one of them is what people rejected
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
                if value != 0:
                    answer_weight += number(down)
                    active = add_weight(negatives, weights, active, negative, number(up))
            if active == 0:
                continue

            gradient[:] = 0
            given_gradient[:] = 0
            relation_gradient[:] = 0
            query_gradient(query, entities[answer], answer_weight, gradient)
            for j in range(active):
                query_gradient(query, entities[negatives[j]], weights[j], gradient)
            given_row, relation = entities[given], relations[r]
            if hide_head:
                head_backward(given_row, relation, gradient, given_gradient, relation_gradient)
            else:
                tail_backward(given_row, relation, gradient, given_gradient, relation_gradient)

            for j in range(active):
                candidate_gradient[:] = 0
                entity_gradient(query, entities[negatives[j]], weights[j], candidate_gradient)
                move_entity(entities, entity_state, negatives[j], candidate_gradient, rules)
            candidate_gradient[:] = 0
            entity_gradient(query, entities[answer], answer_weight, candidate_gradient)
            move_entity(entities, entity_state, answer, candidate_gradient, rules)
            move_entity(entities, entity_state, given, given_gradient, rules)
            state, rate, penalty = relation_state[r], rules.rate, rules.relation_penalty
            move_row(relation, state, relation_gradient, rate, penalty, rules.optimizer)

    seed[0] = random[0]
    totals[0] = total_loss
    totals[1] += violated
    totals[2] += pairs
