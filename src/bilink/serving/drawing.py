"""Vectors and facts as pictures: the map of all entities, and the surroundings of one."""

from dataclasses import dataclass

import numpy as np

from bilink.models.scorer import Scorer
from bilink.serving.facts import Facts

CLUSTERS = 10
MAP_POINTS = 10_000
_AXES = 32  # principal axes that clusters are looked for in
_NEAREST = 12  # that draw a point
_PUSHES = 6  # others that push it away in each round
_REPULSION = 10.0
_ROUNDS = 150


def directions(scorer: Scorer) -> np.ndarray:
    """The entities' vectors, centred and of length one, so that products are similarities.

    An ensemble's vectors stand side by side, each member's block with the same size.
    """
    members = getattr(scorer, "members", (scorer,))
    parts = []
    for member in members:
        part = member.candidates.astype(np.float32)
        part = part - part.mean(axis=0)
        parts.append(part / max(float(np.sqrt((part**2).sum(axis=1).mean())), 1e-30))
    rows = np.hstack(parts)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30)


@dataclass(frozen=True, eq=False)
class Map:
    """A place in the plane and a cluster for some of the entities, the best connected ones."""

    ids: np.ndarray
    places: np.ndarray  # (n, 2), within [-1, 1]
    clusters: np.ndarray  # the largest is number 0


def draw_map(vectors: np.ndarray, degrees: np.ndarray) -> Map:
    """Entities with similar directions near each other, in clusters of these directions."""
    ids = np.sort(np.lexsort((np.arange(len(degrees)), -degrees))[:MAP_POINTS])
    chosen = vectors[ids] - vectors[ids].mean(axis=0)
    reduced = chosen @ _main_axes(chosen)
    places = _arrange(chosen, reduced[:, :2])
    places -= (places.max(axis=0) + places.min(axis=0)) / 2
    return Map(ids, places / max(float(np.abs(places).max(initial=0)), 1e-30), _clusters(reduced))


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
    """From the two main axes, let each point move to its nearest ones, and away from any others.

    The forces are those of UMAP (McInnes et al., 2018) with a = b = 1, all points at once: far
    groups tell little about each other, near points are alike.
    """
    from sklearn.neighbors import NearestNeighbors

    n = len(vectors)
    start = np.pad(start, ((0, 0), (0, 2 - start.shape[1])))
    if n <= 3:
        return start
    k = min(_NEAREST, n - 1)
    near = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(vectors)
    tails = near.kneighbors(return_distance=False).ravel()  # no point is its own
    heads = np.repeat(np.arange(n), k)
    random = np.random.default_rng(0)
    places = 3 * start / max(float(start.std()), 1e-30)
    places += random.normal(scale=0.05, size=places.shape)  # so that no two are in one place
    for turn in range(_ROUNDS):
        step = 1 - turn / _ROUNDS
        gap = places[tails] - places[heads]
        pull = gap * (2 / (1 + (gap**2).sum(axis=1, keepdims=True)))
        others = random.integers(0, n, (n, _PUSHES))
        away = places[:, None] - places[others]
        square = (away**2).sum(axis=2, keepdims=True)
        push = np.clip(away * (_REPULSION / ((0.05 + square) * (1 + square))), -4, 4).sum(axis=1)
        for axis in range(2):
            drawn = np.bincount(heads, pull[:, axis], n) - np.bincount(tails, pull[:, axis], n)
            places[:, axis] += step * np.clip(drawn / k + push[:, axis], -3, 3)
    return places


def surroundings(facts: Facts, centre: int, size: int) -> tuple[list[int], list[list[int]]]:
    """Up to ``size`` neighbours, taken in turn from each relation and direction, and the edges.

    Edges are (head, relation, tail) with places in the list of nodes, whose first is the centre.
    """
    groups = [group["others"] for group in facts.groups(centre)]
    nodes, turn = {centre: 0}, 0
    while len(nodes) <= size and any(turn < len(group) for group in groups):
        for group in groups:
            if turn < len(group) and len(nodes) <= size:
                nodes.setdefault(int(group[turn]), len(nodes))
        turn += 1
    wanted = np.fromiter(nodes, dtype=np.int64)
    places = [facts.out_of(i) for i in nodes]
    rows = facts.triples[np.concatenate(places)]
    rows = rows[np.isin(rows[:, 2], wanted)]
    return list(nodes), [[nodes[h], r, nodes[t]] for h, r, t in rows.tolist()]
