"""Probabilities: what they promise comes true, and they are one number."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

import bilink
from bilink.errors import ConfigError, DataError, DataWarning
from bilink.evaluation.evidence import Evidence
from bilink.evaluation.probability import Judge, Probability, _Data, _fit_asked, ask_test
from conftest import random_graph

LARGER = random_graph(n_entities=30, size=400)


@pytest.fixture(scope="module")
def run():
    """Of the atlas, counted in seconds."""
    return bilink.train("atlas", "paths", length=2)


def test_the_fit_finds_the_chances_behind_unlabelled_candidates():
    """Of candidates whose chance is σ(w·x), positives are a sample of the true ones."""
    random = np.random.default_rng(0)
    w = np.array([1.5, -1.0, 0.5, -2.0])
    x = np.hstack([random.normal(size=(60_000, 3)), np.ones((60_000, 1))])
    true = random.random(len(x)) < expit(x @ w)
    others = np.hstack([random.normal(size=(60_000, 3)), np.ones((60_000, 1))])
    positives = others[(random.random(len(others)) < expit(others @ w))]  # as many as are missing
    positives = positives[: len(positives) // 2]
    c = len(positives) / true.sum()
    found = _Data(positives, x, np.ones(len(x))).fit(c, 1e-6, np.zeros(4))
    np.testing.assert_allclose(found, w, atol=0.15)
    assert expit(x @ found).sum() == pytest.approx(true.sum(), rel=0.05)


def test_gradients_are_those_of_the_loss():
    random = np.random.default_rng(1)
    data = _Data(random.normal(size=(7, 3)), random.normal(size=(9, 3)), random.random(9))
    found = data.fit(0.3, 0.1, np.zeros(3))
    free = np.array([0.1, 0.1, 1e-6])

    def loss(w):
        return data.loss(w, 0.3) + (free * w * w).sum() / 2

    for i in range(3):  # it is flat where the fit ends
        step = np.eye(3)[i] * 1e-4
        assert abs(loss(found + step) - loss(found - step)) / 2e-4 < 2e-2


def test_the_second_fit_finds_the_chances_behind_soft_labels():
    random = np.random.default_rng(0)
    w = np.array([1.5, -1.0, 0.5, -2.0])
    x = np.hstack([random.normal(size=(20_000, 3)), np.ones((20_000, 1))])
    np.testing.assert_allclose(
        _fit_asked(x, expit(x @ w), random.random(len(x)), np.zeros(4)), w, atol=0.05
    )


def test_answers_after_the_first_come_true_as_often_as_they_say(run):
    """A second answer is not as likely as a first one with the same score would be."""
    hidden = replace(run.graph, test=run.graph.test[:0])

    class Asked(bilink.queries.Answering):
        graph, scorer = hidden, run.scorer
        judge = Judge(Evidence(run.scorer, hidden), bilink.fit_probability(run.scorer, hidden))

    asked, test = Asked(), set(map(tuple, run.graph.test.tolist()))
    find = run.graph.entities.find
    said, right = [], []
    for h, r, t in run.graph.test[:300].tolist():
        for question in ((h, r, None), (None, r, t)):
            for answer in list(asked.query_ids(*question, new=True, k=5))[1:]:
                said.append(answer.probability)
                right.append((find(answer.head), r, find(answer.tail)) in test)
    assert np.mean(said) == pytest.approx(np.mean(right), abs=0.05)


def test_what_is_promised_for_hidden_facts_comes_true(run):
    found = ask_test(run.scorer, run.graph)
    assert len(found.right) > 500
    sure = found.probabilities > 0.8  # low ones are too low here, high ones hold
    assert sure.sum() > 500
    assert found.probabilities[sure].mean() == pytest.approx(found.right[sure].mean(), abs=0.06)
    assert found.probabilities.mean() < found.right.mean() + 0.05


def test_the_best_new_facts_are_true_where_a_tenth_is_hidden(run):
    hidden = replace(run.graph, test=run.graph.test[:0])
    evidence = Evidence(run.scorer, hidden)
    learnt = bilink.fit_probability(run.scorer, hidden, evidence=evidence)

    class Asked(bilink.queries.Answering):
        graph, scorer, judge = hidden, run.scorer, Judge(evidence, learnt)

    names = run.graph.entities.names, run.graph.relations.names
    test = {(names[0][h], names[1][r], names[0][t]) for h, r, t in run.graph.test.tolist()}
    answers = Asked().new_facts(40)
    true = sum((a.head, a.relation, a.tail) in test for a in answers)
    assert true >= 32  # by scores alone it would be a handful
    assert sum(a.probability for a in answers) == pytest.approx(true, abs=8)
    assert len({a.relation for a in answers}) >= 5


def test_the_same_fact_has_the_same_number_wherever_it_is_asked_for(run):
    new = run.new_facts(5)
    for fact in new:
        head, relation, tail = fact.head, fact.relation, fact.tail
        (alone,) = run.probability([(head, relation, tail)])
        assert alone == pytest.approx(fact.probability)
        assert run.explain(head, relation, tail).probability == pytest.approx(alone)
        for question in (
            {"head": head, "relation": relation},
            {"tail": tail, "relation": relation},
            {"head": head, "tail": tail},
            {"relation": relation},
        ):
            options = {"k": 50, **question, "new": True}
            rows = {(a.head, a.relation, a.tail): a for a in run.query(**options)}
            assert rows[head, relation, tail].probability == pytest.approx(alone)


def test_more_missing_facts_make_all_likelier_and_keep_nearly_all_of_the_order(run):
    few, many = (run.query(relation="borders", new=True, missing=x, k=30) for x in (0.03, 0.3))
    chances = {(a.head, a.tail): a.probability for a in few}
    for answer in many:
        if (answer.head, answer.tail) in chances:
            assert answer.probability >= chances[answer.head, answer.tail] - 1e-9
    assert (few.missing, many.missing) == (0.03, 0.3)
    with pytest.raises(ConfigError, match="share between 0 and 1"):
        run.query(relation="borders", new=True, missing=1.5)


def test_a_training_fact_has_no_probability_and_a_held_out_one_has(run):
    names = run.graph.entities.names, run.graph.relations.names

    def fact(row):
        h, r, t = row
        return names[0][h], names[1][r], names[0][t]

    trained, held_out = fact(run.graph.train[0]), fact(run.graph.test[0])
    first, second = run.probability([trained, held_out])
    assert first is None
    assert 0 < second < 1


def test_a_run_keeps_what_it_learnt_and_forgets_what_is_not_of_its_graph(run, tmp_path):
    small = bilink.train(LARGER, "distmult", 4, epochs=2, out=tmp_path / "run", threads=1)
    again = bilink.load(tmp_path / "run")
    question = {"head": "e1", "relation": "r0", "k": 30}
    wanted = [a.probability for a in small.query(**question)]
    assert [a.probability for a in again.query(**question)] == pytest.approx(wanted)
    path = tmp_path / "run" / "probability.json"
    kept = json.loads(path.read_text())
    for changed in ({"weights": [[1]]}, {"scale": [0]}, {"mean": "x"}):
        path.write_text(json.dumps(kept | changed))
        with pytest.warns(DataWarning, match="damaged or of another version"):
            assert bilink.load(tmp_path / "run").judge is None
    path.write_text(json.dumps(kept | {"fingerprint": "other"}))
    assert bilink.load(tmp_path / "run").judge is None
    assert kept.pop("model") == small.digest
    assert Probability.from_dict(kept).to_dict() == kept


def test_too_few_facts_to_learn_from():
    graph = random_graph()  # with 9 validation facts
    model = bilink.Model.empty("distmult", 2, len(graph.entities), len(graph.relations))
    with pytest.raises(DataError, match="20 are needed"):
        bilink.fit_probability(model.scorer, graph)
