"""Templates over whole arrays of triples; ``Family.bind`` compiles them for a model."""

from typing import Any

# Placeholders that ``bind`` replaces by a model's verbs.
tail_query: Any = None
head_query: Any = None
inner: Any = None


def fill_queries(entities, relations, given, relation_ids, hide_head, out):
    """out[i] = the query for the head (else the tail) that goes with given[i], relation_ids[i]."""
    for i in range(given.shape[0]):
        if hide_head:
            head_query(entities[given[i]], relations[relation_ids[i]], out[i])
        else:
            tail_query(entities[given[i]], relations[relation_ids[i]], out[i])


def score_block(queries, entities, out):
    """out[i, j] = inner(queries[i], entities[j]), for comparisons that are no matrix product."""
    for i in range(queries.shape[0]):
        for j in range(entities.shape[0]):
            out[i, j] = inner(queries[i], entities[j])
