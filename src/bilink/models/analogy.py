"""ANALOGY (Liu et al., 2017): normal matrices that commute, so DistMult beside ComplEx.

Half of a row's numbers are coordinates of a DistMult, the other half are the real and then the
imaginary parts of a ComplEx.  HolE in its Fourier coordinates is of the same kind, with one or two
real coordinates; ``real_beside_complex`` serves both.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np

from bilink._jit import kernel_function, named
from bilink.models import complex as complex_
from bilink.models import distmult
from bilink.models.form import INNER_PRODUCT
from bilink.models.form import cube_gradient as cube_gradient_of_reals

NAME = "analogy"
TITLE = "ANALOGY"
FORM = INNER_PRODUCT


def widths(dim: int) -> tuple[int, int]:
    """Real parameters per entity and per relation."""
    return dim, dim


def real_beside_complex(name: str, real_part: Any) -> SimpleNamespace:
    """The functions of a model whose first ``real_part(width)`` coordinates are a DistMult's.

    The others, an even number, are those of a ComplEx.
    """
    named_function = named(name)
    reals, pairs = distmult, complex_

    @named_function
    def tail_query(head, relation, query):
        """q = h r."""
        n = real_part(query.shape[0])
        reals.tail_query(head[:n], relation[:n], query[:n])
        pairs.tail_query(head[n:], relation[n:], query[n:])

    @named_function
    def head_query(tail, relation, query):
        """q = t r̄."""
        n = real_part(query.shape[0])
        reals.head_query(tail[:n], relation[:n], query[:n])
        pairs.head_query(tail[n:], relation[n:], query[n:])

    @named_function
    def tail_backward(head, relation, gradient, to_head, to_relation):
        """Carry the gradient of q = h r back to h and r."""
        n = real_part(gradient.shape[0])
        reals.tail_backward(head[:n], relation[:n], gradient[:n], to_head[:n], to_relation[:n])
        pairs.tail_backward(head[n:], relation[n:], gradient[n:], to_head[n:], to_relation[n:])

    @named_function
    def head_backward(tail, relation, gradient, to_tail, to_relation):
        """Carry the gradient of q = t r̄ back to t and r."""
        n = real_part(gradient.shape[0])
        reals.head_backward(tail[:n], relation[:n], gradient[:n], to_tail[:n], to_relation[:n])
        pairs.head_backward(tail[n:], relation[n:], gradient[n:], to_tail[n:], to_relation[n:])

    @named_function
    def cube_gradient(row, weight, out):
        """out += weight times the gradient of Σ|xₖ|³ over the real and complex coordinates."""
        n = real_part(row.shape[0])
        cube_gradient_of_reals(row[:n], weight, out[:n])
        pairs.cube_gradient(row[n:], weight, out[n:])

    def matrix(relation: np.ndarray) -> np.ndarray:
        """A diagonal block, and the block of a ComplEx."""
        n = real_part(len(relation))
        form = np.zeros((len(relation), len(relation)), dtype=relation.dtype)
        form[:n, :n] = reals.matrix(relation[:n])
        form[n:, n:] = pairs.matrix(relation[n:])
        return form

    return SimpleNamespace(
        tail_query=tail_query,
        head_query=head_query,
        tail_backward=tail_backward,
        head_backward=head_backward,
        cube_gradient=cube_gradient,
        matrix=matrix,
    )


@kernel_function
def _half(width):
    """How many coordinates are real; what is left is even."""
    return width - 2 * (width // 4)


_functions = real_beside_complex(NAME, _half)
tail_query, head_query = _functions.tail_query, _functions.head_query
tail_backward, head_backward = _functions.tail_backward, _functions.head_backward
cube_gradient, matrix = _functions.cube_gradient, _functions.matrix
