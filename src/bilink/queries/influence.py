"""Which training facts hold an answer's score up: the first-order change of one by the other.

A step of training on a fact moves the rows of its head, relation and tail along the gradient of
its score.  The score of the answer then moves by the inner product of the two gradients, over the
rows that both share.  A row that many facts pull at moves less for each of them, so the part of a
row is divided by the curvature that its facts give it: gᵀ (Σ f fᵀ + λI)⁻¹ g', where f are the
gradients of all facts of the row.
"""

from collections.abc import Sequence
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


RIDGE = 0.1  # λ, in means of the curvature
_MOST = 2000  # facts that give a row its curvature


def influences(
    model: Model, answer: np.ndarray, facts: np.ndarray, train: np.ndarray
) -> np.ndarray:
    """How much of the score of ``answer`` each of ``facts`` holds up, to first order."""
    head, verb, tail = (part[0].astype(np.float64) for part in slopes(model, answer[None]))
    of_facts = slopes(model, facts)
    found = np.zeros(len(facts))
    for entity, wanted in ((answer[0], head), (answer[2], tail)):
        of_entity = train[(train[:, 0] == entity) | (train[:, 2] == entity)][:_MOST]
        pulls = _entity_slopes(slopes(model, of_entity), of_entity, entity)
        found += _entity_slopes(of_facts, facts, entity) @ _eased(pulls, wanted)
    same = facts[:, 1] == answer[1]
    pulls = slopes(model, train[train[:, 1] == answer[1]][:_MOST])[1]
    found[same] += of_facts[1][same] @ _eased(pulls, verb)
    return found


def _entity_slopes(parts: Sequence[np.ndarray], facts: np.ndarray, entity: int) -> np.ndarray:
    """The gradient of each fact in the row of ``entity``, which stands in it twice, once, never."""
    heads, _, tails = parts
    return heads * (facts[:, :1] == entity) + tails * (facts[:, 2:] == entity)


def _eased(pulls: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """(PᵀP + λI)⁻¹ slope, by way of the smaller of PᵀP and PPᵀ."""
    pulls = pulls.astype(np.float64)
    ridge = RIDGE * np.einsum("ij,ij->", pulls, pulls) / pulls.shape[1] + 1e-12
    if len(pulls) < pulls.shape[1]:
        inside = pulls @ pulls.T + ridge * np.eye(len(pulls))
        return (slope - pulls.T @ np.linalg.solve(inside, pulls @ slope)) / ridge
    return np.linalg.solve(pulls.T @ pulls + ridge * np.eye(pulls.shape[1]), slope)
