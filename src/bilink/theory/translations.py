"""TransE as a bilinear model.

With q = ‖a‖², a TransE score is −‖a + r − a'‖² = 2⟨a, a'⟩ + 2⟨r, a' − a⟩ − q − q' − ‖r‖².  All but
the last term, a constant of the relation, is reproduced by the constructions here.

Distances do not change when all entities are shifted alike.  So the mean of the entities is
subtracted first, which makes rounding errors least; it is rounded, to keep whole numbers whole.
"""

import numpy as np

from bilink.models.model import Model
from bilink.models.registry import family as find_family
from bilink.theory.slices import Mixed

_EPSILON = float(np.finfo(np.float64).eps)


def to_rescal_paper(model: Model) -> Model:
    """Theorem 1: entities (1, …, 1, a, q), size 2r + 1."""
    a, relations = _centred(model), model.relations
    r = model.dim
    entities = np.hstack([np.ones_like(a), a, _squares(a)])
    matrices = np.zeros((len(relations), 2 * r + 1, 2 * r + 1))
    d = np.arange(r)
    matrices[:, d, r + d] = 2 * relations
    matrices[:, r + d, d] = -2 * relations
    matrices[:, r + d, r + d] = 2
    matrices[:, 0, -1] = matrices[:, -1, 0] = -1
    return Model(find_family("rescal"), 2 * r + 1, entities, matrices.reshape(len(matrices), -1))


def to_rescal(model: Model) -> Model:
    """Entities with the coordinates a, q and 1, size r + 2; the constant ‖r‖² is included."""
    return by_matrix(Model(model.family, model.dim, _centred(model), model.relations))


def by_matrix(model: Model) -> Model:
    """Any bilinear form as RESCAL: its relation matrices, on the rows that they act on.

    A squared distance is a bilinear form of rows with two more coordinates, ‖e‖² and 1.  Their
    order is the form's; nothing here depends on it.
    """
    entities = model.family.form.candidates(model.entities)
    matrices = np.array([model.family.matrix(row).ravel() for row in model.relations])
    return Model(find_family("rescal"), entities.shape[1], entities, matrices)


def to_hole(model: Model) -> Model:
    """Pairs 1 + ia of weight 2 + 2ir, and reals q − 1, q + 1 of weights ½, −½, which leave −q − q'.

    The scores are TransE's plus ‖r‖² + 2 dim.
    """
    a = _centred(model)
    q = _squares(a)
    halves = np.tile([0.5, -0.5], (len(model.relations), 1))
    form = Mixed(1 + 1j * a, 2 + 2j * model.relations, np.hstack([q - 1, q + 1]), halves)
    return form.to_model("hole")


def to_complex(model: Model) -> Model:
    """As in HolE, but two coordinates carry q together with the last column of a.

    The pairs (q − ½) + i·1.5a and (q + ½) + i·0.5a of weights 1 − 2ir/1.5 and −1 + 2ir/0.5 leave
    −q − q' + 2aa' + 2r(a' − a), since 1.5² − 0.5² = 2.
    """
    a, relations = _centred(model), model.relations
    q, last, turn = _squares(a), a[:, -1:], relations[:, -1:]
    pairs = [1 + 1j * a[:, :-1], (q - 0.5) + 1.5j * last, (q + 0.5) + 0.5j * last]
    weights = [2 + 2j * relations[:, :-1], 1 - 2j * turn / 1.5, -1 + 2j * turn / 0.5]
    return Mixed.of_pairs(np.hstack(pairs), np.hstack(weights)).to_model("complex")


def to_angles(model: Model) -> Model:
    """Coordinates as angles: Σ cos θ(a + r − a') = dim − θ²/2 ‖a + r − a'‖² + O(θ⁴), size r.

    With one coordinate the cosine falls with the distance up to π, so a wide angle keeps the whole
    ranking.  With more, θ is the fourth root of the precision, which makes the neglected terms and
    the rounding errors equally small.
    """
    a, r = _centred(model), model.dim
    wide = 2.0 if r == 1 else (24 * r * _EPSILON) ** 0.25
    theta = wide / _largest_distance(a, model.relations)
    weights = np.exp(1j * theta * model.relations) * (2 / theta**2)
    return Mixed.of_pairs(np.exp(1j * theta * a), weights).to_model("complex")


def to_sphere(model: Model) -> Model:
    """Entities on a sphere so large that it is nearly flat; relations are rotations, size r + 1."""
    a, relations, r = _centred(model), model.relations, model.dim
    radius = _largest_distance(a, relations) * _EPSILON**-0.25
    entities = np.hstack([a, np.sqrt(radius**2 - _squares(a))])
    matrices = np.empty((len(relations), r + 1, r + 1))
    for matrix, relation in zip(matrices, relations, strict=True):
        length = np.linalg.norm(relation)
        ahead = np.append(relation / (length or 1), 0)
        up = np.append(np.zeros(r), 1)
        cos, sin = np.cos(length / radius), np.sin(length / radius)
        turn = np.eye(r + 1) + sin * (np.outer(ahead, up) - np.outer(up, ahead))
        turn += (cos - 1) * (np.outer(ahead, ahead) + np.outer(up, up))
        matrix[:] = 2 * turn.T  # −‖Tx − y‖² = 2⟨Tx, y⟩ − 2 radius²
    return Model(find_family("rescal"), r + 1, entities, matrices.reshape(len(matrices), -1))


def _centred(model: Model) -> np.ndarray:
    return model.entities - np.round(model.entities.mean(axis=0))


def _squares(rows: np.ndarray) -> np.ndarray:
    return np.sum(rows**2, axis=1, keepdims=True)


def _largest_distance(a: np.ndarray, relations: np.ndarray) -> float:
    """A bound on every ‖a + r − a'‖."""
    entity, relation = (np.linalg.norm(x, axis=1).max(initial=0) for x in (a, relations))
    return float(2 * entity + relation) or 1.0
