"""Which training facts hold an answer's score up: the first-order change of one by the other.

A step of training on a fact moves the rows of its head, relation and tail along the gradient of
its score.  The score of the answer then moves by the inner product of the two gradients, over the
rows that both share.  Here it is their cosine, summed over these rows, so that no row counts more
for being long.  ``study/explanations.py`` holds it against training again without the facts.
"""

from typing import Any

import numpy as np

from bilink.models.model import Model

# Placeholders that ``bind`` replaces by a model's verbs.
tail_query: Any = None
tail_pullback: Any = None
query_slope: Any = None
entity_slope: Any = None


def score_slopes(entities, relations, triples, heads, verbs, tails):
    """heads[i], verbs[i], tails[i] = the gradient of the score of triple i in its three rows."""
    query = np.empty(entities.shape[1], dtype=entities.dtype)
    slope = np.empty_like(query)
    one = entities.dtype.type(1)
    heads[:] = 0
    verbs[:] = 0
    tails[:] = 0
    for i in range(triples.shape[0]):
        h, r, t = triples[i, 0], triples[i, 1], triples[i, 2]
        tail_query(entities[h], relations[r], query)
        slope[:] = 0
        query_slope(query, entities[t], one, slope)
        entity_slope(query, entities[t], one, tails[i])
        tail_pullback(entities[h], relations[r], slope, heads[i], verbs[i])


def slopes(model: Model, triples: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The gradient of each triple's score in the rows of its head, relation and tail."""
    rows = len(triples), model.entities.shape[1]
    dtype = model.entities.dtype
    parts = (
        np.empty(rows, dtype),
        np.empty((len(triples), model.relations.shape[1]), dtype),
        np.empty(rows, dtype),
    )
    fill = model.family.bind(score_slopes)
    fill(model.entities, model.relations, np.ascontiguousarray(triples, dtype=np.int64), *parts)
    return parts


def influences(model: Model, answer: np.ndarray, facts: np.ndarray) -> np.ndarray:
    """How much each of ``facts`` pulls the rows of ``answer`` the way its score wants: [−3, 3]."""
    head, verb, tail = (part[0] for part in slopes(model, answer[None]))
    heads, verbs, tails = slopes(model, facts)
    found = np.zeros(len(facts))
    for entity, wanted in ((answer[0], head), (answer[2], tail)):
        pulls = heads * (facts[:, :1] == entity) + tails * (facts[:, 2:] == entity)
        found += _cosines(pulls, wanted)
    same = facts[:, 1] == answer[1]
    found[same] += _cosines(verbs[same], verb)
    return found


def _cosines(rows: np.ndarray, row: np.ndarray) -> np.ndarray:
    sizes = np.linalg.norm(rows, axis=1) * np.linalg.norm(row)
    return rows @ row / np.maximum(sizes, 1e-12)
