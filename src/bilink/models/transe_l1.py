"""TransE with the Manhattan distance: s = −‖h + r − t‖₁.

The one model here that is no bilinear form: it has no ``matrix``, and is ranked without matrix
products.
"""

from bilink.models.form import MANHATTAN
from bilink.models.transe import (
    head_backward,
    head_query,
    tail_backward,
    tail_query,
    widths,
)

__all__ = ["head_backward", "head_query", "tail_backward", "tail_query", "widths"]

NAME = "transe-l1"
TITLE = "TransE (L1)"
FORM = MANHATTAN
