"""Triple classification: labels, thresholds and metrics together."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sk

import naive
from bilink.data.graph import Graph
from bilink.data.vocabulary import Vocabulary
from bilink.errors import ConfigError, DataError
from bilink.evaluation.classification import classify_triples, labelled_triples
from bilink.evaluation.metrics import BINARY_METRICS, binary_metrics
from conftest import random_graph


def knows(graph, shift=0.0):
    """A scorer that has read the answers, on another scale for every relation."""
    true = set(map(tuple, graph.triples.tolist()))

    def score(triples):
        found = np.array([tuple(t) in true for t in triples.tolist()], dtype=float)
        return found * 10.0 ** triples[:, 1] + shift * triples[:, 1]

    return score


def large_graph(seed=0):
    return random_graph(seed, n_entities=30, n_relations=3, size=400)


@given(st.lists(st.tuples(st.booleans(), st.integers(-3, 3).map(float)), min_size=1, max_size=40))
def test_metrics_are_those_of_scikit_learn(pairs):
    labels, margins = map(np.array, zip(*pairs, strict=True))
    found = binary_metrics(labels, margins)
    expected = naive.confusion_metrics(labels.tolist(), (margins > 0).tolist())
    assert found["accuracy"] == pytest.approx(sk.accuracy_score(labels, margins > 0))
    assert found["f1"] == pytest.approx(sk.f1_score(labels, margins > 0, zero_division=0))
    for name, value in expected.items():
        if not (name == "recall" and not labels.any()):
            assert found[name] == pytest.approx(value)
    if 0 < labels.sum() < len(labels):
        assert found["auc"] == pytest.approx(sk.roc_auc_score(labels, margins))
        average = sk.average_precision_score(labels, margins)
        assert found["average_precision"] == pytest.approx(average)
    else:
        assert np.isnan([found["auc"], found["average_precision"]]).all()


def test_a_scorer_that_knows_makes_no_mistake():
    graph = large_graph()
    for shift in (0.0, 1e4):
        result = classify_triples(knows(graph, shift), graph)
        assert result.metrics() == dict.fromkeys(BINARY_METRICS, 1.0)
        assert result.macro() == dict.fromkeys(BINARY_METRICS, 1.0)
    score = knows(graph)
    upside_down = classify_triples(lambda triples: -score(triples), graph)
    assert upside_down.metrics()["auc"] < 0.1


@pytest.mark.parametrize("constant", [0.0, 0.1, -1e6])
def test_a_constant_scorer_is_right_half_of_the_time(constant):
    graph = large_graph()
    result = classify_triples(lambda triples: np.full(len(triples), constant), graph)
    assert len(result.labels) == 2 * len(graph.test)
    assert result.metrics()["accuracy"] == 0.5
    assert np.isfinite(result.margins).all()
    assert result.metrics()["auc"] == pytest.approx(0.5)
    assert all(row["accuracy"] == 0.5 for row in result.per_relation())


def test_thresholds_in_scores_say_the_same_as_margins():
    graph, random = large_graph(), np.random.default_rng(0)
    table = random.normal(size=(30, 3, 30)) * [[[1.0], [50.0], [1e-3]]] + [[[0.0], [7.0], [-1.0]]]
    result = classify_triples(lambda t: table[t[:, 0], t[:, 1], t[:, 2]], graph)
    above = result.scores > result.thresholds[result.triples[:, 1]]
    np.testing.assert_array_equal(result.predicted, above)


def test_thresholds_come_from_valid_and_test_is_not_looked_at():
    graph = large_graph()
    score = knows(graph)
    other = replace(graph, test=graph.test[:5])
    first, second = (classify_triples(score, g) for g in (graph, other))
    np.testing.assert_array_equal(first.thresholds, second.thresholds)
    np.testing.assert_array_equal(first.examples, second.examples)
    dense = random_graph(n_entities=8, size=150)
    other = replace(dense, test=dense.test[:0])
    for one, two in zip(*(labelled_triples(g, "valid") for g in (dense, other)), strict=True):
        np.testing.assert_array_equal(one, two)


def test_a_relation_without_validation_triples_gets_the_threshold_of_all():
    graph = large_graph()
    graph = replace(graph, valid=graph.valid[graph.valid[:, 1] != 2])
    result = classify_triples(knows(graph), graph)
    assert result.examples[2] == 0
    assert result.metrics()["accuracy"] == 1  # though its scores are on another scale


def test_a_relation_with_one_triple():
    base = large_graph()
    names = Vocabulary("relation", (*base.relations.names, "rare", "new"))
    graph = Graph(
        "g",
        base.entities,
        names,
        [*base.train, (0, 3, 1)],
        [*base.valid, (2, 3, 3)],
        [*base.test, (4, 3, 5), (6, 4, 7)],  # training does not have the last relation at all
    )
    result = classify_triples(knows(graph), graph)
    rows = {row["relation"]: row for row in result.per_relation()}
    assert rows["rare"]["positives"] == rows["rare"]["negatives"] == 1
    assert rows["rare"]["threshold_examples"] == 2
    assert rows["rare"]["accuracy"] == 1
    assert rows["new"]["threshold_examples"] == 0


def test_equal_seeds_give_equal_results():
    graph, random = large_graph(), np.random.default_rng(1)
    table = random.normal(size=(30, 3, 30))
    first, again, other = (
        classify_triples(lambda t: table[t[:, 0], t[:, 1], t[:, 2]], graph, seed=seed).to_dict()
        for seed in (0, 0, 1)
    )
    for found in (first, again, other):
        found.pop("seconds")
    assert first == again
    assert first != other


def test_given_negatives_are_used_instead_of_drawn_ones():
    graph = large_graph()
    wrong = {split: graph.split(split)[::-1, [2, 1, 0]] for split in ("valid", "test")}
    given_negatives = replace(graph, negatives=wrong)
    triples, labels, origin = labelled_triples(given_negatives, "test")
    assert origin == "given"
    np.testing.assert_array_equal(triples[~labels], wrong["test"])
    result = classify_triples(lambda t: t[:, 0], given_negatives).to_dict()
    assert (result["negatives"], result["thresholds"]["negatives"]) == ("given", "given")
    assert labelled_triples(given_negatives, "train")[2] == "sampled by position"


def test_results_are_plain_json_and_name_their_protocol():
    graph = large_graph()
    found = classify_triples(knows(graph), graph, seed=7).to_dict()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["protocol"] == (
        "test, triple classification, negatives sampled by position, seed 7, "
        "thresholds with prior 10, negatives sampled by position"
    )
    assert found["graph"] == graph.fingerprint
    assert found["thresholds"]["chosen_on"] == "valid"
    assert {*BINARY_METRICS, "macro", "relations", "split", "negatives", "seed"} <= set(found)


def test_what_cannot_be_classified_gets_a_sentence():
    graph = large_graph()
    no_valid, no_test = (replace(graph, **{s: graph.test[:0]}) for s in ("valid", "test"))
    with pytest.raises(DataError, match="no valid triples, on which thresholds are chosen"):
        classify_triples(knows(graph), no_valid)
    with pytest.raises(DataError, match="no test triples to classify"):
        classify_triples(knows(graph), no_test)
    with pytest.raises(DataError, match="unknown split 'tset'"):
        classify_triples(knows(graph), graph, "tset")
    with pytest.raises(DataError, match="not finite"):
        classify_triples(lambda t: np.full(len(t), np.nan), graph)
    with pytest.raises(ConfigError, match="seed must be at least 0"):
        classify_triples(knows(graph), graph, seed=-1)
    with pytest.raises(ConfigError, match="prior must be"):
        classify_triples(knows(graph), graph, prior=float("nan"))
