"""One model as another: every arrow between families, with a certificate.

``ARROWS`` is the table.  An arrow's ``kind`` is "paper" for the construction of Wang et al. (2018)
or of the papers it cites, "tight" for the smallest one known, and "refinement" for a smaller model
that keeps strict inequalities only.  What holds is one of four levels:

    scores                     the scores are equal
    scores up to a constant    equal after a shift for each relation; hence the same ranking
    ranking                    the order of each relation's pairs is the same, ties included
    refinement                 every strict inequality is kept; ties may be broken
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from scipy.linalg import block_diag

from bilink.errors import ConfigError, DataError
from bilink.models.model import Model
from bilink.models.registry import family as find_family
from bilink.theory import slices, translations
from bilink.theory.counterexamples import counterexample
from bilink.theory.rankings import SHIFTED, Level, deviation

Score = Callable[[np.ndarray], np.ndarray]  # triples of ids → scores
Build = Callable[[Model], Model]
Kind = Literal["paper", "tight", "refinement"]

SAMPLE = 20_000  # scores that a certificate compares
LARGEST_DEVIATION = 1e-5  # beyond that it is no conversion

# Sizes as the theorems write them, for a source of size r with K relations.
SIZES: dict[str, Callable[[int, int], int]] = {
    "r": lambda r, k: r,
    "r + 1": lambda r, k: r + 1,
    "r + 2": lambda r, k: r + 2,
    "2r": lambda r, k: 2 * r,
    "2r + 1": lambda r, k: 2 * r + 1,
    "2r + 2": lambda r, k: 2 * r + 2,
    "4r": lambda r, k: 4 * r,
    "⌊r/2⌋ + 1": lambda r, k: r // 2 + 1,
    "2r − 2 (1 if r = 1)": lambda r, k: slices.mixed_size("hole", 0, r),
    "r(r + 1)/2": lambda r, k: r * (r + 1) // 2,
    "r(r + 1) − 2 (1 if r = 1)": lambda r, k: slices.mixed_size("hole", r * (r - 1) // 2, r),
    "K f(r)": lambda r, k: k * slices.inertia_bound(r),
    "2K f(r) + 1": lambda r, k: 2 * k * slices.inertia_bound(r) + 1,
}


@dataclass(frozen=True)
class Arrow:
    """How models of one family become models of another.

    ``formula``, one of ``SIZES``, is a size that always suffices; ``build`` makes a model of that
    size or smaller.
    """

    source: str
    target: str
    kind: Kind
    formula: str
    level: Level
    build: Build
    most: float = math.inf  # the largest source that it works for

    def size(self, r: int, k: int) -> int:
        """The formula's value for a source of size r with K relations."""
        return SIZES[self.formula](r, k)


@dataclass(frozen=True)
class Certificate:
    """What a conversion claims, and how far the computed scores are from the claim.

    ``deviation`` is that of ``rankings.deviation``, the largest of all relations, over ``compared``
    triples.
    """

    source: str
    source_dim: int
    target: str
    dim: int
    construction: str
    level: Level
    deviation: float
    compared: int

    def to_dict(self) -> dict[str, Any]:
        """As ``bilink theory convert --json`` prints it."""
        return asdict(self)


def convert(
    model: Model, to: str, construction: str = "tight", dim: int | None = None
) -> tuple[Model, Certificate]:
    """``model`` as a model of the family ``to``, in double precision, and the certificate.

    ``dim`` asks for a size: a larger one than needed is padded, a smaller one is refused.
    """
    _check_model(model)
    arrow = find_arrow(model, to, construction)
    n, k = len(model.entities), len(model.relations)
    needed = arrow.size(model.dim, k)
    slices.check_fits(arrow.target, max(needed, dim or 0), n, k)
    double = _double(model)
    result = arrow.build(double)
    if dim is not None and dim != result.dim:
        result = grow(result, dim)
    off, compared = compare(double.score, result, arrow.level)
    if not off <= LARGEST_DEVIATION:
        raise DataError(
            f"double precision is not enough to convert this model: its scores as "
            f"{result.family.title} are off by {off:.1g} of their spread"
        )
    sizes = arrow.source, model.dim, arrow.target, result.dim
    return result, Certificate(*sizes, arrow.kind, arrow.level, off, compared)


def mixture_as_rescal(members: Sequence[Model], weights: np.ndarray) -> tuple[Model, Certificate]:
    """The mixture Σ weights[k, m] · score of member m as one RESCAL model, and the certificate.

    Entities are the members' entities side by side; the matrix of a relation has the members'
    matrices, each times its weight, along its diagonal.  So the size is the sum of the members'.
    """
    if not members or weights.shape != (len(members[0].relations), len(members)):
        raise ConfigError("a mixture needs members, and a weight for each relation and member")
    parts = [
        member if member.family.name == "rescal" else convert(member, "rescal")[0]
        for member in members
    ]
    dim, n, k = sum(part.dim for part in parts), len(parts[0].entities), len(weights)
    slices.check_fits("rescal", dim, n, k)
    blocks = [weights[:, i, None, None] * _matrices(part) for i, part in enumerate(parts)]
    matrices = [block_diag(*one).ravel() for one in zip(*blocks, strict=True)]
    entities = np.hstack([part.entities.astype(np.float64) for part in parts])
    made = Model(find_family("rescal"), dim, entities, np.array(matrices))

    def score(triples: np.ndarray) -> np.ndarray:
        scores = np.stack([part.score(triples) for part in parts], axis=1)
        return np.einsum("ij,ij->i", scores, weights[triples[:, 1]])

    size = sum(member.dim for member in members)
    off, compared = compare(score, made, "scores")
    return made, Certificate("ensemble", size, "rescal", dim, "tight", "scores", off, compared)


