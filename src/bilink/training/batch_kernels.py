"""The compiled passes of the batch engine but for the softmax: queries, penalties, steps.

Those that need a model's verbs are templates over them; the others are plain kernels.  Each works
on a range of rows, so that threads share a batch without touching each other's rows.
"""

from typing import Any

import numpy as np

from bilink._jit import kernel, verb
from bilink.models.inner import dot
from bilink.training.kernels import mix
from bilink.training.softmax_kernels import add_scaled

ADAGRAD, SGD, ROW_ADAGRAD, ADAM = 0, 1, 2, 3  # optimisers
L2, N3, DURA = 0, 1, 2  # regularisers
ADAM_MEAN, ADAM_SQUARE = 0.9, 0.999  # how much of the running means each step keeps
ADAM_EPSILON = np.float32(1e-8)
# Under Adagrad's root.  At the start of a run from small values, the slopes of a batch's mean are
# 1e-9 and less; a larger one would swallow their squares, and the first epochs with them.
EPSILON = np.float32(1e-24)

# Placeholders that ``bind`` replaces by a model's verbs.
tail_query: Any = None
head_query: Any = None
tail_pullback: Any = None
head_pullback: Any = None
cube_slope: Any = None
relation_cube_slope: Any = None


# -- questions to queries and back -----------------------------------------------------------------


@verb
def thin(row, key, chance, out):
    """Dropout: copy ``row``, with entries set to zero by ``chance`` and the rest scaled up.

    Which entries go is a hash of ``key``, so that the way back finds the same ones.
    """
    if chance == 0:
        for k in range(row.shape[0]):
            out[k] = row[k]
        return
    scale = np.float32(1 / (1 - chance))
    limit = np.uint64(chance * 2.0**32)
    for k in range(row.shape[0]):
        keep = (mix(key + np.uint64(k)) >> np.uint64(32)) >= limit
        out[k] = row[k] * scale if keep else np.float32(0)


def ask(first, last, given, relations, rows, heads, dropout, seed, out):
    """out[i] = the query of the entity given[i] and relation rows[i]; for the head where heads[i].

    Entities come as rows of their own, one for each question.
    """
    entity = np.empty(given.shape[1], dtype=given.dtype)
    relation = np.empty(relations.shape[1], dtype=relations.dtype)
    for i in range(first, last):
        key = mix(seed + np.uint64(i))
        thin(given[i], key, dropout[0], entity)
        thin(relations[rows[i]], mix(key), dropout[1], relation)
        if heads[i]:
            head_query(entity, relation, out[i])
        else:
            tail_query(entity, relation, out[i])


def pull(
    first,
    last,
    given,
    relations,
    rows,
    heads,
    dropout,
    seed,
    weights,
    penalties,
    regularizer,
    queries,
    slopes,
    starts,
    given_slopes,
    relation_slopes,
):
    """Carry the slopes in the queries back to the given entities and to the relations.

    Questions from starts[g] to starts[g + 1] share a relation, whose slope is row g; a call takes
    the groups from ``first`` to ``last``.  The penalties on the given entity, on the relation
    and on the query are added, each times the question's weight.
    """
    entity = np.empty(given.shape[1], dtype=given.dtype)
    relation = np.empty(relations.shape[1], dtype=relations.dtype)
    relation_slope = np.empty_like(relation)
    for group in range(first, last):
        total = relation_slopes[group]
        total[:] = 0
        for i in range(starts[group], starts[group + 1]):
            key = mix(seed + np.uint64(i))
            thin(given[i], key, dropout[0], entity)
            thin(relations[rows[i]], mix(key), dropout[1], relation)
            if regularizer == DURA and penalties[1] > 0:
                add_scaled(queries[i], penalties[1] * weights[i], slopes[i])
            given_slopes[i, :] = 0
            into = total
            if dropout[1] > 0:
                relation_slope[:] = 0
                into = relation_slope
            if heads[i]:
                head_pullback(entity, relation, slopes[i], given_slopes[i], into)
            else:
                tail_pullback(entity, relation, slopes[i], given_slopes[i], into)
            if dropout[0] > 0:
                thin(given_slopes[i], key, dropout[0], given_slopes[i])
            if dropout[1] > 0:
                thin(relation_slope, mix(key), dropout[1], relation_slope)
                add_scaled(relation_slope, np.float32(1), total)
            if regularizer == N3:
                cube_slope(given[i], penalties[0] * weights[i], given_slopes[i])
                relation_cube_slope(relations[rows[i]], penalties[1] * weights[i], total)
            elif penalties[0] > 0 or penalties[1] > 0:
                add_scaled(given[i], penalties[0] * weights[i], given_slopes[i])
                if regularizer == L2:
                    add_scaled(relations[rows[i]], penalties[1] * weights[i], total)


