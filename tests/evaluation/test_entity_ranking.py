import numpy as np
import pytest

from bilink.errors import DataError
from bilink.evaluation.entity_ranking import rank_entities
from bilink.evaluation.metrics import gains, rank_metrics
from bilink.evaluation.significance import paired_test
from bilink.models.model import Model
from conftest import random_graph


def random_scorer(graph, seed, dim=5):
    random = np.random.default_rng(seed)
    model = Model.empty("distmult", dim, len(graph.entities), len(graph.relations))
    for array in (model.entities, model.relations):
        array[:] = random.normal(size=array.shape)
    return model.scorer


def test_metrics_of_ranks_that_can_be_checked_by_hand():
    found = rank_metrics(np.array([1, 2, 4, 11]), np.array([21, 21, 21, 21]))
    assert found["mrr"] == pytest.approx((1 + 1 / 2 + 1 / 4 + 1 / 11) / 4)
    assert found["mr"] == 4.5
    assert (found["hits@1"], found["hits@3"], found["hits@10"]) == (0.25, 0.5, 0.75)
    assert found["amri"] == pytest.approx(1 - 3.5 / 10)  # a random scorer has mean rank 11


def test_amri_is_one_at_best_and_zero_by_chance():
    options = np.full(5, 9)
    assert rank_metrics(np.ones(5), options)["amri"] == 1
    assert rank_metrics(np.full(5, 5.0), options)["amri"] == 0
    assert rank_metrics(np.ones(2), np.ones(2))["amri"] == 1  # nothing to get wrong


def test_metrics_without_ranks_are_nan():
    assert np.isnan(rank_metrics(np.array([]), np.array([]))["mrr"])


def test_each_metric_is_the_mean_of_its_gains():
    ranks = np.array([1.0, 2.5, 30])
    metrics = rank_metrics(ranks, np.full(3, 50))
    for name in ("mrr", "mr", "hits@1", "hits@10"):
        assert gains(ranks, name).mean() == pytest.approx(metrics[name])


def test_the_parts_of_a_result_add_up(graph):
    result = rank_entities(random_scorer(graph, 0), graph)
    found = result.to_dict()
    assert found["queries"] == 2 * len(graph.test)
    assert found["both"]["mrr"] == pytest.approx((found["head"]["mrr"] + found["tail"]["mrr"]) / 2)
    rows = result.per_relation()
    assert sum(row["triples"] for row in rows) == len(graph.test)
    weighted = sum(row["mrr"] * row["triples"] for row in rows) / len(graph.test)
    assert weighted == pytest.approx(found["both"]["mrr"])
    assert found["macro"]["mrr"] == pytest.approx(np.mean([row["mrr"] for row in rows]))
    assert set(found["categories"]) <= {"1-1", "1-N", "N-1", "N-N"}
    low, high = found["intervals95"]["mrr"]
    assert low <= found["both"]["mrr"] <= high


def test_a_result_names_its_protocol(graph):
    found = rank_entities(
        random_scorer(graph, 0), graph, "valid", filter=("train",), ties="worst"
    ).to_dict()
    assert (found["split"], found["filter"], found["ties"]) == ("valid", ["train"], "pessimistic")
    assert found["graph"] == graph.fingerprint


def test_triples_with_entities_unseen_in_training_are_kept_and_counted():
    graph = random_graph(size=30)
    object.__setattr__(graph, "train", graph.train[:2])
    result = rank_entities(random_scorer(graph, 0), graph)
    assert len(result.triples) == len(graph.test)
    assert result.unseen > 0


def test_an_empty_split_is_refused(graph):
    object.__setattr__(graph, "test", graph.test[:0])
    with pytest.raises(DataError, match="no test triples"):
        rank_entities(random_scorer(graph, 0), graph)


def test_evaluation_changes_neither_the_graph_nor_the_model(graph):
    scorer = random_scorer(graph, 0)
    before = (graph.test.copy(), scorer.candidates.copy())
    first = rank_entities(scorer, graph).to_dict()
    second = rank_entities(scorer, graph).to_dict()
    assert {**first, "seconds": 0} == {**second, "seconds": 0}
    np.testing.assert_array_equal(graph.test, before[0])
    np.testing.assert_array_equal(scorer.candidates, before[1])


def test_a_run_is_not_significantly_better_than_itself(graph):
    result = rank_entities(random_scorer(graph, 0), graph)
    test = paired_test(result, result)
    assert (test.difference, test.p_value, test.better, test.worse) == (0, 1, 0, 0)


def test_a_clear_winner_is_significant_and_two_random_runs_are_not():
    graph = random_graph(seed=1, n_entities=60, n_relations=2, size=900)
    results = [rank_entities(random_scorer(graph, seed), graph) for seed in (0, 1)]
    assert paired_test(*results).p_value > 0.01
    oracle = rank_entities(random_scorer(graph, 0), graph)
    for ranks in oracle.ranks.values():
        ranks.above[:] = 0
    for metric in ("mrr", "mr", "hits@10"):
        test = paired_test(oracle, results[0], metric)
        assert test.p_value < 0.001
        assert test.better > test.worse == 0
        low, high = test.interval95
        assert low <= test.difference <= high


def test_results_under_different_protocols_are_not_compared(graph):
    scorer = random_scorer(graph, 0)
    first = rank_entities(scorer, graph)
    with pytest.raises(DataError, match="their ties differs"):
        paired_test(first, rank_entities(scorer, graph, ties="best"))
    with pytest.raises(DataError, match="different triples"):
        paired_test(first, rank_entities(scorer, graph, triples=graph.test[:2]))
