"""From scores to probabilities: against a general optimiser, and on scores whose odds are known."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, logit

import bilink
import naive
from bilink.data.graph import Graph
from bilink.data.vocabulary import Vocabulary
from bilink.errors import ConfigError, DataError
from bilink.evaluation.calibration import (
    Calibration,
    compare_calibrations,
    find_examples,
    fit_calibration,
)
from bilink.evaluation.classification import labelled_triples, score_standards
from bilink.models.model import Model
from conftest import random_graph

LINES = {0: (4.0, 0.0), 1: (0.5, 1.0), 2: (1.0, -2.0)}  # what the scores of a relation are worth


def split_graph(sizes=(600, 600, 600), n=60, seed=0):
    """A graph with many held-out triples; relation 3 has none of them."""
    random = np.random.default_rng(seed)
    cells = random.permutation(n * n * 3)[: sum(sizes)]
    triples = np.stack([cells % n, cells // n % 3, cells // n // 3], axis=1)
    train, valid, test = np.split(triples, np.cumsum(sizes)[:2])
    names = tuple(f"e{i}" for i in range(n)), tuple(f"r{i}" for i in range(4))
    train = np.concatenate([train, [[0, 3, 1], [1, 3, 2]]])
    vocabularies = Vocabulary("entity", names[0]), Vocabulary("relation", names[1])
    return Graph("split", *vocabularies, train, valid, test)


def score_of(graph, seed=1):
    """Scores whose log-odds are a line of the relation, at as many false as true triples.

    A true and a false normal variable of the same width, one over the weight, have such odds.
    """
    true = set(map(tuple, graph.triples.tolist()))

    def score(triples):
        out = np.empty(len(triples))
        for i, (h, r, t) in enumerate(np.asarray(triples).tolist()):
            weight, offset = LINES.get(r, (1.0, 0.0))
            noise = np.random.default_rng([seed, h, r, t]).normal()
            odds = 1.0 * ((h, r, t) in true) * 2 - 1 + noise * np.sqrt(2)
            out[i] = (odds - offset) / weight
        return out

    return score


@pytest.fixture(scope="module")
def graph():
    return split_graph()


@pytest.fixture(scope="module")
def score(graph):
    known = {}
    plain = score_of(graph)

    def remembered(triples):
        keys = [tuple(t) for t in np.asarray(triples).tolist()]
        new = [key for key in dict.fromkeys(keys) if key not in known]
        if new:
            known.update(zip(new, plain(np.array(new)), strict=True))
        return np.array([known[key] for key in keys])

    return remembered


def test_lines_are_where_a_general_optimiser_finds_them(graph, score):
    found = fit_calibration(score, graph, shrinkage=0.7)
    triples, labels, _ = labelled_triples(graph, "valid", 0)
    means, deviations = score_standards(score, graph, 0)
    r = triples[:, 1]
    x = (score(triples) - means[r]) / deviations[r]
    signs = np.where(labels, 1.0, -1.0)
    scales = np.array([x * signs, signs]).std(axis=1)

    def loss(w, rows, prior, shrinkage):
        odds = (w[0] * x[rows] / scales[0] + w[1] / scales[1]) * signs[rows]
        return np.log1p(np.exp(-odds)).sum() + shrinkage / 2 * ((w - prior) ** 2).sum()

    everything = np.arange(len(x))
    common = minimize(loss, np.ones(2), (everything, np.zeros(2), 1e-3)).x
    for relation in range(3):
        w = minimize(loss, common, (np.flatnonzero(r == relation), common, 0.7)).x / scales
        weight = w[0] / deviations[relation]
        assert found.weights[relation] == pytest.approx(weight, rel=2e-2)
        offset = w[1] - weight * means[relation]
        assert found.offsets[relation] == pytest.approx(offset, abs=2e-2)
    assert found.examples[3] == 0
    assert found.weights[3] * deviations[3] == pytest.approx(common[0] / scales[0], rel=2e-2)


def test_known_odds_are_found_again(graph, score):
    found = fit_calibration(score, graph, shrinkage=0.1)
    for relation, (weight, offset) in LINES.items():
        assert found.weights[relation] == pytest.approx(weight, rel=0.35)
        assert found.offsets[relation] == pytest.approx(offset, abs=0.5)


@pytest.mark.parametrize("method", ["platt", "isotonic"])
def test_a_line_per_relation_beats_one_line_and_the_sigmoid(graph, score, method):
    calibration = fit_calibration(score, graph, method=method)
    results = compare_calibrations(score, graph, calibration)["results"]
    ours = results[method]["ece_within_relations"]
    assert ours < results["global"]["ece_within_relations"] / 2
    assert ours < results["sigmoid"]["ece_within_relations"] / 2
    assert results[method]["log_loss"] < results["global"]["log_loss"]


@given(st.floats(0.001, 0.999), st.integers(0, 3))
def test_the_prior_moves_all_log_odds_alike_and_nothing_else(prior, relation):
    graph = random_graph(n_entities=20, n_relations=4, size=300)
    half = fit_calibration(lambda t: np.sin(t.sum(axis=1)), graph, shrinkage=1.0)
    triples = np.tile([0, relation, 1], (5, 1))
    scores = np.linspace(-3, 3, 5)
    moved = half.with_prior(prior).log_odds(triples, scores) - half.log_odds(triples, scores)
    np.testing.assert_allclose(moved, logit(prior), atol=1e-9)


@given(st.integers(0, 1000))
def test_better_scores_are_never_less_likely(seed):
    graph = random_graph(seed % 5, n_entities=20, n_relations=4, size=300)
    random = np.random.default_rng(seed)
    table = random.normal(size=(20, 4, 20)) * random.choice([-1, 1, 100], (1, 4, 1))
    scores = np.sort(random.normal(size=30))
    for method in ("platt", "isotonic", "global") if seed < 50 else ("platt",):
        found = fit_calibration(lambda t: table[t[:, 0], t[:, 1], t[:, 2]], graph, method=method)
        if method != "global":  # one line may well fall, where scores mislead
            for relation in range(4):
                p = found.probabilities(np.tile([0, relation, 1], (30, 1)), scores)
                assert (np.diff(p) >= 0).all()
                assert ((p >= 0) & (p <= 1)).all()


def test_a_constant_scorer_knows_the_prior_and_no_more(graph):
    for prior in (0.5, 0.01):
        found = fit_calibration(lambda t: np.zeros(len(t)), graph, prior=prior)
        p = found.probabilities(graph.test, np.zeros(len(graph.test)))
        np.testing.assert_allclose(p, prior, rtol=0.02)


def model_of(graph, seed=0):
    random = np.random.default_rng(seed)
    model = Model.empty("distmult", 3, len(graph.entities), len(graph.relations))
    model.entities[:] = random.normal(size=model.entities.shape)
    model.relations[:] = random.normal(size=model.relations.shape)
    return model


@pytest.mark.parametrize(("split", "before"), [("valid", ("train",)), ("test", ("train", "valid"))])
def test_examples_of_answers_are_the_best_new_ones(split, before):
    graph = random_graph(n_entities=30, n_relations=2, size=200)
    scorer = model_of(graph).scorer
    known = np.concatenate([graph.split(s) for s in before]).tolist()
    held_out = graph.split(split).tolist()
    expected = set()
    for column in (0, 2):
        for h, r, t in held_out:
            side, given = ("head", t) if column == 0 else ("tail", h)
            barred = naive.answers(known, side, given, r)
            if r not in graph.reflexive_relations:
                barred |= {given}
            rows = [
                (e, r, given) if column == 0 else (given, r, e)
                for e in range(30)
                if e not in barred
            ]
            best = np.argsort(-scorer.score(np.array(rows)))[:10]
            expected |= {(*rows[i], column) for i in best}
    found = find_examples(scorer, graph, split, "answers")
    triples = list(map(tuple, found.triples.tolist()))
    assert len(triples) == len(expected)
    assert set(triples) == {row[:3] for row in expected}
    assert found.labels.tolist() == [list(t) in held_out for t in triples]
    np.testing.assert_allclose(found.scores, scorer.score(found.triples), atol=1e-5)


def test_answers_have_the_base_rate_that_was_found(graph):
    found = fit_calibration(model_of(graph).scorer, graph, asked="answers")
    examples = find_examples(model_of(graph).scorer, graph, "valid", "answers")
    assert found.prior == pytest.approx(examples.labels.mean())
    mean = found.probabilities(examples.triples, examples.scores).mean()
    assert mean == pytest.approx(found.prior, rel=0.1)


@pytest.mark.parametrize("method", ["platt", "isotonic", "global"])
def test_json_keeps_every_digit(graph, score, method):
    found = fit_calibration(score, graph, method=method, prior=0.2)
    again = Calibration.from_dict(json.loads(json.dumps(found.to_dict())))
    scores = score(graph.test)
    np.testing.assert_array_equal(
        again.probabilities(graph.test, scores), found.probabilities(graph.test, scores)
    )
    assert (again.method, again.asked, again.prior) == (method, "facts", 0.2)


def test_what_cannot_be_calibrated_gets_a_sentence(graph, score):
    with pytest.raises(ConfigError, match="unknown method"):
        fit_calibration(score, graph, method="beta")
    with pytest.raises(ConfigError, match="prior must be"):
        fit_calibration(score, graph, prior=1.0)
    with pytest.raises(ConfigError, match="answers need a scorer"):
        fit_calibration(score, graph, asked="answers")
    with pytest.raises(ConfigError, match="facts or answers"):
        fit_calibration(score, graph, asked="guesses")
    bare = Graph("bare", graph.entities, graph.relations, graph.train, [], [])
    with pytest.raises(DataError, match="no valid triples"):
        fit_calibration(score, bare)
    with pytest.raises(DataError, match="no valid triples"):
        fit_calibration(model_of(bare).scorer, bare, asked="answers")
    with pytest.raises(DataError, match="not finite"):
        fit_calibration(lambda t: np.full(len(t), np.nan), graph)


OPTIONS = {"epochs": 3, "threads": 1, "patience": 0}


def test_a_run_keeps_its_calibration_until_the_model_changes(tmp_path):
    graph = random_graph(n_entities=30, n_relations=2, size=300)
    run = bilink.train(graph, "distmult", 4, out=tmp_path / "run", options=OPTIONS)
    found = run.calibration()
    assert run.calibration() is found
    kept = json.loads((tmp_path / "run" / "calibration.json").read_text())
    assert kept["facts"]["weights"] == found.weights.tolist()
    chosen = bilink.load(tmp_path / "run").calibrate(prior=0.2)  # the user's choice is kept
    assert bilink.load(tmp_path / "run").calibration().prior == chosen.prior == 0.2
    p = run.probability(graph.test, run.scorer.score(graph.test))
    assert ((p > 0) & (p < 1)).all()
    assert set(json.loads((tmp_path / "run" / "calibration.json").read_text())) == {
        "facts",
        "answers",
    }
    more = bilink.resume(tmp_path / "run", options={"epochs": 5})
    again = bilink.load(tmp_path / "run").calibration()
    np.testing.assert_array_equal(again.weights, more.calibration().weights)
    assert again.prior == 0.5  # of the new model, made anew


@pytest.mark.parametrize("text", ["[]", "{", '{"facts": {}}', '{"facts": {"weights": [1]}}'])
def test_a_damaged_calibration_is_none(tmp_path, text):
    graph = random_graph(n_entities=30, n_relations=2, size=300)
    bilink.train(graph, "distmult", 4, out=tmp_path / "run", options=OPTIONS)
    (tmp_path / "run" / "calibration.json").write_text(text)
    run = bilink.load(tmp_path / "run")
    assert run.calibration() is None
    assert run.probability is None
    assert (tmp_path / "run" / "calibration.json").read_text() == text
    run.calibrate()
    assert "offsets" in json.loads((tmp_path / "run" / "calibration.json").read_text())["facts"]


def files_of(folder):
    return {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in folder.rglob("*")}


@pytest.mark.parametrize("calibrated", [True, False])
def test_reading_never_writes(tmp_path, calibrated):
    graph = random_graph(n_entities=30, n_relations=2, size=300)
    bilink.train(graph, "distmult", 4, out=tmp_path / "run", options=OPTIONS)
    if not calibrated:
        (tmp_path / "run" / "calibration.json").unlink()
    before = files_of(tmp_path)
    run = bilink.load(tmp_path / "run")
    answers = run.query(head="e0", relation="r0", k=3)
    assert [answer.probability is not None for answer in answers] == [calibrated] * 3
    run.query(relation="r0")
    run.query(head="e0", tail="e1")
    run.new_facts(3)
    run.score([("e0", "r0", "e1")])
    run.explain("e0", "r0", "e1")
    run.evaluate()
    assert (run.classify().probabilities is not None) == calibrated
    assert files_of(tmp_path) == before


def test_a_run_without_validation_triples_has_no_probabilities():
    graph = random_graph(n_entities=30, n_relations=2, size=300)
    bare = Graph("bare", graph.entities, graph.relations, graph.train, [], [])
    run = bilink.train(bare, "distmult", 4, options=OPTIONS)
    assert run.probability is None


def test_ensembles_are_calibrated_as_models_are():
    graph = random_graph(n_entities=30, n_relations=2, size=300)
    runs = [bilink.train(graph, model, 4, options=OPTIONS) for model in ("distmult", "transe")]
    both = bilink.combine(runs, shrinkage=1.0)
    scores = both.scorer.score(graph.test)
    p = both.calibration().probabilities(graph.test, scores)
    odds = both.calibration().log_odds(graph.test, scores)
    np.testing.assert_allclose(p, expit(odds))


def test_classification_has_probabilities_of_a_run():
    graph = random_graph(n_entities=30, n_relations=2, size=300)
    run = bilink.train(graph, "distmult", 4, options=OPTIONS)
    result = run.classify()
    expected = run.calibration().probabilities(result.triples, result.scores)
    np.testing.assert_array_equal(result.probabilities, expected)
    found = result.to_dict()["calibration"]
    assert found["brier"] == pytest.approx(np.mean((expected - result.labels) ** 2))
    assert bilink.classify_triples(run.model.score, graph).to_dict()["calibration"] is None
