"""The scorer of rules: features against slow ones, ranks, pairs, files, ensembles."""

from dataclasses import replace

import numpy as np
import pytest
from test_mining import directed_facts, walks

import naive
from bilink.data.index import known_answers
from bilink.ensembles.aggregation import fit_aggregation
from bilink.ensembles.mixture import MixtureScorer
from bilink.errors import ConfigError, RunError
from bilink.evaluation.ranks import rank_triples, top_candidates
from bilink.models.model import Model
from bilink.models.scorer import SIDES
from bilink.paths.clusters import clustered
from bilink.paths.mining import mine
from bilink.paths.model import PathModel, load_paths, save_paths
from bilink.paths.rules import MiningConfig
from bilink.paths.scorer import PathScorer, fixed_weights
from bilink.paths.walking import FEATURES
from bilink.queries.pairs import PairSearch
from conftest import random_graph

CONFIG = MiningConfig(support=2, confidence=0.01, per_relation=60, overlap=0.2)


def made(seed=1, n=14, k=2, size=70):
    graph = random_graph(seed, n, k, size)
    rules = clustered(mine(graph, CONFIG), graph)
    return graph, rules, PathScorer(rules, graph, fixed_weights("noisy-or", k))


def slow_features(graph, rules, side, given, relation):
    """What is known of each candidate, from the rules as they are written."""
    k, n = len(graph.relations), len(graph.entities)
    edges = directed_facts(graph.train.tolist(), k)
    paths, constants = ([[] for _ in range(n)] for _ in range(2))
    clusters = [{} for _ in range(n)]  # of each candidate: the best path of each cluster
    for i, ((r, *steps), c) in enumerate(
        zip(rules.paths.tolist(), rules.path_confidence, strict=True)
    ):
        if r == relation:
            for x, y in walks(edges, [d for d in steps if d >= 0]):
                if (x if side == "tail" else y) == given:
                    candidate, own = y if side == "tail" else x, rules.clusters[i]
                    paths[candidate].append(c)
                    clusters[candidate][own] = max(c, clusters[candidate].get(own, 0))
    for (e, c, s, d), trust in zip(
        rules.constants.tolist(), rules.constant_confidence, strict=True
    ):
        if e % k != relation:
            continue
        bodies = {
            x for x, r, end in edges if r == s and d in (-1, end) and (r, end) != (e, c) and x != c
        }
        # The X of a head with e = r is a head of r, the X of its inverse a tail.
        for x in bodies:
            h, t = (x, c) if e < k else (c, x)
            if (h if side == "tail" else t) == given:
                constants[t if side == "tail" else h].append(trust)
    answers = naive.answers(graph.train.tolist(), side, given, relation)
    assert answers is not None
    out = np.zeros((len(FEATURES), n))
    column = 2 if side == "tail" else 0
    for y in range(n):
        rules, of_paths, of_constants = (
            -np.log(1 - np.sort(found)[::-1])
            for found in (paths[y] + constants[y], paths[y], constants[y])
        )
        if len(rules):
            out[0, y] = np.log(max((1 - np.exp(-rules[0])) / 1e-4, 1))
        for place, found in ((1, rules), (3, of_paths), (6, of_constants)):
            out[place, y], out[place + 1, y] = found[:1].sum(), found[1:5].sum()
        out[5, y] = of_paths[5:].sum()
        out[8, y] = sum(-np.log(1 - c) for c in sorted(clusters[y].values())[-10:])
        facts = {tuple(row) for row in graph.train.tolist() if row[0] != row[2]}
        out[9, y] = np.log1p(sum(f[1] == relation and f[column] == y for f in facts))
    return out


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("side", SIDES)
def test_features_are_those_of_the_rules(seed, side):
    graph, rules, scorer = made(seed)
    assert len(rules.paths)
    assert len(rules.constants)
    assert 10 < len(np.unique(rules.clusters)) < len(rules.paths)
    given, relations = (x.ravel() for x in np.meshgrid(np.arange(14), np.arange(2)))
    found = scorer.features(scorer.queries(side, given, relations))
    for i, (e, r) in enumerate(zip(given, relations, strict=True)):
        np.testing.assert_allclose(found[:, i], slow_features(graph, rules, side, e, r), atol=1e-5)


def test_scores_are_the_weighted_features():
    graph, _rules, scorer = made()
    random = np.random.default_rng(0)
    weights = {side: random.random((2, len(FEATURES))) for side in SIDES}
    scorer = scorer.with_weights(weights)
    for side in SIDES:
        asked = scorer.queries(side, np.arange(14), np.ones(14, int))
        expected = np.einsum("f,fij->ij", weights[side][1], scorer.features(asked))
        np.testing.assert_allclose(scorer.query_scores(asked), expected, rtol=1e-5)
    triples = graph.triples
    expected = [scorer.scores("tail", [h], [r])[0, t] for h, r, t in triples]
    np.testing.assert_allclose(scorer.score(triples), expected, rtol=1e-6)


