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
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from bilink.errors import ConfigError, DataError
from bilink.models.model import Model
from bilink.models.registry import family as find_family
from bilink.theory import sizes, translations
from bilink.theory.counterexamples import counterexample
from bilink.theory.mixed import Mixed, mixed_of, side_by_side
from bilink.theory.rankings import yardstick
from bilink.theory.sizes import Size, check_fits
from bilink.theory.slices import by_inertia, shared_coordinates

Score = Callable[[np.ndarray], np.ndarray]  # triples of ids → scores
Level = Literal["scores", "scores up to a constant", "ranking", "refinement"]
Kind = Literal["paper", "tight", "refinement"]
SHIFTED: Level = "scores up to a constant"

SAMPLE = 20_000  # scores that a certificate compares
LARGEST_DEVIATION = 1e-5  # beyond that it is no conversion


@dataclass(frozen=True)
class Arrow:
    """How models of one family become models of another.

    ``size`` is the size that always suffices; ``build`` makes a model of it, or smaller.
    """

    source: str
    target: str
    kind: Kind
    size: Size
    level: Level
    build: Callable[[Model], Model]
    most: float = math.inf  # the largest source that it works for


@dataclass(frozen=True)
class Certificate:
    """What a conversion claims, and how far the scores were seen to be from the claim.

    ``deviation`` is the largest difference between the scores of source and target, as a share of
    the spread of the relation's scores, over ``compared`` triples.  Where the level allows a
    constant for each relation, it is taken off first; for a ranking or a refinement, the largest
    step down of the target's scores while the source's go up is taken instead.
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

    ``dim`` asks for a size; more than what is needed is filled up, less is refused.
    """
    _check_model(model)
    arrow = find_arrow(model, to, construction)
    needed = arrow.size(model.dim, len(model.relations))
    check_fits(arrow.target, max(needed, dim or 0), len(model.entities), len(model.relations))
    double = Model(model.family, model.dim, *_double(model))
    result = arrow.build(double)
    if dim is not None and dim != result.dim:
        result = grow(result, dim)
    off, compared = compare(double.score, result, arrow.level)
    if not off <= LARGEST_DEVIATION:
        raise DataError(
            f"double precision is not enough to convert this model: its scores as "
            f"{result.family.title} are off by {off:.1g} of their spread"
        )
    return result, Certificate(
        source=model.family.name,
        source_dim=model.dim,
        target=arrow.target,
        dim=result.dim,
        construction=arrow.kind,
        level=arrow.level,
        deviation=off,
        compared=compared,
    )


