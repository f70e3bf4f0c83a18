"""Vectors and facts as pictures: the map of all entities, and the surroundings of one."""

from dataclasses import dataclass

import numpy as np

from bilink.models.scorer import Scorer
from bilink.serving.facts import Facts

CLUSTERS = 10
MAP_POINTS = 20_000
_FITTED = 20_000  # rows that axes and clusters are fitted to
_AXES = 32  # principal axes that clusters are looked for in


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
    clusters: np.ndarray
    explained: float  # share of the vectors' variance that the plane shows


def draw_map(vectors: np.ndarray, degrees: np.ndarray) -> Map:
    """The two main axes of the vectors (PCA), and clusters of the vectors (k-means)."""
    from sklearn.cluster import MiniBatchKMeans

    ids = np.sort(np.lexsort((np.arange(len(degrees)), -degrees))[:MAP_POINTS])
    chosen = vectors[ids]
    sample = chosen[:: max(1, len(chosen) // _FITTED)]
    middle = sample.mean(axis=0)
    spread = (sample - middle).T @ (sample - middle)
    sizes, axes = np.linalg.eigh(spread.astype(np.float64))
    axes = axes[:, ::-1][:, :_AXES]
    axes *= np.where(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])] < 0, -1, 1)
    reduced = (chosen - middle) @ axes.astype(np.float32)
    places = np.zeros((len(ids), 2), dtype=np.float32)
    places[:, : min(2, reduced.shape[1])] = reduced[:, :2]
    places /= max(float(np.abs(places).max(initial=0)), 1e-30)
    total = max(float(sizes.sum()), 1e-30)
    wanted = min(CLUSTERS, len(np.unique(reduced, axis=0)))
    found = MiniBatchKMeans(wanted, random_state=0, n_init=3).fit_predict(reduced)
    by_size = np.argsort(-np.bincount(found, minlength=wanted), kind="stable")
    clusters = np.empty(wanted, dtype=np.int64)
    clusters[by_size] = np.arange(wanted)  # the largest is number 0
    return Map(ids, places, clusters[found], float(sizes[::-1][:2].sum()) / total)


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
