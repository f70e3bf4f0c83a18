"""TransE (Bordes et al., 2013): s = −‖h + r − t‖², the squared distance as in Wang et al. (2018).

As a bilinear form its entities carry two more numbers, (1, e, ‖e‖²); see ``matrix``.
"""

import numpy as np

from bilink._jit import verb
from bilink.models.inner import SQUARED_DISTANCE

NAME = "transe"
TITLE = "TransE"
COMPARISON = SQUARED_DISTANCE


def widths(dim: int) -> tuple[int, int]:
    """How many numbers an entity and a relation have."""
    return dim, dim


@verb
def tail_query(head, relation, query):
    """Q = h + r."""
    for k in range(query.shape[0]):
        query[k] = head[k] + relation[k]


@verb
def head_query(tail, relation, query):
    """Q = t − r."""
    for k in range(query.shape[0]):
        query[k] = tail[k] - relation[k]


@verb
def tail_pullback(head, relation, slope, head_slope, relation_slope):
    """Carry the slope in q = h + r back to h and r."""
    for k in range(slope.shape[0]):
        head_slope[k] += slope[k]
        relation_slope[k] += slope[k]


@verb
def head_pullback(tail, relation, slope, tail_slope, relation_slope):
    """Carry the slope in q = t − r back to t and r."""
    for k in range(slope.shape[0]):
        tail_slope[k] += slope[k]
        relation_slope[k] -= slope[k]


def matrix(relation: np.ndarray) -> np.ndarray:
    """The form on entities (1, e, ‖e‖²) whose value is −‖h + r − t‖²."""
    d = len(relation)
    form = np.zeros((d + 2, d + 2), dtype=relation.dtype)
    form[0, 0] = -relation @ relation
    form[0, 1:-1] = 2 * relation
    form[1:-1, 0] = -2 * relation
    form[1:-1, 1:-1] = 2 * np.eye(d, dtype=relation.dtype)
    form[0, -1] = form[-1, 0] = -1
    return form


def bilinear_entities(entities: np.ndarray) -> np.ndarray:
    """The rows (1, e, ‖e‖²) that ``matrix`` acts on."""
    ones = np.ones((len(entities), 1), dtype=entities.dtype)
    return np.hstack([ones, entities, np.sum(entities**2, axis=1, keepdims=True)])
