"""The compiled passes of softmax training that know the model: queries, backward, penalties.

They are templates over a model's kernel functions.  Each works on a range of rows, so that threads
share a batch without touching each other's rows.
"""

from typing import Any, NamedTuple

import numpy as np

from bilink._jit import kernel_function, mix
from bilink.training.softmax_kernels import add_scaled

PENALTIES = {"l2": 0, "n3": 1, "dura": 2}
L2, N3, DURA = PENALTIES.values()

# Placeholders that ``bind`` replaces by a model's kernel functions.
tail_query: Any = None
head_query: Any = None
tail_backward: Any = None
head_backward: Any = None
cube_gradient: Any = None
relation_cube_gradient: Any = None


class Asked(NamedTuple):
    """The rows that the queries of a batch are made of."""

    given: Any  # the given entities, one row per query
    relations: Any  # all relations
    rows: Any  # the relation of each query
    heads: Any  # whether the head is asked for
    dropout: Any  # of entities and of relations
    seed: Any  # of dropout


class Penalty(NamedTuple):
    """The penalties on the rows of a batch."""

    kind: Any
    entity: Any
    relation: Any
    weights: Any  # of each query


@kernel_function
def drop(row, key, chance, out):
    """Dropout: copy ``row``, with entries set to zero by ``chance`` and the rest scaled up.

    Which entries go is a hash of ``key``, so that the backward pass finds the same ones.
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


def make_queries(first, last, asked, out):
    """out[i] = the query of entity given[i] and relation rows[i]; for the head where heads[i]."""
    entity = np.empty(asked.given.shape[1], dtype=asked.given.dtype)
    relation = np.empty(asked.relations.shape[1], dtype=asked.relations.dtype)
    for i in range(first, last):
        key = mix(asked.seed + np.uint64(i))
        drop(asked.given[i], key, asked.dropout[0], entity)
        drop(asked.relations[asked.rows[i]], mix(key), asked.dropout[1], relation)
        if asked.heads[i]:
            head_query(entity, relation, out[i])
        else:
            tail_query(entity, relation, out[i])


def query_backward(
    first, last, asked, queries, gradients, starts, penalty, given_gradients, relation_gradients
):
    """Carry the gradients of the queries back to the given entities and to the relations.

    Queries from starts[g] to starts[g + 1] share a relation, whose gradient is row g; a call takes
    the groups from ``first`` to ``last``.  The penalties on the given entity, on the relation
    and on the query are added, each times the query's weight.
    """
    entity = np.empty(asked.given.shape[1], dtype=asked.given.dtype)
    relation = np.empty(asked.relations.shape[1], dtype=asked.relations.dtype)
    relation_gradient = np.empty_like(relation)
    of_entity, of_relation = asked.dropout[0], asked.dropout[1]
    for group in range(first, last):
        total = relation_gradients[group]
        total[:] = 0
        for i in range(starts[group], starts[group + 1]):
            row, gradient = asked.relations[asked.rows[i]], gradients[i]
            key = mix(asked.seed + np.uint64(i))
            drop(asked.given[i], key, of_entity, entity)
            drop(row, mix(key), of_relation, relation)
            if penalty.kind == DURA and penalty.relation > 0:
                add_scaled(queries[i], penalty.relation * penalty.weights[i], gradient)
            given_gradients[i, :] = 0
            into = total
            if of_relation > 0:
                relation_gradient[:] = 0
                into = relation_gradient
            if asked.heads[i]:
                head_backward(entity, relation, gradient, given_gradients[i], into)
            else:
                tail_backward(entity, relation, gradient, given_gradients[i], into)
            if of_entity > 0:
                drop(given_gradients[i], key, of_entity, given_gradients[i])
            if of_relation > 0:
                drop(relation_gradient, mix(key), of_relation, relation_gradient)
                add_scaled(relation_gradient, np.float32(1), total)
            weight = penalty.weights[i]
            if penalty.kind == N3:
                cube_gradient(asked.given[i], penalty.entity * weight, given_gradients[i])
                relation_cube_gradient(row, penalty.relation * weight, total)
            elif penalty.entity > 0 or penalty.relation > 0:
                add_scaled(asked.given[i], penalty.entity * weight, given_gradients[i])
                if penalty.kind == L2:
                    add_scaled(row, penalty.relation * weight, total)


def penalise_rows(first, last, entities, weights, kind, gradients):
    """gradients[i] = weights[i] times the gradient of the penalty on entities[i]."""
    for i in range(first, last):
        gradients[i, :] = 0
        if kind == N3:
            cube_gradient(entities[i], weights[i], gradients[i])
        else:
            add_scaled(entities[i], weights[i], gradients[i])


# -- the relation that joins a pair ----------------------------------------------------------------


def pair_rows(first, last, heads, tails, out):
    """out[i] = c with score(h, r, t) = ⟨r, c⟩ for every relation r; scores are linear in it."""
    nothing = np.zeros(out.shape[1], dtype=out.dtype)
    unused = np.empty(heads.shape[1], dtype=heads.dtype)
    for i in range(first, last):
        out[i, :] = 0
        tail_backward(heads[i], nothing, tails[i], unused, out[i])


def pair_backward(first, last, heads, tails, gradients, head_gradients, tail_gradients):
    """Carry the gradients of c back to the pair: ⟨g, c⟩ is the score with g for r."""
    unused = np.empty(gradients.shape[1], dtype=gradients.dtype)
    for i in range(first, last):
        head_gradients[i, :] = 0
        tail_backward(heads[i], gradients[i], tails[i], head_gradients[i], unused)
        tail_query(heads[i], gradients[i], tail_gradients[i])
