"""Clusters of paths against a slow reference; the aggregation that counts each of them once."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_mining import ALL, directed_facts, walks

import bilink
from bilink.ensembles.aggregation import fit_aggregation
from bilink.models.scorer import SIDES
from bilink.paths import clusters
from bilink.paths.clusters import clustered
from bilink.paths.mining import mine
from bilink.paths.rules import MiningConfig
from bilink.paths.scorer import PathScorer, fixed_weights
from conftest import random_graph


def slow_clusters(triples, k, paths, overlap):
    """Of each path (r, steps), the most confident first: the first path of its cluster."""
    edges = directed_facts(triples, k)
    predicted, found = [], []
    for i, (r, *steps) in enumerate(paths):
        heads = {h for h, relation, _ in triples if relation == r}
        predicted.append({(x, y) for x, y in walks(edges, steps) if x in heads})
        best, most = i, 0.0
        for j in range(i):
            both, either = predicted[i] & predicted[j], predicted[i] | predicted[j]
            if paths[j][0] == r and found[j] == j and both and len(both) / len(either) > most:
                best, most = j, len(both) / len(either)
        found.append(best if most >= overlap else i)
    return found


@given(
    st.integers(0, 10**6),
    st.integers(3, 9),
    st.integers(1, 2),
    st.integers(5, 30),
    st.integers(2, 3),
    st.sampled_from([0.0, 0.25, 0.5, 1.0]),
)
def test_clusters_are_those_of_a_slow_reference(seed, n, k, size, length, overlap):
    graph = random_graph(seed, n, k, size)
    options = {**ALL, "per_relation": 50}
    rules = mine(graph, MiningConfig(length=length, constants=False, overlap=overlap, **options))
    paths = [[int(d) for d in row if d >= 0] for row in rules.paths]
    found = clustered(rules, graph, threads=2).clusters
    assert found.tolist() == slow_clusters(graph.train.tolist(), k, paths, overlap)


def test_the_number_of_threads_does_not_matter_where_heads_are_sampled(monkeypatch):
    monkeypatch.setattr(clusters, "_STARTS", 5)
    graph = random_graph(1, 40, 3, 300)
    rules = mine(graph, MiningConfig(constants=False))
    found = [clustered(rules, graph, threads).clusters for threads in (1, 2)]
    np.testing.assert_array_equal(*found)
    monkeypatch.setattr(clusters, "_PAIRS", 1)  # one head alone
    assert (clustered(rules, graph).clusters != found[0]).any()


def test_one_cluster_counts_as_its_best_path_and_single_paths_as_noisy_or():
    graph = random_graph(1, 14, 2, 70)
    rules = mine(graph, MiningConfig(per_relation=5))
    fixed = {name: fixed_weights(name, 2) for name in ("sum", "noisy-or", "clusters")}
    one = replace(rules, clusters=np.array(rules.paths[:, 0]))  # the paths of a relation
    apart = replace(rules, clusters=np.arange(len(rules.paths)))
    for part, wanted in ((one, "sum"), (apart, "noisy-or")):
        scorer = PathScorer(part, graph, fixed[wanted])
        for side in SIDES:
            asked = scorer.queries(side, np.arange(14), np.ones(14, int))
            features = scorer.features(asked)
            expected = features[3] + (features[4] if part is apart else 0)
            np.testing.assert_allclose(features[8], expected, atol=1e-5)


def test_clusters_can_be_asked_for():
    graph = bilink.load_graph("atlas")
    options = {"aggregation": "clusters", "length": 2, "overlap": 0.3}
    run = bilink.train(graph, "paths", options=options)
    assert run.model.rules.clusters is not None
    assert set(run.model.chosen["tail"]) == {"clusters"}
    plain = bilink.train(graph, "paths", options={**options, "aggregation": "max"})
    assert plain.model.rules.clusters is None
    _, chosen = fit_aggregation(run.scorer, graph, "auto")
    assert set(chosen["tail"]) <= {"max", "sum", "noisy-or", "clusters", "learnt"}
    with pytest.raises(bilink.errors.ConfigError, match="overlap must be at least 0"):
        bilink.train(graph, "paths", options={"overlap": -1})