def find_arrow(model: Model, to: str, construction: str = "tight") -> Arrow:
    """The arrow that fits, the smallest if there are several; or an error that says why not."""
    source, target = model.family, find_family(to)
    kinds = ("paper", "tight", "refinement")
    if construction not in kinds:
        raise ConfigError(f"construction must be one of {', '.join(kinds)}, not {construction!r}")
    if "transe-l1" in (source.name, target.name):
        raise ConfigError(
            "TransE with the Manhattan distance is no bilinear form; the theory has no arrow from "
            "it or to it"
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

    Zeros at the end do this for all but HolE, where they would change the correlation; it gets
    zeros among its Fourier coordinates.
    """
    if dim < model.dim:
        raise ConfigError(
            f"size {dim} is below the bound: this {model.family.title} model needs {model.dim}"
        )
    entities, relations = _double(model)
    if model.family.name in ("hole", "complex"):
        return mixed_of(model).to_model(model.family.name, dim)
    more = dim - model.dim
    if model.family.name == "rescal":
        square = relations.reshape(-1, model.dim, model.dim)
        relations = np.pad(square, ((0, 0), (0, more), (0, more))).reshape(len(relations), -1)
    else:
        relations = np.pad(relations, ((0, 0), (0, more)))
    return Model(model.family, dim, np.pad(entities, ((0, 0), (0, more))), relations)


def compare(score: Score, target: Model, level: Level) -> tuple[float, int]:
    """The certificate's deviation, over all triples or a fixed sample of each relation's."""
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


def deviation(was: np.ndarray, now: np.ndarray, level: Level) -> float:
    """How far ``now`` is from what ``level`` allows it to be, as in ``Certificate``."""
    gaps, spread = now - was, yardstick(was)
    if level == "scores":
        return float(abs(gaps).max()) / spread
    if level == SHIFTED:
        return float(np.ptp(gaps)) / 2 / spread
    ties = -now if level == "ranking" else now  # ties of the source count, or do not
    climbing = now[np.lexsort((ties, was))]
    fall = np.maximum.accumulate(climbing) - climbing
    return float(fall.max()) / yardstick(now)


def _double(model: Model) -> tuple[np.ndarray, np.ndarray]:
    return model.entities.astype(np.float64), model.relations.astype(np.float64)


def _check_model(model: Model) -> None:
    if len(model.entities) < 2 or len(model.relations) < 1:
        raise DataError(
            f"the theory speaks of at least two entities and one relation (N ≥ 2, K ≥ 1), not "
            f"{len(model.entities)} and {len(model.relations)}"
        )
    if not (np.isfinite(model.entities).all() and np.isfinite(model.relations).all()):
        raise DataError("the model holds numbers that are not finite, so it has no scores")


# -- constructions -------------------------------------------------------------------------------


def _same(model: Model) -> Model:
    return model


def _rearranged(target: str) -> Callable[[Model], Model]:
    """DistMult, ComplEx and HolE differ in the arrangement of their coordinates alone."""
    return lambda model: mixed_of(model).to_model(target)


def _shared(target: str) -> Callable[[Model], Model]:
    """A coordinate for each entry of R and its mirror image, for all relations together."""
    return lambda model: shared_coordinates(_matrices(model), model.entities).to_model(target)


def _each_relation(target: str) -> Callable[[Model], Model]:
    """Coordinates for each relation, by the inertia of its matrix; better for few relations."""

    def build(model: Model) -> Model:
        parts = [by_inertia(matrix, model.entities) for matrix in _matrices(model)]
        return side_by_side(parts).to_model(target)

    return build


def _matrices(model: Model) -> np.ndarray:
    return model.relations.reshape(-1, model.dim, model.dim)


def _circulant(model: Model) -> Model:
    """Theorem 3: (R_k)[u, t] = r_k[(t − u) mod r], on the paper's real vectors."""
    entities, relations = model.family.export(model.entities, model.relations)
    d = np.arange(model.dim)
    matrices = relations[:, (d[None, :] - d[:, None]) % model.dim]
    return Model(find_family("rescal"), model.dim, entities, matrices.reshape(len(matrices), -1))


def _full_transform(model: Model) -> Model:
    """Hayashi and Shimbo: all r Fourier coefficients, though half are conjugates of the others."""
    entities, relations = model.family.export(model.entities, model.relations)
    none = np.empty((len(entities), 0)), np.empty((len(relations), 0))
    pairs, weights = np.fft.fft(entities), np.fft.fft(relations) / model.dim
    return Mixed(pairs, weights, *none).to_model("complex")


def _circulant_through_hole(model: Model) -> Model:
    """Corollary 1."""
    return _circulant(mixed_of(model).to_model("hole"))


def _hole_through_complex(model: Model) -> Model:
    return mixed_of(mixed_of(model).to_model("complex")).to_model("hole")


def _angles_in_hole(model: Model) -> Model:
    return mixed_of(translations.to_angles(model)).to_model("hole")


def _real_only(model: Model) -> Model:
    """RESCAL of size 1, and HolE of sizes 1 and 2, have real coordinates only."""
    return Model(find_family("distmult"), model.dim, model.entities, model.relations)


def _by_matrix(model: Model) -> Model:
    """Any bilinear form is a RESCAL: its relation matrices, on the rows that they act on."""
    entities = model.family.form.candidates(model.entities)
    matrices = np.array([model.family.matrix(row).ravel() for row in model.relations])
    return Model(find_family("rescal"), entities.shape[1], entities, matrices)


IN_TABLE_1 = {"rescal", "distmult", "hole", "complex", "transe"}
_EVERY: tuple[Kind, ...] = ("paper", "tight")
ARROWS: tuple[Arrow, ...] = (
    *(
        Arrow(name, name, kind, sizes.SAME, "scores", _same)
        for name in sorted(IN_TABLE_1)
        for kind in _EVERY
    ),
    Arrow(
        "transe", "rescal", "paper", sizes.DOUBLE_PLUS_ONE, SHIFTED, translations.to_rescal_paper
    ),
    Arrow("transe", "rescal", "tight", sizes.PLUS_TWO, "scores", translations.to_rescal),
    Arrow("transe", "rescal", "refinement", sizes.PLUS_ONE, "refinement", translations.to_sphere),
    Arrow("transe", "complex", "tight", sizes.PLUS_ONE, SHIFTED, translations.to_complex),
    Arrow("transe", "complex", "tight", sizes.SAME, "ranking", translations.to_angles, most=1),
    Arrow("transe", "complex", "refinement", sizes.SAME, "refinement", translations.to_angles),
    Arrow("transe", "hole", "tight", sizes.DOUBLE_PLUS_TWO, SHIFTED, translations.to_hole),
    Arrow("transe", "hole", "tight", sizes.DOUBLE_PLUS_ONE, "ranking", _angles_in_hole, most=1),
    Arrow("transe", "hole", "refinement", sizes.DOUBLE_PLUS_ONE, "refinement", _angles_in_hole),
    Arrow("hole", "rescal", "paper", sizes.SAME, "scores", _circulant),
    Arrow("hole", "rescal", "tight", sizes.SAME, "scores", _rearranged("rescal")),
    Arrow("hole", "complex", "paper", sizes.SAME, "scores", _full_transform),
    Arrow("hole", "complex", "tight", sizes.HALF, "scores", _rearranged("complex")),
    Arrow("complex", "rescal", "paper", sizes.DOUBLE_PLUS_ONE, "scores", _circulant_through_hole),
    Arrow("complex", "rescal", "tight", sizes.DOUBLE, "scores", _rearranged("rescal")),
    *(
        Arrow("complex", "hole", kind, sizes.DOUBLE_PLUS_ONE, "scores", _rearranged("hole"))
        for kind in _EVERY
    ),
    *(
        Arrow("distmult", target, kind, sizes.SAME, "scores", _rearranged(target))
        for target in ("rescal", "complex")
        for kind in _EVERY
    ),
    Arrow("distmult", "hole", "paper", sizes.DOUBLE_PLUS_ONE, "scores", _hole_through_complex),
    Arrow("distmult", "hole", "tight", sizes.REALS_IN_HOLE, "scores", _rearranged("hole")),
    Arrow("rescal", "complex", "tight", sizes.TRIANGLE, "scores", _shared("complex")),
    Arrow("rescal", "complex", "tight", sizes.EACH, "scores", _each_relation("complex")),
    Arrow("rescal", "hole", "tight", sizes.TRIANGLE_IN_HOLE, "scores", _shared("hole")),
    Arrow("rescal", "hole", "tight", sizes.EACH_IN_HOLE, "scores", _each_relation("hole")),
    Arrow("analogy", "rescal", "tight", sizes.SAME, "scores", _by_matrix),
    Arrow("cp", "rescal", "tight", sizes.DOUBLE, "scores", _by_matrix),
    Arrow("simple", "rescal", "tight", sizes.DOUBLE, "scores", _by_matrix),
    Arrow("quate", "rescal", "tight", sizes.QUADRUPLE, "scores", _by_matrix),
    Arrow("rotate", "rescal", "tight", sizes.DOUBLE_PLUS_TWO, "scores", _by_matrix),
    Arrow("rescal", "distmult", "tight", sizes.SAME, "scores", _real_only, most=1),
    Arrow("hole", "distmult", "tight", sizes.SAME, "scores", _real_only, most=2),
)
_BY_MATRIX = {a.source for a in ARROWS if a.build is _by_matrix}