def find_arrow(model: Model, to: str, construction: str = "tight") -> Arrow:
    """The arrow that applies, of several the smallest; or an error that says why there is none."""
    source, target = model.family, find_family(to)
    kinds = ("paper", "tight", "refinement")
    if construction not in kinds:
        raise ConfigError(f"construction must be one of {', '.join(kinds)}, not {construction!r}")
    for end in (source, target):
        if not end.form.is_product:
            raise ConfigError(
                f"{end.title} is no bilinear form; the theory has no arrow from it or to it"
            )
    between = [a for a in ARROWS if (a.source, a.target) == (source.name, target.name)]
    between = [a for a in between if model.dim <= a.most]
    if not between and not {source.name, target.name} <= IN_TABLE_1:
        way = "; convert it to rescal first" if source.name in _BY_MATRIX else ""
        raise ConfigError(f"no arrow from {source.title} to {target.title} is implemented{way}")
    if not between:
        raise ConfigError(
            f"no size of {target.title} is enough for {source.title} of size {model.dim}: "
            f"{counterexample(target.name)}"
        )
    fitting = [a for a in between if a.kind == construction]
    if not fitting:
        known = ", ".join(sorted({a.kind for a in between}))
        raise ConfigError(
            f"there is no {construction!r} construction of {target.title} from {source.title}; "
            f"there is: {known}"
        )
    return min(fitting, key=lambda a: a.size(model.dim, len(model.relations)))


def grow(model: Model, dim: int) -> Model:
    """The same scores in a larger model of the same family.

    Most families are padded with zeros at the end.  In HolE these would change the correlation, so
    its Fourier coordinates are padded.
    """
    if dim < model.dim:
        raise ConfigError(
            f"size {dim} is below the bound: this {model.family.title} model needs {model.dim}"
        )
    if model.family.name in ("hole", "complex"):
        return slices.mixed_of(model).to_model(model.family.name, dim)
    old, more = _double(model), (0, dim - model.dim)
    relations = np.pad(old.relations, ((0, 0), more))
    if model.family.name == "rescal":
        relations = np.pad(_matrices(old), ((0, 0), more, more)).reshape(len(relations), -1)
    return Model(model.family, dim, np.pad(old.entities, ((0, 0), more)), relations)


