"""Universality: which families can express every ranking, of what size, and why others cannot.

A family is universal at a size if every ranking tensor is the ranking of one of its models of that
size.  RESCAL, ComplEx and HolE are, if they are large enough; DistMult and TransE are at no size.
"""

import numpy as np

from bilink.errors import ConfigError
from bilink.models.model import Model
from bilink.models.registry import family as find_family
from bilink.theory import slices
from bilink.theory.counterexamples import counterexample
from bilink.theory.rankings import check_ranking, score_tensor

UNIVERSAL = ("rescal", "hole", "complex")


def represent(ranking: np.ndarray, name: str, construction: str = "tight") -> Model:
    """A model, in double precision, whose scores are −ranking, so that it has this ranking.

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
    size = n if found.name == "rescal" else slices.mixed_size(found.name, k * n, 0)
    slices.check_fits(found.name, size, n, k)
    scores = -ranks.astype(np.float64)
    if found.name == "rescal":  # A = I and R_k = −P_k
        return Model(found, n, np.eye(n), scores.reshape(k, n * n))
    if construction == "tight" and n * (n + 1) // 2 <= k * slices.inertia_bound(n):
        form = slices.shared_coordinates(scores, np.eye(n))
    else:
        each = slices.by_schur if construction == "paper" else slices.by_inertia
        form = slices.side_by_side([each(part, np.eye(n)) for part in scores])
    model = form.to_model(found.name)
    off = abs(score_tensor(model) - scores).max()
    if not off < 0.25:  # ranks are 1 apart
        raise ConfigError(
            f"double precision is not enough for this ranking of {n:,} entities: a score is "
            f"{off:.1g} away from its rank"
        )
    return model
