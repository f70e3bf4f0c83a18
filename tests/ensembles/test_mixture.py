"""A mixture is the weighted sum of its members, and one bilinear form."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bilink
from bilink.data.index import known_answers
from bilink.ensembles.mixture import MixtureScorer
from bilink.errors import ConfigError
from bilink.evaluation.ranks import rank_triples
from bilink.models.model import Model
from bilink.models.registry import FAMILIES
from bilink.models.scorer import SIDES
from bilink.queries.pairs import PairSearch
from conftest import random_graph

N, K = 7, 3


def random_model(name, dim, seed):
    random = np.random.default_rng(seed)
    empty = Model.empty(name, dim, N, K)
    rows = [random.normal(size=array.shape) for array in (empty.entities, empty.relations)]
    return Model(empty.family, dim, *rows)


def all_triples():
    return np.array([(h, r, t) for h in range(N) for r in range(K) for t in range(N)])


@given(
    names=st.lists(st.sampled_from(sorted(FAMILIES)), min_size=1, max_size=4),
    dim=st.integers(1, 4),
    seed=st.integers(0, 10**6),
)
def test_a_mixture_scores_as_the_weighted_sum_of_its_members(names, dim, seed):
    models = [random_model(name, dim, seed + i) for i, name in enumerate(names)]
    random = np.random.default_rng(seed)
    weights = {side: random.normal(size=(K, len(models))) for side in SIDES}
    mixture = MixtureScorer([model.scorer for model in models], weights)
    triples = all_triples()
    for side, given_column, answer in (("head", 2, 0), ("tail", 0, 2)):
        expected = sum(
            weights[side][triples[:, 1], i] * model.score(triples) for i, model in enumerate(models)
        )
        block = mixture.scores(side, triples[:, given_column], triples[:, 1])
        found = block[np.arange(len(triples)), triples[:, answer]]
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    mean = dict.fromkeys(SIDES, (weights["head"] + weights["tail"]) / 2)
    same = MixtureScorer([model.scorer for model in models], mean)
    np.testing.assert_allclose(mixture.score(triples), same.score(triples), atol=1e-9)


def test_a_mixture_of_one_ranks_as_its_member(graph):
    random = np.random.default_rng(0)
    sizes = len(graph.entities), len(graph.relations)
    empty = Model.empty("transe", 4, *sizes)
    for array in (empty.entities, empty.relations):
        array[:] = random.normal(size=array.shape)
    weights = dict.fromkeys(SIDES, np.full((sizes[1], 1), 0.3))
    mixture = MixtureScorer([empty.scorer], weights)
    known = known_answers(graph, ("train",))
    ranks = [rank_triples(s, graph.train, known) for s in (empty.scorer, mixture)]
    for side in SIDES:
        np.testing.assert_array_equal(ranks[0][side].values(), ranks[1][side].values())


def test_the_mean_of_probabilities_is_just_that():
    models = [random_model("complex", 2, 0), random_model("transe", 3, 1)]
    weights, offsets = np.array([0.7, 2.0]), np.array([-0.5, 1.0])
    same = dict.fromkeys(SIDES, np.tile(weights, (K, 1)))
    scorer = MixtureScorer([model.scorer for model in models], same, offsets)
    triples = all_triples()
    odds = [weights[i] * model.score(triples) + offsets[i] for i, model in enumerate(models)]
    expected = np.mean([1 / (1 + np.exp(-x)) for x in odds], axis=0)
    np.testing.assert_allclose(scorer.score(triples), expected)
    block = scorer.scores("tail", triples[:, 0], triples[:, 1])
    found = block[np.arange(len(triples)), triples[:, 2]]
    np.testing.assert_allclose(found, expected)


def test_confident_probabilities_do_not_tie():
    model = Model.empty("distmult", 1, 4, 1)
    model.entities[:, 0], model.relations[:] = [1, 18, 25, 25], 1
    same = dict.fromkeys(SIDES, np.ones((1, 1)))
    scorer = MixtureScorer([model.scorer], same, offsets=np.zeros(1))
    block = scorer.scores("tail", np.array([0]), np.array([0]))
    assert block[0, 1] < block[0, 2] == block[0, 3]


def test_what_cannot_be_mixed_is_refused():
    product, manhattan = random_model("distmult", 2, 0), random_model("transe-l1", 2, 0)
    one = dict.fromkeys(SIDES, np.ones((K, 1)))
    with pytest.raises(ConfigError, match="platt takes bilinear models only"):
        MixtureScorer([manhattan.scorer], one, offsets=np.zeros(1))
    with pytest.raises(ConfigError, match="at least one member"):
        MixtureScorer([], one)
    with pytest.raises(ConfigError, match="as many weights"):
        MixtureScorer([product.scorer, product.scorer], one)
    other = Model.empty("distmult", 2, N + 1, K)
    with pytest.raises(ConfigError, match="different numbers of entities: 7, 8"):
        MixtureScorer([product.scorer, other.scorer], dict.fromkeys(SIDES, np.ones((K, 2))))


def test_pairs_of_a_readout_beside_rules_are_those_of_scoring_all():
    graph = random_graph(n_entities=30, n_relations=2, size=200)
    model = Model.empty("transh", 4, len(graph.entities), len(graph.relations))
    for array in (model.entities, model.relations):
        array[:] = np.random.default_rng(0).normal(size=array.shape)
    rules = bilink.train(graph, "paths", options={"length": 1}).scorer
    weights = dict.fromkeys(SIDES, np.ones((len(graph.relations), 2)))
    mixture = MixtureScorer([model.scorer, rules], weights)
    n = len(graph.entities)
    scores = mixture.scores("tail", np.arange(n), np.zeros(n, dtype=np.int64)).astype(float)
    found = PairSearch(mixture).best(0, 5)
    np.testing.assert_allclose(found.scores, np.sort(scores.ravel())[::-1][:5], rtol=1e-5)