def compare(score: Score, target: Model, level: Level) -> tuple[float, int]:
    """The certificate's deviation and number of triples: all, or a sample of each relation's."""
    n, k = len(target.entities), len(target.relations)
    random = np.random.default_rng(0)
    each = min(n * n, max(2, SAMPLE // max(1, k)))
    worst = 0.0
    for relation in range(k):
        cells = np.arange(n * n) if each == n * n else random.integers(0, n * n, each)
        triples = np.stack([cells // n, np.full(each, relation), cells % n], axis=1)
        was, now = score(triples), target.score(triples)
        worst = max(worst, deviation(was, now, level))
    return worst, each * k


def _double(model: Model) -> Model:
    arrays = (x.astype(np.float64) for x in (model.entities, model.relations))
    return Model(model.family, model.dim, *arrays)


def _check_model(model: Model) -> None:
    if len(model.entities) < 2 or len(model.relations) < 1:
        raise DataError(
            f"the theory speaks of at least two entities and one relation (N ≥ 2, K ≥ 1), not "
            f"{len(model.entities)} and {len(model.relations)}"
        )
    if not (np.isfinite(model.entities).all() and np.isfinite(model.relations).all()):
        raise DataError("the model holds numbers that are not finite, so it has no scores")


# -- constructions -------------------------------------------------------------------------------


def _written(target: str, form: Callable[[Model], slices.Mixed] = slices.mixed_of) -> Build:
    """The common form of a model, written as a model of the family ``target``.

    DistMult, ComplEx and HolE differ only in how their coordinates are arranged.
    """
    return lambda model: form(model).to_model(target)


def _shared(model: Model) -> slices.Mixed:
    """A coordinate for each entry of R and its mirror image, for all relations together."""
    return slices.shared_coordinates(_matrices(model), model.entities)


def _each_relation(model: Model) -> slices.Mixed:
    """Coordinates for each relation, by the inertia of its matrix; better for few relations."""
    return slices.side_by_side([slices.by_inertia(x, model.entities) for x in _matrices(model)])


def _matrices(model: Model) -> np.ndarray:
    return model.relations.reshape(-1, model.dim, model.dim).astype(np.float64, copy=False)


def _circulant(model: Model) -> Model:
    """Theorem 3: (R_k)[u, t] = r_k[(t − u) mod r], on the paper's real vectors."""
    entities, relations = model.family.export(model.entities, model.relations)
    d = np.arange(model.dim)
    matrices = relations[:, (d[None, :] - d[:, None]) % model.dim]
    return Model(find_family("rescal"), model.dim, entities, matrices.reshape(len(matrices), -1))


def _full_transform(model: Model) -> Model:
    """Hayashi and Shimbo: all r Fourier coefficients, though half are conjugates of the others."""
    entities, relations = model.family.export(model.entities, model.relations)
    pairs, weights = np.fft.fft(entities), np.fft.fft(relations) / model.dim
    return slices.Mixed.of_pairs(pairs, weights).to_model("complex")


def _through(first: Build, then: Build) -> Build:
    """One construction after the other."""
    return lambda model: then(first(model))


def _real_only(model: Model) -> Model:
    """RESCAL of size 1, and HolE of sizes 1 and 2, have real coordinates only."""
    return Model(find_family("distmult"), model.dim, model.entities, model.relations)


_to_complex, _to_hole = _written("complex"), _written("hole")
_angles_in_hole = _through(translations.to_angles, _to_hole)
_circulant_through_hole = _through(_to_hole, _circulant)  # Corollary 1
IN_TABLE_1 = {"rescal", "distmult", "hole", "complex", "transe"}
_EVERY: tuple[Kind, ...] = ("paper", "tight")
ARROWS: tuple[Arrow, ...] = (
    *(
        Arrow(name, name, kind, "r", "scores", lambda model: model)
        for name in sorted(IN_TABLE_1)
        for kind in _EVERY
    ),
    Arrow("transe", "rescal", "paper", "2r + 1", SHIFTED, translations.to_rescal_paper),
    Arrow("transe", "rescal", "tight", "r + 2", "scores", translations.to_rescal),
    Arrow("transe", "rescal", "refinement", "r + 1", "refinement", translations.to_sphere),
    Arrow("transe", "complex", "tight", "r + 1", SHIFTED, translations.to_complex),
    Arrow("transe", "complex", "tight", "r", "ranking", translations.to_angles, most=1),
    Arrow("transe", "complex", "refinement", "r", "refinement", translations.to_angles),
    Arrow("transe", "hole", "tight", "2r + 2", SHIFTED, translations.to_hole),
    Arrow("transe", "hole", "tight", "2r + 1", "ranking", _angles_in_hole, most=1),
    Arrow("transe", "hole", "refinement", "2r + 1", "refinement", _angles_in_hole),
    Arrow("hole", "rescal", "paper", "r", "scores", _circulant),
    Arrow("hole", "rescal", "tight", "r", "scores", _written("rescal")),
    Arrow("hole", "complex", "paper", "r", "scores", _full_transform),
    Arrow("hole", "complex", "tight", "⌊r/2⌋ + 1", "scores", _written("complex")),
    Arrow("complex", "rescal", "paper", "2r + 1", "scores", _circulant_through_hole),
    Arrow("complex", "rescal", "tight", "2r", "scores", _written("rescal")),
    *(Arrow("complex", "hole", kind, "2r + 1", "scores", _written("hole")) for kind in _EVERY),
    *(
        Arrow("distmult", target, kind, "r", "scores", _written(target))
        for target in ("rescal", "complex")
        for kind in _EVERY
    ),
    Arrow("distmult", "hole", "paper", "2r + 1", "scores", _through(_to_complex, _to_hole)),
    Arrow("distmult", "hole", "tight", "2r − 2 (1 if r = 1)", "scores", _written("hole")),
    Arrow("rescal", "complex", "tight", "r(r + 1)/2", "scores", _written("complex", _shared)),
    Arrow("rescal", "complex", "tight", "K f(r)", "scores", _written("complex", _each_relation)),
    Arrow(
        "rescal", "hole", "tight", "r(r + 1) − 2 (1 if r = 1)", "scores", _written("hole", _shared)
    ),
    Arrow("rescal", "hole", "tight", "2K f(r) + 1", "scores", _written("hole", _each_relation)),
    Arrow("analogy", "rescal", "tight", "r", "scores", translations.by_matrix),
    Arrow("cp", "rescal", "tight", "2r", "scores", translations.by_matrix),
    Arrow("simple", "rescal", "tight", "2r", "scores", translations.by_matrix),
    Arrow("quate", "rescal", "tight", "4r", "scores", translations.by_matrix),
    Arrow("rotate", "rescal", "tight", "2r + 2", "scores", translations.by_matrix),
    Arrow("rescal", "distmult", "tight", "r", "scores", _real_only, most=1),
    Arrow("hole", "distmult", "tight", "r", "scores", _real_only, most=2),
)
_BY_MATRIX = {a.source for a in ARROWS if a.build is translations.by_matrix}