def penalise_rows(first, last, entities, weights, regularizer, slopes):
    """slopes[i] = weights[i] times the slope of the penalty on entities[i]."""
    for i in range(first, last):
        slopes[i, :] = 0
        if regularizer == N3:
            cube_slope(entities[i], weights[i], slopes[i])
        else:
            add_scaled(entities[i], weights[i], slopes[i])


# -- the relation that joins a pair ----------------------------------------------------------------


def pair_rows(first, last, heads, tails, out):
    """out[i] = c with score(h, r, t) = ⟨r, c⟩ for every relation r; scores are linear in it."""
    nothing = np.zeros(out.shape[1], dtype=out.dtype)
    unused = np.empty(heads.shape[1], dtype=heads.dtype)
    for i in range(first, last):
        out[i, :] = 0
        tail_pullback(heads[i], nothing, tails[i], unused, out[i])


def pair_pull(first, last, heads, tails, slopes, head_slopes, tail_slopes):
    """Carry the slopes in c back to the pair: ⟨slope, c⟩ is the score with ``slope`` for r."""
    unused = np.empty(slopes.shape[1], dtype=slopes.dtype)
    for i in range(first, last):
        head_slopes[i, :] = 0
        tail_pullback(heads[i], slopes[i], tails[i], head_slopes[i], unused)
        tail_query(heads[i], slopes[i], tail_slopes[i])


# -- slopes to steps -------------------------------------------------------------------------------


@kernel
def add_rows(slopes, rows, into):
    """into[rows[i]] += slopes[i]; a row may come more than once."""
    for i in range(rows.shape[0]):
        add_scaled(slopes[i], np.float32(1), into[rows[i]])


@kernel
def move_rows(
    first, last, params, first_state, second_state, slopes, rows, places, rate, optimizer, step
):
    """Move params[rows[i]] by slopes[places[i]]; ``step`` counts them from one, for Adam."""
    for i in range(first, last):
        row, slope, state = params[rows[i]], slopes[places[i]], first_state[rows[i]]
        if optimizer == ADAGRAD:
            for k in range(row.shape[0]):
                g = slope[k]
                state[k] += g * g
                row[k] -= rate * g / np.sqrt(state[k] + EPSILON)
        elif optimizer == SGD:
            for k in range(row.shape[0]):
                row[k] -= rate * slope[k]
        elif optimizer == ROW_ADAGRAD:
            state[0] += dot(slope, slope) / np.float32(row.shape[0])
            factor = rate / np.sqrt(state[0] + EPSILON)
            for k in range(row.shape[0]):
                row[k] -= factor * slope[k]
        else:
            moment = second_state[rows[i]]
            a, b = np.float32(ADAM_MEAN), np.float32(ADAM_SQUARE)
            c, d = np.float32(1 - ADAM_MEAN), np.float32(1 - ADAM_SQUARE)
            # both means start at nothing; this makes up for it
            factor = rate * np.float32(np.sqrt(1 - ADAM_SQUARE**step) / (1 - ADAM_MEAN**step))
            for k in range(row.shape[0]):
                g = slope[k]
                state[k] = a * state[k] + c * g
                moment[k] = b * moment[k] + d * (g * g)
                row[k] -= factor * state[k] / (np.sqrt(moment[k]) + ADAM_EPSILON)
