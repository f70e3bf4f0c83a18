"""Universality: which families can express every ranking, of what size, and why others cannot.

A family is universal at a size if every ranking tensor is the ranking of one of its models.
RESCAL, ComplEx and HolE are, if they are large enough; DistMult and TransE are not at any size.
"""

import numpy as np

from bilink.errors import ConfigError
from bilink.models.model import Model
from bilink.models.registry import family as find_family
from bilink.theory.counterexamples import counterexample
from bilink.theory.mixed import Mixed, mixed_size, side_by_side
from bilink.theory.rankings import check_ranking, score_tensor
from bilink.theory.sizes import check_fits
from bilink.theory.slices import by_inertia, by_schur, inertia_bound, shared_coordinates

UNIVERSAL = ("rescal", "hole", "complex")


def represent(ranking: np.ndarray, name: str, construction: str = "tight") -> Model:
    """A model, in double precision, whose scores are −ranking: so its ranking is this one.

    ``ranking`` has shape (K, N, N), or (N, N) for one relation.  The sizes are N for RESCAL
    (Th. 5); KN for ComplEx and 2KN + 1 for HolE with ``construction="paper"`` (Th. 7).  With
    "tight" they are about ¾ of that, or N(N + 1)/2 and N(N + 1) − 2 where these are smaller.
    """
    ranks = check_ranking(ranking)
    found = find_family(name)
    if found.name not in UNIVERSAL:
        shown = counterexample(found.name)
        raise ConfigError(f"{found.title} is universal at no size: {shown}")
    if construction not in ("paper", "tight"):
        raise ConfigError(f"construction must be paper or tight, not {construction!r}")
    k, n, _ = ranks.shape
    check_fits(found.name, n if found.name == "rescal" else mixed_size(found.name, k * n, 0), n, k)
    scores = -ranks.astype(np.float64)
    if found.name == "rescal":
        return _rescal(scores)
    form = _paper_form(scores) if construction == "paper" else _tight_form(scores)
    model = form.to_model(found.name)
    off = abs(score_tensor(model) - scores).max()
    if not off < 0.25:  # ranks are 1 apart
        raise ConfigError(
            f"double precision is not enough for this ranking of {ranks.shape[1]:,} entities: a "
            f"score is {off:.1g} away from its rank"
        )
    return model


def _rescal(scores: np.ndarray) -> Model:
    """A = I and R_k = −P_k."""
    k, n, _ = scores.shape
    return Model(find_family("rescal"), n, np.eye(n), scores.reshape(k, n * n))


def _paper_form(scores: np.ndarray) -> Mixed:
    return side_by_side([by_schur(part, np.eye(len(part))) for part in scores])


def _tight_form(scores: np.ndarray) -> Mixed:
    k, n, _ = scores.shape
    if n * (n + 1) // 2 <= k * inertia_bound(n):
        return shared_coordinates(scores, np.eye(n))
    return side_by_side([by_inertia(part, np.eye(n)) for part in scores])
