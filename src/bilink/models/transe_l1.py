"""TransE with the Manhattan distance: s = −‖h + r − t‖₁.

The one model here that is no bilinear form: it has no ``matrix``, and is ranked without matrix
products.
"""

from bilink.models.inner import MANHATTAN
from bilink.models.transe import (
    head_pullback,
    head_query,
    tail_pullback,
    tail_query,
    widths,
)

__all__ = ["head_pullback", "head_query", "tail_pullback", "tail_query", "widths"]

NAME = "transe-l1"
TITLE = "TransE (L1)"
COMPARISON = MANHATTAN
