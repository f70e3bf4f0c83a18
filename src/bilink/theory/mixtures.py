"""A relation-level ensemble as one RESCAL model of the summed size.

Entities are the members' entities side by side; the matrix of a relation has the members' matrices,
each times its weight, along its diagonal.
"""

from collections.abc import Sequence

import numpy as np

from bilink.errors import ConfigError
from bilink.models.model import Model
from bilink.theory.conversions import Certificate, compare, convert
from bilink.theory.sizes import check_fits


def mixture_as_rescal(members: Sequence[Model], weights: np.ndarray) -> tuple[Model, Certificate]:
    """The mixture Σ weights[k, m] · score of member m, as RESCAL, and the certificate."""
    if not members or weights.shape != (len(members[0].relations), len(members)):
        raise ConfigError("a mixture needs members, and a weight for each relation and member")
    parts = [
        member if member.family.name == "rescal" else convert(member, "rescal")[0]
        for member in members
    ]
    dim, n, k = sum(part.dim for part in parts), len(parts[0].entities), len(weights)
    check_fits("rescal", dim, n, k)
    matrices = np.zeros((k, dim, dim))
    end = 0
    for i, part in enumerate(parts):
        start, end = end, end + part.dim
        block = part.relations.reshape(k, part.dim, part.dim).astype(np.float64)
        matrices[:, start:end, start:end] = weights[:, i, None, None] * block
    entities = np.hstack([part.entities.astype(np.float64) for part in parts])
    made = Model(Model.empty("rescal", 1, 0, 0).family, dim, entities, matrices.reshape(k, -1))

    def score(triples: np.ndarray) -> np.ndarray:
        scores = np.stack([part.score(triples) for part in parts], axis=1)
        return np.einsum("ij,ij->i", scores, weights[triples[:, 1]])

    deviation, compared = compare(score, made, "scores")
    return made, Certificate(
        source="ensemble",
        source_dim=sum(member.dim for member in members),
        target="rescal",
        dim=dim,
        construction="tight",
        level="scores",
        deviation=deviation,
        compared=compared,
    )
