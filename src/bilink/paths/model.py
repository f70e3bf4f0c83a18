"""A path model: rules and the weights of their aggregation, in memory and as a file."""

import json
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from bilink._documents import parse_json
from bilink.data.graph import Graph
from bilink.errors import BilinkError, RunError
from bilink.models.scorer import SIDES, Side
from bilink.models.storage import load_tensors, save_with_digest
from bilink.paths.flows import FlowScorer
from bilink.paths.rules import MiningConfig, Rules
from bilink.paths.scorer import PathScorer
from bilink.paths.walking import CLUSTERS, FEATURES

NAME = "paths"
FORMAT, VERSION = "bilink-rules", 1
_CLUSTERS = FEATURES[CLUSTERS]  # a feature that files did not have at first


@dataclass(frozen=True, eq=False)
class PathModel:
    """Rules of a graph, and how they are weighed; a member of ensembles as a ``Model`` is."""

    rules: Rules
    weights: dict[Side, np.ndarray]
    chosen: dict[Side, list[str]]  # the aggregation of each relation
    graph: Graph  # whose training facts the rules walk along
    values: np.ndarray | None = None  # of paths that resource flows along; see ``flows``
    unit: float = 0.0  # of flow; 0 where the flow itself is the score

    @cached_property
    def scorer(self) -> PathScorer:
        """The scorer of these rules."""
        if self.values is not None:
            return FlowScorer(self.rules, self.graph, self.values, self.unit)
        return PathScorer(self.rules, self.graph, self.weights)

    def on(self, graph: Graph) -> "PathModel":
        """The same rules on a graph with more entities, relations or facts."""
        more = len(graph.relations) - self.rules.n_relations
        if not more:
            return replace(self, graph=graph)
        k = self.rules.n_relations  # inverse relations are numbered behind all others
        paths = self.rules.paths
        constants = self.rules.constants.copy()
        columns = constants[:, ::2]  # of directed relations; the others are entities
        columns[columns >= k] += more
        zeros = np.zeros((more, len(FEATURES)), dtype=self.weights["head"].dtype)
        return replace(
            self,
            rules=replace(
                self.rules,
                n_relations=k + more,
                paths=np.where(paths >= k, paths + more, paths),
                constants=constants,
            ),
            weights={side: np.vstack([w, zeros]) for side, w in self.weights.items()},
            chosen={side: [*names, *["none"] * more] for side, names in self.chosen.items()},
            graph=graph,
        )

    def __repr__(self) -> str:
        return f"PathModel({self.rules!r})"


def save_paths(model: PathModel, path: Path) -> str:
    """Write a path model, whole or not at all; return its digest."""
    rules = model.rules
    header = {
        "format": FORMAT,
        "version": str(VERSION),
        "config": json.dumps(rules.config.to_dict()),
        "hubs": str(rules.hubs),
        "features": json.dumps(FEATURES),
        "chosen": json.dumps(model.chosen),
        "graph": model.graph.fingerprint,
    }
    tensors = {
        "paths": rules.paths,
        "path_counts": rules.path_counts,
        "constants": rules.constants,
        "constant_counts": rules.constant_counts,
        **{f"{side}_weights": np.ascontiguousarray(model.weights[side]) for side in SIDES},
    }
    if rules.clusters is not None:
        tensors["path_clusters"] = np.asarray(rules.clusters, dtype=np.int32)
    if model.values is not None:
        tensors["path_values"] = np.asarray(model.values, dtype=np.float64)
        header["flow_unit"] = repr(float(model.unit))
    return save_with_digest(tensors, header, path)


def load_paths(path: Path, graph: Graph) -> PathModel:
    """Read what ``save_paths`` wrote, for the graph that it was mined on."""
    return load_paths_and_digest(path, graph)[0]


def load_paths_and_digest(path: Path, graph: Graph) -> tuple[PathModel, str | None]:
    """As ``load_paths``, and the digest, which files of early versions do not have."""
    tensors, header = load_tensors(path, FORMAT, VERSION, graph=graph.fingerprint)
    n, k = len(graph.entities), len(graph.relations)
    try:
        features = parse_json(header["features"], list[str], "its list of features")
        weights = {side: tensors[f"{side}_weights"] for side in SIDES}
        if features == [name for name in FEATURES if name != _CLUSTERS]:
            weights = {side: np.insert(w, CLUSTERS, 0.0, axis=1) for side, w in weights.items()}
        elif features != list(FEATURES):
            raise ValueError("its features are not those of this version")
        rules = Rules(
            n_relations=k,
            config=parse_json(header["config"], MiningConfig, "its config"),
            paths=_checked(tensors["paths"], (2 * k, 2 * k, 2 * k, 2 * k), (0, 0, -1, -1)),
            path_counts=_checked(tensors["path_counts"], None, (0, 0)),
            constants=_checked(tensors["constants"], (2 * k, n, 2 * k, n), (0, 0, 0, -1)),
            constant_counts=_checked(tensors["constant_counts"], None, (0, 0)),
            hubs=int(header["hubs"]),
            clusters=_checked_clusters(tensors),
        )
        chosen = parse_json(header["chosen"], dict[str, list[str]], "its aggregation")
        if any(weights[side].shape != (k, len(FEATURES)) for side in SIDES):
            raise ValueError("its weights do not fit its relations")
        if not all(np.isfinite(w).all() and (w >= 0).all() for w in weights.values()):
            raise ValueError("a weight is negative or not finite")
        if (len(rules.path_counts), len(rules.constant_counts)) != (
            len(rules.paths),
            len(rules.constants),
        ):
            raise ValueError("its counts do not fit its rules")
        values = tensors.get("path_values")
        if values is not None and (
            values.shape != (len(rules.paths),) or not (np.isfinite(values) & (values >= 0)).all()
        ):
            raise ValueError("its values do not fit its paths")
        unit = float(header.get("flow_unit", 0))  # files did not have it at first
        if not 0 <= unit < np.inf:
            raise ValueError("its unit of flow is no number")
        names = {side: chosen[side] for side in SIDES}
    except (KeyError, IndexError, TypeError, ValueError, BilinkError) as error:
        raise RunError(f"{path} is damaged or of another graph: {error}") from None
    return PathModel(rules, weights, names, graph, values, unit), header.get("digest")


def _checked_clusters(tensors: dict[str, np.ndarray]) -> np.ndarray | None:
    """The clusters of paths, None in a file without them."""
    clusters, n = tensors.get("path_clusters"), len(tensors["paths"])
    if clusters is None:
        return None
    if clusters.shape != (n,) or clusters.dtype.kind != "i":
        raise ValueError("its clusters do not fit its paths")
    if n and not 0 <= clusters.min() <= clusters.max() < n:
        raise ValueError("a cluster is out of range")
    return clusters


def _checked(
    rows: np.ndarray, limits: tuple[int, ...] | None, least: tuple[int, ...]
) -> np.ndarray:
    """Rows of ids that a kernel can look up without a look beyond its arrays."""
    if rows.ndim != 2 or rows.shape[1] != len(least) or rows.dtype.kind != "i":
        raise ValueError("a table has the wrong shape")
    if len(rows) and ((rows < least).any() or (limits and (rows >= limits).any())):
        raise ValueError("a table has ids out of range")
    return rows