@pytest.mark.parametrize("ties", ["realistic", "optimistic", "pessimistic"])
def test_ranks_are_those_of_the_definition(ties):
    graph, _, scorer = made()
    known = known_answers(graph, ("train", "valid", "test"))
    found = rank_triples(scorer, graph.test, known, threads=2)
    for side, given, answer in (("head", 2, 0), ("tail", 0, 2)):
        for triple, rank in zip(graph.test, found[side].values(ties), strict=True):
            scores = scorer.scores(side, triple[[given]], triple[[1]])[0].astype(float)
            others = known[side].of_query(int(triple[given]), int(triple[1]))
            wanted, _ = naive.rank(scores, triple[answer], others, ties)
            assert rank == wanted


def mixture(graph, scorer, dim=4):
    model = Model.empty("complex", dim, len(graph.entities), len(graph.relations))
    random = np.random.default_rng(2)
    for array in (model.entities, model.relations):
        array[:] = random.normal(size=array.shape)
    weights = {side: random.random((len(graph.relations), 2)) for side in SIDES}
    return MixtureScorer([model.scorer, scorer], weights), model.scorer, weights


def test_an_ensemble_adds_what_paths_say():
    graph, _, scorer = made()
    mixed, dense, weights = mixture(graph, scorer)
    given, relations = np.arange(14), np.arange(14) % 2
    for side in SIDES:
        parts = [member.scores(side, given, relations) for member in (dense, scorer)]
        expected = sum(
            w[:, None] * part for w, part in zip(weights[side][relations].T, parts, strict=True)
        )
        np.testing.assert_allclose(mixed.scores(side, given, relations), expected, rtol=1e-4)
    _ids, scores = top_candidates(mixed, "tail", 3, 1, 4, np.array([5]))
    row = mixed.scores("tail", np.array([3]), np.array([1]))[0]
    row[5] = -np.inf
    np.testing.assert_array_equal(scores, np.sort(row)[::-1][:4])
    with pytest.raises(ConfigError, match="platt"):
        MixtureScorer([dense, scorer], weights, np.zeros(2))


@pytest.mark.parametrize("mixed", [False, True])
def test_the_best_pairs_are_those_of_all_pairs(mixed):
    graph, _, scorer = made(n=30, size=200)
    if mixed:
        scorer = mixture(graph, scorer)[0]
    n = scorer.n_entities
    every = scorer.query_scores(scorer.fact_queries(np.arange(n), np.ones(n, int))).ravel()
    facts = np.sort(graph.train[:, 0].astype(np.int64) * n + graph.train[:, 2])
    every = every.astype(float)
    every[facts] = -np.inf
    every[np.arange(n) * (n + 1)] = -np.inf
    found = PairSearch(scorer).best(1, 12, leave_out=facts, loops=False)
    best = np.lexsort((np.arange(n * n), -every))[:12]
    np.testing.assert_allclose(found.scores, every[best], rtol=1e-6)


def test_a_file_keeps_all_of_it(tmp_path):
    graph, rules, scorer = made()
    weights, chosen = fit_aggregation(scorer, graph)
    model = PathModel(rules, weights, chosen, graph)
    save_paths(model, tmp_path / "rules.safetensors")
    again = load_paths(tmp_path / "rules.safetensors", graph)
    np.testing.assert_array_equal(
        again.scorer.score(graph.triples), model.scorer.score(graph.triples)
    )
    assert again.rules.config == rules.config
    np.testing.assert_array_equal(again.rules.clusters, rules.clusters)
    assert again.chosen == chosen
    smaller = random_graph(1, 5, 2, 20)
    with pytest.raises(RunError, match="belongs to another graph"):
        load_paths(tmp_path / "rules.safetensors", smaller)


def test_rules_of_a_former_graph_hold_on_a_larger_one():
    graph, rules, scorer = made()
    more = replace(graph, train=np.concatenate([graph.train, graph.valid]))
    grown = PathModel(rules, scorer.weights, {}, graph).on(more).scorer
    assert np.isfinite(grown.scores("tail", np.arange(14), np.zeros(14, int))).all()


def test_ids_out_of_range_are_refused():
    _, _, scorer = made()
    with pytest.raises(Exception, match="out of range"):
        scorer.scores("tail", np.array([14]), np.array([0]))
