"""ANALOGY (Liu et al., 2017): normal matrices that commute, so DistMult beside ComplEx.

Half of a row's numbers are coordinates of a DistMult, the other half are the real and then the
imaginary parts of a ComplEx.
"""

import numpy as np

from bilink._jit import verb
from bilink.models import complex as pairs
from bilink.models import distmult as reals
from bilink.models.inner import DOT
from bilink.models.inner import cube_slope as cube_slope_of_reals

NAME = "analogy"
TITLE = "ANALOGY"
COMPARISON = DOT


def widths(dim: int) -> tuple[int, int]:
    """How many numbers an entity and a relation have."""
    return dim, dim


@verb
def real_part(width):
    """How many coordinates are real; what is left is even."""
    return width - 2 * (width // 4)


@verb
def tail_query(head, relation, query):
    """Q = h r."""
    n = real_part(query.shape[0])
    reals.tail_query(head[:n], relation[:n], query[:n])
    pairs.tail_query(head[n:], relation[n:], query[n:])


@verb
def head_query(tail, relation, query):
    """Q = t r̄."""
    n = real_part(query.shape[0])
    reals.head_query(tail[:n], relation[:n], query[:n])
    pairs.head_query(tail[n:], relation[n:], query[n:])


@verb
def tail_pullback(head, relation, slope, head_slope, relation_slope):
    """Carry the slope in q = h r back to h and r."""
    n = real_part(slope.shape[0])
    reals.tail_pullback(head[:n], relation[:n], slope[:n], head_slope[:n], relation_slope[:n])
    pairs.tail_pullback(head[n:], relation[n:], slope[n:], head_slope[n:], relation_slope[n:])


@verb
def head_pullback(tail, relation, slope, tail_slope, relation_slope):
    """Carry the slope in q = t r̄ back to t and r."""
    n = real_part(slope.shape[0])
    reals.head_pullback(tail[:n], relation[:n], slope[:n], tail_slope[:n], relation_slope[:n])
    pairs.head_pullback(tail[n:], relation[n:], slope[n:], tail_slope[n:], relation_slope[n:])


@verb
def cube_slope(row, weight, out):
    """Out += weight times the slope of Σ|xₖ|³ over the real and the complex coordinates."""
    n = real_part(row.shape[0])
    cube_slope_of_reals(row[:n], weight, out[:n])
    pairs.cube_slope(row[n:], weight, out[n:])


def matrix(relation: np.ndarray) -> np.ndarray:
    """A diagonal block, and the block of a ComplEx."""
    n = real_part(len(relation))
    form = np.zeros((len(relation), len(relation)), dtype=relation.dtype)
    form[:n, :n] = reals.matrix(relation[:n])
    form[n:, n:] = pairs.matrix(relation[n:])
    return form
