"""The map of the entities: a point in the plane for each one, near those with similar vectors."""

from dataclasses import dataclass

import numpy as np

from bilink.errors import TrainingError
from bilink.models.scorer import Scorer
from bilink.paths.scorer import PathScorer
from bilink.serving.cards import NOT_FINITE

CLUSTERS = 10
MAP_POINTS = 10_000
_AXES = 32  # principal axes of the space in which clusters are found
_NEAREST = 12  # neighbours that attract a point
_PUSHES = 6  # random others that repel it in each round
_REPULSION = 10.0
_ROUNDS = 150


def directions(scorer: Scorer) -> np.ndarray:
    """The entities' vectors, centred and of length one, so that products are similarities.

    An ensemble's vectors stand side by side, each member's block with the same size.  Rules have no
    vectors: there, entities that share facts are similar.
    """
    parts = []
    for member in getattr(scorer, "members", (scorer,)):
        if isinstance(member, PathScorer):
            part = _profiles(member)
        else:
            part = member.candidates.astype(np.float32)
        if not np.isfinite(part).all():
            raise TrainingError(NOT_FINITE)
        part = part - part.mean(axis=0)
        parts.append(part / max(float(np.sqrt((part**2).sum(axis=1).mean())), 1e-30))
    rows = np.hstack(parts)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30)


def _profiles(scorer: PathScorer) -> np.ndarray:
    """The main axes of what entities have: along which relation they go to which entity."""
    from scipy.sparse import csr_matrix
    from sklearn.decomposition import TruncatedSVD

    edges, reverse = scorer.adjacency.edges, scorer.adjacency.reverse
    starts = edges.group_start[edges.groups]
    shape = (scorer.n_entities, max(len(edges.group_relation), 2))
    facts = csr_matrix((np.ones(len(reverse), dtype=np.float32), reverse, starts), shape=shape)
    width = min(_AXES, *(size - 1 for size in shape))
    if width < 1 or not len(reverse):
        return np.zeros((scorer.n_entities, 1), dtype=np.float32)
    return TruncatedSVD(width, random_state=0).fit_transform(facts).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Map:
    """A point in the plane and a cluster for each of the best connected entities."""

    ids: np.ndarray
    points: np.ndarray  # (n, 2), within [-1, 1]
    clusters: np.ndarray  # the largest is number 0


def draw_map(vectors: np.ndarray, degrees: np.ndarray) -> Map:
    """Entities with similar directions near each other, in clusters of these directions."""
    ids = np.sort(np.lexsort((np.arange(len(degrees)), -degrees))[:MAP_POINTS])
    chosen = vectors[ids] - vectors[ids].mean(axis=0)
    reduced = chosen @ _main_axes(chosen)
    points = _arrange(chosen, reduced[:, :2])
    points -= (points.max(axis=0) + points.min(axis=0)) / 2
    return Map(ids, points / max(float(np.abs(points).max(initial=0)), 1e-30), _clusters(reduced))


def _main_axes(rows: np.ndarray) -> np.ndarray:
    """The principal axes of centred rows, as columns, each with its largest number positive."""
    _, axes = np.linalg.eigh((rows.T @ rows).astype(np.float64))
    axes = axes[:, ::-1][:, :_AXES]
    largest = axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])]
    return (axes * np.where(largest < 0, -1, 1)).astype(np.float32)


def _clusters(rows: np.ndarray) -> np.ndarray:
    from sklearn.cluster import MiniBatchKMeans

    wanted = min(CLUSTERS, len(np.unique(rows, axis=0)))
    found = MiniBatchKMeans(wanted, random_state=0, n_init=3).fit_predict(rows)
    by_size = np.argsort(-np.bincount(found, minlength=wanted), kind="stable")
    return np.argsort(by_size)[found]


def _arrange(vectors: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Starting on the two main axes, attract each point to its neighbours, repel it from others.

    The forces are those of UMAP (McInnes et al., 2018) with a = b = 1, on all points at once: near
    points are alike, but the distance of far groups means little.
    """
    from sklearn.neighbors import NearestNeighbors

    n = len(vectors)
    start = np.pad(start, ((0, 0), (0, 2 - start.shape[1])))
    if n <= 3:
        return start
    k = min(_NEAREST, n - 1)
    near = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(vectors)
    tails = near.kneighbors(return_distance=False).ravel()  # without the point itself
    heads = np.repeat(np.arange(n), k)
    random = np.random.default_rng(0)
    points = 3 * start / max(float(start.std()), 1e-30)
    points += random.normal(scale=0.05, size=points.shape)  # so that no two points coincide
    for turn in range(_ROUNDS):
        step = 1 - turn / _ROUNDS
        gap = points[tails] - points[heads]
        pull = gap * (2 / (1 + (gap**2).sum(axis=1, keepdims=True)))
        others = random.integers(0, n, (n, _PUSHES))
        away = points[:, None] - points[others]
        square = (away**2).sum(axis=2, keepdims=True)
        push = np.clip(away * (_REPULSION / ((0.05 + square) * (1 + square))), -4, 4).sum(axis=1)
        for axis in range(2):
            force = np.bincount(heads, pull[:, axis], n) - np.bincount(tails, pull[:, axis], n)
            points[:, axis] += step * np.clip(force / k + push[:, axis], -3, 3)
    return points
