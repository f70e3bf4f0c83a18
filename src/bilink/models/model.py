"""A model: a family and its parameters."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bilink.errors import ConfigError, DataError
from bilink.models.registry import Family
from bilink.models.registry import family as find_family
from bilink.models.scorer import ModelScorer


@dataclass(frozen=True, eq=False)
class Model:
    """Embeddings of entities and relations, and the family that says what they score.

    ``entities`` has shape (N, width) and ``relations`` (K, width), with the widths of
    ``family.widths(dim)``; both have the same precision, float32 or float64.
    """

    family: Family
    dim: int
    entities: np.ndarray
    relations: np.ndarray

    def __post_init__(self) -> None:
        wanted = self.family.widths(self.dim)
        found = (self.entities.shape[1:], self.relations.shape[1:])
        if found != tuple((width,) for width in wanted):
            raise DataError(
                f"{self.family.title} of dim {self.dim} has {wanted[0]} parameters per entity and "
                f"{wanted[1]} per relation, not {found[0]} and {found[1]}"
            )
        if self.entities.dtype != self.relations.dtype:
            raise DataError("entities and relations must have the same precision")

    @classmethod
    def empty(cls, name: str, dim: int, n_entities: int, n_relations: int) -> "Model":
        """A model of zeros."""
        if dim < 1:
            raise ConfigError(f"dim must be at least 1, not {dim}")
        found = find_family(name)
        entity_width, relation_width = found.widths(dim)
        return cls(
            family=found,
            dim=dim,
            entities=np.zeros((n_entities, entity_width), dtype=np.float32),
            relations=np.zeros((n_relations, relation_width), dtype=np.float32),
        )

    @cached_property
    def scorer(self) -> ModelScorer:
        """The scorer of the present parameters; make the model anew when they change."""
        return ModelScorer(self.family, self.entities, self.relations)

    def score(self, triples: np.ndarray) -> np.ndarray:
        """The score of each (head, relation, tail); higher is more likely."""
        return self.scorer.score(triples)

    def is_finite(self) -> bool:
        """Whether all parameters are finite numbers."""
        # A NaN anywhere is the minimum and the maximum.
        ends = [f() for x in (self.entities, self.relations) if x.size for f in (x.min, x.max)]
        return bool(np.isfinite(ends).all())

    def __repr__(self) -> str:
        return (
            f"Model({self.family.title}, dim={self.dim}, {len(self.entities):,} entities, "
            f"{len(self.relations):,} relations)"
        )
