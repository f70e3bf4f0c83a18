"""Consistent models from factors: the constructions of Theorems 11 and 12 and Corollary 4."""

from collections.abc import Sequence

import numpy as np

from bilink.errors import ConfigError, DataError
from bilink.models.model import Model
from bilink.models.registry import family as find_family
from bilink.theory.counterexamples import counterexample
from bilink.theory.factors import Factors
from bilink.theory.mixed import Mixed, mixed_size, side_by_side
from bilink.theory.sizes import check_fits
from bilink.theory.slices import by_factors, by_inertia, by_schur, inertia_bound


def consistent_model(factors: Sequence[Factors], name: str, construction: str = "tight") -> Model:
    """A model that is consistent with the facts that the factors of its relations tell apart.

    With rₖ columns for relation k the sizes are min{N, 2Σrₖ} for RESCAL (Th. 11), 2Σrₖ for ComplEx
    (Th. 12) and 4Σrₖ + 1 for HolE (Cor. 4) with ``construction="paper"``.  With "tight" ComplEx
    takes Σ⌈3rₖ/2⌉, and HolE at most twice as much and one.  No relation takes more than what any
    matrix can be expressed with.
    """
    _check_factors(factors)
    found = find_family(name)
    if construction not in ("paper", "tight"):
        raise ConfigError(f"construction must be paper or tight, not {construction!r}")
    if found.name == "rescal":
        return _rescal_of(factors)
    if found.name not in ("complex", "hole"):
        raise ConfigError(
            f"{found.title} is not consistent with every graph at any size: "
            f"{counterexample(found.name)}"
        )
    paper = construction == "paper"
    n, widths = len(factors[0].left), [factor.left.shape[1] for factor in factors]
    pairs = sum(min(n, 2 * width if paper else -(-3 * width // 2)) for width in widths)
    check_fits(found.name, mixed_size(found.name, pairs, 0), n, len(factors))
    slice_form = _paper_form if paper else _tight_form
    form = side_by_side([slice_form(factor) for factor in factors])
    return form.to_model(found.name)


def _rescal_of(factors: Sequence[Factors]) -> Model:
    """Entities (L₁ Q₁ … L_K Q_K), relations [[0, I], [0, 0]] in their own block."""
    n, widths = len(factors[0].left), [factor.left.shape[1] for factor in factors]
    dim = max(1, min(n, 2 * sum(widths)))
    check_fits("rescal", dim, n, len(factors))
    matrices = np.zeros((len(factors), dim, dim))
    if dim < 2 * sum(widths):  # A = I, as in Theorem 5
        for matrix, factor in zip(matrices, factors, strict=True):
            matrix[:] = factor.left @ factor.right.T
        entities = np.eye(n)
    else:
        entities = np.hstack([side for f in factors for side in (f.left, f.right)])
        entities = entities if entities.shape[1] else np.zeros((n, 1))
        start = 0
        for matrix, width in zip(matrices, widths, strict=True):
            d = start + np.arange(width)
            matrix[d, d + width] = 1
            start += 2 * width
    return Model(find_family("rescal"), dim, entities, matrices.reshape(len(factors), -1))


def _paper_form(factor: Factors) -> Mixed:
    """The product LQᵀ within the span of L and Q, by its Schur form."""
    n, width = factor.left.shape
    if 2 * width >= n:
        return by_schur(factor.left @ factor.right.T, np.eye(n))
    basis, triangle = np.linalg.qr(np.hstack([factor.left, factor.right]))
    return by_schur(triangle[:, :width] @ triangle[:, width:].T, basis)


def _tight_form(factor: Factors) -> Mixed:
    n, width = factor.left.shape
    if -(-3 * width // 2) > inertia_bound(n):
        return by_inertia(factor.left @ factor.right.T, np.eye(n))
    return by_factors(factor.left, factor.right)


def _check_factors(factors: Sequence[Factors]) -> None:
    if not factors:
        raise DataError("a consistent model needs the factors of at least one relation (K ≥ 1)")
    n = len(factors[0].left)
    if n < 2:
        raise DataError("consistency needs at least two entities (N ≥ 2)")
    for k, factor in enumerate(factors):
        left, right = factor.left, factor.right
        if left.ndim != 2 or left.shape != right.shape or len(left) != n:
            raise DataError(
                f"the factors of relation {k} have shapes {left.shape} and {right.shape}; both "
                f"must have one row for each of the {n:,} entities, and equally many columns"
            )
        if not (np.isfinite(left).all() and np.isfinite(right).all()):
            raise DataError(f"the factors of relation {k} hold numbers that are not finite")
