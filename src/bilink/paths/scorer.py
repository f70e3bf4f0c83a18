"""The scorer of rules: what speaks for each candidate, weighed for each relation and side.

Given a question, every rule that fires names candidates, with its confidence c.  What the rules say
of a candidate is summed up in a few numbers, the *features*; most candidates have none.  With the
indicator of a body as a sparse matrix S over pairs of entities, each feature is a bilinear form
eₕᵀ S eₜ over basis vectors: RESCAL with A = I, the paper's universality construction.  The score is
their weighted sum.  Which aggregation of rules it is, the weights say:

    max (max+)        the confidence of the best rule; ties by the other rules
    sum               −log(1 − c) of the best path and of the best rule with constants
    noisy-or          the same of the best five of each kind
    clusters          the same of the best path of each of the best ten clusters (``clusters``), and
                      of the best five rules with constants
    learnt            what predicts held-out facts best (``ensembles.aggregation``)

Weights are not negative, so that no rule speaks against a candidate that it names.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from bilink.data.graph import Graph
from bilink.models.scorer import Scorer, Side, check_ids
from bilink.paths.adjacency import Adjacency
from bilink.paths.rules import Rules
from bilink.paths.walking import (
    FEATURES,
    Tables,
    Walker,
    name_candidates,
    score_questions,
    surprise,
)

# Fixed weights: what is known without learning.  Small ones settle ties.
AGGREGATIONS: dict[str, tuple[float, ...]] = {
    "max": (0, 1, 1e-3, 0, 0, 1e-5, 0, 0, 0, 1e-5),
    "sum": (0, 0, 0, 1, 1e-3, 1e-4, 1, 1e-3, 0, 1e-5),
    "noisy-or": (0, 0, 0, 1, 1, 0, 1, 1, 0, 1e-5),
    "clusters": (0, 0, 0, 0, 0, 0, 1, 1, 1, 1e-5),
}

Weights = Mapping[Side, np.ndarray]  # for each side, one row per relation, one column per feature


@dataclass(frozen=True, eq=False)
class Questions:
    """Questions as a path scorer takes them."""

    side: Side
    given: np.ndarray
    relations: np.ndarray

    def __len__(self) -> int:
        return len(self.given)


class PathScorer(Scorer):
    """Scores candidates by the rules that name them; ranked, asked and served as any model is."""

    def __init__(self, rules: Rules, graph: Graph, weights: Weights):
        self.rules, self.weights = rules, dict(weights)
        self.n_relations = rules.n_relations
        self.adjacency = Adjacency.of_graph(graph)
        tables, adjacency = _tables(rules, self.adjacency), self.adjacency
        self._walker = Walker(
            adjacency.edges,
            adjacency.reverse,
            tables,
            adjacency.by_relation,
            rules.n_relations,
            rules.config.hub,
        )
        arrays = [*tables, *adjacency.edges, adjacency.reverse]
        nbytes = sum(array.nbytes for array in arrays)
        # Candidates that nobody compares: scores are written, not multiplied.
        super().__init__(np.zeros((len(graph.entities), 1), dtype=np.float32), nbytes=nbytes)

    @property
    def is_product(self) -> bool:
        """Queries are no rows of numbers."""
        return False

    def queries(self, side: Side, given: np.ndarray, relations: np.ndarray) -> Any:
        """The questions, as they are."""
        given, relations = (np.asarray(ids, dtype=np.int64) for ids in (given, relations))
        check_ids(given, self.n_entities, "entity")
        check_ids(relations, self.n_relations, "relation")
        return Questions(side, given, relations)

    def check_finite(self, queries: Any) -> None:
        """Confidences are below 1, and so all scores are finite."""

    def query_scores(
        self, queries: Any, out: np.ndarray | None = None, *, repeatable: bool = True
    ) -> np.ndarray:
        """out[i, j] = the score of candidate j for question i."""
        if out is None:
            out = np.empty((len(queries), self.n_entities), dtype=self.dtype)
        out[:] = 0
        self.add_scores(queries, np.ones(len(queries)), out)
        return out

    def add_scores(self, queries: Questions, times: np.ndarray, out: np.ndarray) -> None:
        """Add the scores of the questions, each question's ``times`` a number, to ``out``."""
        weights = self.weights[queries.side][queries.relations] * times[:, None]
        self.add_weighted(queries, np.ascontiguousarray(weights)[None], out[None])

    def features(self, queries: Questions, which: Sequence[int] | None = None) -> np.ndarray:
        """(features, questions, entities): what the rules say of each candidate."""
        rows = np.eye(len(FEATURES))[list(range(len(FEATURES)) if which is None else which)]
        out = np.zeros((len(rows), len(queries), self.n_entities), dtype=self.dtype)
        weights = np.repeat(rows[:, None, :], len(queries), axis=1)
        self.add_weighted(queries, weights, out)
        return out

    def add_weighted(self, queries: Questions, weights: np.ndarray, out: np.ndarray) -> None:
        """out[s, i, j] += weights[s, i] · features of candidate j for question i."""
        directed = self._directed(queries)
        score_questions(self._walker, queries.given, directed, weights, out)

    def _directed(self, queries: Questions) -> np.ndarray:
        return queries.relations + (self.n_relations if queries.side == "head" else 0)

    def named(self, queries: Questions, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The candidates that rules name, as (question, candidate), and what they add to each.

        The score of a candidate is that and its weighted frequency (``frequency``).
        """
        weights = self.weights[queries.side][queries.relations] * times[:, None]
        return name_candidates(self._walker, queries.given, self._directed(queries), weights)

    def frequency(self, relation: int) -> np.ndarray:
        """The part of the score of each tail that does not depend on the head."""
        tables, row = self._walker.tables, np.zeros(self.n_entities)
        part = slice(tables.frequency_start[relation], tables.frequency_start[relation + 1])
        row[tables.frequency_entity[part]] = tables.frequency[part]
        return row * self.weights["tail"][relation, -1]

    def score(self, triples: np.ndarray) -> np.ndarray:
        """The score of each (head, relation, tail) of ids, asked for the tail."""
        triples = np.asarray(triples).reshape(-1, 3)
        check_ids(triples[:, 2], self.n_entities, "entity")
        scores = np.empty(len(triples), dtype=self.dtype)
        order = np.lexsort((triples[:, 0], triples[:, 1]))
        for part, block in self.blocks("tail", triples[order, 0], triples[order, 1]):
            rows = order[part]
            scores[rows] = block[np.arange(len(rows)), triples[rows, 2]]
        return scores

    # -- pairs: what is the same for all heads, and what rules add ---------------------------------

    def dense_facts(self, heads: np.ndarray, relation: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows of heads and of tails whose products are the scores without what rules add."""
        return np.ones((len(heads), 1)), self.frequency(relation)[:, None]

    def named_facts(self, heads: np.ndarray, relation: int) -> tuple[np.ndarray, np.ndarray]:
        """The pairs (place of the head, tail) that rules name, and what they add; never less."""
        questions = self.queries("tail", heads, np.full_like(heads, relation))
        return self.named(questions, np.ones(len(heads)))

    def tolerances(self, queries: Any) -> np.ndarray:
        """Equal sums come out equal: they are added up in the same order."""
        return np.zeros(len(queries), dtype=self.dtype)

    def exact_rows(self, queries: Any) -> tuple[np.ndarray, np.ndarray]:
        """Not needed, since nothing has to be settled."""
        return np.zeros((len(queries), 1), dtype=self.dtype), self.candidates

    def with_weights(self, weights: Weights) -> "PathScorer":
        """The same rules, aggregated otherwise."""
        other = copy(self)
        other.weights = dict(weights)
        return other


def fixed_weights(aggregation: str, n_relations: int) -> dict[Side, np.ndarray]:
    """The weights of an aggregation that is not learnt."""
    row = np.array(AGGREGATIONS[aggregation], dtype=np.float64)
    return {"head": np.tile(row, (n_relations, 1)), "tail": np.tile(row, (n_relations, 1))}


def _tables(rules: Rules, adjacency: Adjacency) -> Tables:
    k, edges = rules.n_relations, adjacency.edges
    n_groups = len(edges.group_relation)
    paths, directed, path = both_directions(rules)
    # The groups that hold the X of heads and bodies; a graph that has changed may lack some.
    e, c, s, d = rules.constants.T.astype(np.int64)
    head = _group_of(adjacency, c, _inverse(e, k))
    any_body = d < 0
    body = np.where(
        any_body, n_groups + s, _group_of(adjacency, np.where(any_body, 0, d), _inverse(s, k))
    )
    valid = (head >= 0) & (body >= 0)
    e, c, head, body = e[valid], c[valid], head[valid], body[valid]
    value = surprise(rules.constant_confidence)[valid]
    by_body, by_head = np.lexsort((-value, body, e)), np.lexsort((-value, head))
    frequency_start, frequency_entity, frequency = _frequencies(adjacency)
    return Tables(
        paths=paths,
        path_start=np.searchsorted(directed, np.arange(2 * k + 1)),
        path_surprise=surprise(rules.path_confidence)[path],
        path_cluster=path if rules.clusters is None else rules.clusters[path].astype(np.int64),
        body=body[by_body],
        body_start=np.searchsorted(e[by_body], np.arange(2 * k + 1)),
        body_answer=c[by_body].astype(np.int32),
        body_surprise=value[by_body],
        head=head[by_head],
        head_body=body[by_head],
        head_surprise=value[by_head],
        frequency_start=frequency_start,
        frequency_entity=frequency_entity,
        frequency=frequency,
    )


def both_directions(rules: Rules) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The steps of paths from head to tail, and of the same from tail to head.

    With the directed relation of each, and which path of the rules it is; those that begin alike
    stand together.
    """
    k = rules.n_relations
    steps = rules.paths[:, 1:].astype(np.int64)
    lengths = (steps >= 0).sum(axis=1)
    back = np.full_like(steps, -1)
    for i in range(steps.shape[1]):
        for length in range(i + 1, steps.shape[1] + 1):
            where = lengths == length
            back[where, length - 1 - i] = _inverse(steps[where, i], k)
    directed = np.concatenate([rules.paths[:, 0], rules.paths[:, 0] + k])
    both, path = np.concatenate([steps, back]), np.tile(np.arange(len(steps)), 2)
    order = np.lexsort((*both.T[::-1], directed))
    return both[order].astype(np.int32), directed[order], path[order]


def _inverse(directed: np.ndarray, k: int) -> np.ndarray:
    return np.where(directed < k, directed + k, directed - k)


def _group_of(adjacency: Adjacency, entities: np.ndarray, directed: np.ndarray) -> np.ndarray:
    """The group of each entity along each directed relation, −1 where there is none."""
    width = 2 * adjacency.n_relations
    keys = adjacency.owners * width + adjacency.edges.group_relation
    if not len(keys):
        return np.full(len(entities), -1)
    wanted = entities * width + directed
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, place, -1)


def _frequencies(adjacency: Adjacency) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each directed relation, its answers and the logarithm of 1 + how often they are."""
    k = adjacency.n_relations
    answered = _inverse(adjacency.edges.group_relation.astype(np.int64), k)
    order = np.argsort(answered, kind="stable")
    sizes = np.log1p(np.diff(adjacency.edges.group_start)[order])
    start = np.searchsorted(answered[order], np.arange(2 * k + 1))
    return start, adjacency.owners[order].astype(np.int32), sizes
