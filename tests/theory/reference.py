"""Slow, obvious scores of the paper's models, and random models; uses nothing of bilink.theory."""

import numpy as np
from hypothesis import strategies as st

import naive
from bilink.models.model import Model
from bilink.models.registry import family

seeds = st.integers(0, 2**32 - 1)
NAMES = ("rescal", "distmult", "hole", "complex", "transe")


def whole(seed, *shape):
    """Integers from −4 to 4 as floating-point numbers, with which small sums are exact."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float64)


def model_of(name, dim, entities, relations):
    """A model of the paper's own parameters (HolE: real vectors)."""
    found = family(name)
    entities, relations = found.restore(entities, relations)
    return Model(found, dim, entities, relations)


def random_model(name, dim, seed, n_entities=4, n_relations=2, integers=True):
    widths = family(name).widths(dim)
    shapes = (n_entities, widths[0]), (n_relations, widths[1])
    if integers:
        return model_of(name, dim, *(whole([seed, i], *shape) for i, shape in enumerate(shapes)))
    random = np.random.default_rng(seed)
    return model_of(name, dim, *(random.normal(size=shape) for shape in shapes))


def scores(model):
    """The scoring tensor by the formulas of tests/naive.py, triple by triple."""
    entities, relations = model.entities, model.relations
    entities, relations = model.family.export(entities, relations)
    name = model.family.name
    return np.array(
        [[[naive.score(name, h, r, t) for t in entities] for h in entities] for r in relations]
    )


def invariants(slices):
    """(largest rank of a slice, dimension of the symmetric parts, of the antisymmetric parts)."""
    small = 1e-9 * abs(slices).max() * slices.size
    flipped = slices.transpose(0, 2, 1)
    parts = [(slices + sign * flipped).reshape(len(slices), -1) for sign in (1, -1)]
    return (
        max(int(np.linalg.matrix_rank(s, tol=small)) for s in slices),
        *(int(np.linalg.matrix_rank(part, tol=small)) for part in parts),
    )
