"""How a query meets a candidate: the inner product, and two distances in its place.

Every model turns (head, relation) into a query and compares it with the rows of entities.  Each
comparison here is three verbs: its value, and ``slope`` times its gradient, added to ``out``.
"""

from dataclasses import dataclass
from typing import Any

from bilink._jit import reduction, verb


@dataclass(frozen=True)
class Comparison:
    """The verbs by which a query meets an entity."""

    name: str
    inner: Any
    query_slope: Any
    entity_slope: Any


@reduction
def dot(query, entity):
    """⟨q, e⟩."""
    total = query[0] * entity[0]
    for k in range(1, query.shape[0]):
        total += query[k] * entity[k]
    return total


@verb
def dot_query_slope(query, entity, slope, out):
    """Out += slope · e."""
    for k in range(out.shape[0]):
        out[k] += slope * entity[k]


@verb
def dot_entity_slope(query, entity, slope, out):
    """Out += slope · q."""
    for k in range(out.shape[0]):
        out[k] += slope * query[k]


@reduction
def squared_distance(query, entity):
    """−‖q − e‖²."""
    total = -((query[0] - entity[0]) ** 2)
    for k in range(1, query.shape[0]):
        gap = query[k] - entity[k]
        total -= gap * gap
    return total


@verb
def squared_distance_query_slope(query, entity, slope, out):
    """Out += slope · 2(e − q)."""
    double = slope + slope
    for k in range(out.shape[0]):
        out[k] += double * (entity[k] - query[k])


@verb
def squared_distance_entity_slope(query, entity, slope, out):
    """Out += slope · 2(q − e)."""
    double = slope + slope
    for k in range(out.shape[0]):
        out[k] += double * (query[k] - entity[k])


@reduction
def manhattan(query, entity):
    """−‖q − e‖₁."""
    total = -abs(query[0] - entity[0])
    for k in range(1, query.shape[0]):
        total -= abs(query[k] - entity[k])
    return total


@verb
def manhattan_query_slope(query, entity, slope, out):
    """Out += slope · sign(e − q)."""
    for k in range(out.shape[0]):
        gap = entity[k] - query[k]
        if gap > 0:
            out[k] += slope
        elif gap < 0:
            out[k] -= slope


@verb
def manhattan_entity_slope(query, entity, slope, out):
    """Out += slope · sign(q − e)."""
    for k in range(out.shape[0]):
        gap = query[k] - entity[k]
        if gap > 0:
            out[k] += slope
        elif gap < 0:
            out[k] -= slope


@verb
def cube_slope(row, weight, out):
    """Out += weight times the slope of Σ|xₖ|³."""
    triple = weight * row.dtype.type(3)
    for k in range(row.shape[0]):
        out[k] += triple * abs(row[k]) * row[k]


DOT = Comparison("dot", dot, dot_query_slope, dot_entity_slope)
SQUARED_DISTANCE = Comparison(
    "squared distance",
    squared_distance,
    squared_distance_query_slope,
    squared_distance_entity_slope,
)
MANHATTAN = Comparison("manhattan", manhattan, manhattan_query_slope, manhattan_entity_slope)
