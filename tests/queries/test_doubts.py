"""Doubtful facts: on graphs whose errors are known."""

import csv
import json
from dataclasses import replace

import numpy as np
import polars
import pytest
from scipy.stats import spearmanr

import bilink
from bilink.data.graph import Graph
from bilink.data.vocabulary import Vocabulary
from bilink.distributed.local import LocalExecutor
from bilink.errors import ConfigError, DataWarning, RunError
from bilink.evaluation.evidence import FEATURES, Evidence
from bilink.evaluation.probability import Judge
from bilink.models.model import Model
from bilink.queries.doubts import _LOG_PROBABILITIES, _PRIOR, _plant, _Usual, doubt_facts
from bilink.runs.audit import cross_fit, deal, kept_doubts
from conftest import random_graph

OPTIONS = {"epochs": 3, "threads": 1, "patience": 0}


def blocks(n=24, groups=4, wrong=3):
    """Entities know those of their own group; the last ``wrong`` facts join two groups."""
    facts = [(a, 0, b) for a in range(n) for b in range(n) if a != b and a % groups == b % groups]
    errors = [(i, 0, i + 1) for i in range(wrong)]
    names = Vocabulary("entity", tuple(f"e{i}" for i in range(n)))
    return Graph("blocks", names, Vocabulary("relation", ("knows",)), facts + errors, [], [])


def knowing(graph, groups=4):
    """A model that scores by the group alone."""
    model = Model.empty("distmult", groups, len(graph.entities), 1)
    model.entities[:] = np.eye(groups)[np.arange(len(graph.entities)) % groups]
    model.relations[:] = 1
    return model


def test_errors_come_first_and_nothing_that_is_likely_right_is_listed():
    graph = blocks()
    fold = deal(len(graph.train), 3)
    found = doubt_facts(graph, [knowing(graph).scorer] * 3, fold, k=5)
    assert {(d.head, d.tail) for d in found} == {("e0", "e1"), ("e1", "e2"), ("e2", "e3")}
    assert [d.rank for d in found] == [1, 2, 3]
    assert all(doubt.probability < 0.5 for doubt in found)
    assert found.likely_wrong == 3
    assert np.argsort(-found.values)[:3].min() == len(graph.train) - 3
    assert len(doubt_facts(graph, [knowing(graph).scorer] * 3, fold, k=2)) == 2


def test_facts_of_all_splits_are_judged():
    graph = blocks(wrong=4)
    train, valid, test = np.split(graph.train, [len(graph.train) - 3, len(graph.train) - 2])
    graph = replace(graph, train=train, valid=valid, test=test)
    fold = deal(len(graph.triples), 3)
    found = doubt_facts(graph, [knowing(graph).scorer] * 3, fold)
    assert {d.head for d in found} == {"e0", "e1", "e2", "e3"}


def test_suggestions_are_new_and_more_probable_than_the_fact():
    graph = replace(random_graph(n_entities=30, n_relations=3, size=300), valid=[], test=[])
    model = Model.empty("distmult", 4, 30, 3)
    random = np.random.default_rng(0)
    model.entities[:], model.relations[:] = (
        random.normal(size=array.shape) for array in (model.entities, model.relations)
    )
    facts = set(map(tuple, graph.triples.tolist()))
    fold = deal(len(graph.train), 2)
    find, suggested = graph.entities.find, 0
    judges = []
    for i in range(2):
        part = replace(graph, train=graph.train[fold != i], valid=graph.train[fold == i])
        evidence = Evidence(model.scorer, part)
        learnt = bilink.fit_probability(model.scorer, part, evidence=evidence)
        judges.append(Judge(evidence, learnt))
    for doubt in doubt_facts(graph, [model.scorer] * 2, fold, k=20, errors=0.6):
        h, r, t = find(doubt.head), graph.relations.find(doubt.relation), find(doubt.tail)
        judge = judges[fold[(graph.train == [h, r, t]).all(axis=1)][0]]
        for side, column in (("head", 0), ("tail", 2)):
            if (found := doubt.suggestions[side]) is not None:
                other = [h, r, t]
                other[column] = find(found.name)
                assert tuple(other) not in facts
                odds, chances = judge(np.array([[h, r, t], other]))
                assert odds[1] > odds[0]
                assert found.probability == pytest.approx(chances[1])
                suggested += 1
    assert suggested


def test_the_expected_share_of_errors_moves_probabilities_and_hardly_the_order():
    graph = random_graph(n_entities=30, n_relations=3, size=300)
    scorer = bilink.train(graph, "distmult", 4, options=OPTIONS).scorer
    fold = deal(len(graph.triples), 2)
    few, many = (doubt_facts(graph, [scorer] * 2, fold, errors=e) for e in (0.02, 0.3))
    assert few.values.mean() < many.values.mean()
    assert few.likely_wrong < many.likely_wrong
    assert spearmanr(few.values, many.values)[0] > 0.9


def test_planted_errors_are_no_facts_and_have_one_end_of_another_fact():
    graph = random_graph(n_entities=30, n_relations=3, size=300)
    scorer = bilink.train(graph, "distmult", 4, options=OPTIONS).scorer
    errors, features = _plant(scorer, graph, graph, 0, seed=0)
    facts = set(map(tuple, graph.triples.tolist()))
    held_out = graph.valid.tolist()
    assert len(errors) == len(features) > 0
    for h, r, t in errors.tolist():
        assert (h, r, t) not in facts
        assert any(q == r and (a == h) != (b == t) for a, q, b in held_out)
        assert any(q == r and (a == h or b == t) for a, q, b in facts)


def test_an_error_is_judged_as_if_the_graph_held_it_in_place_of_the_fact():
    """The one answer of a place that holds one is not counted as a second."""
    names = Vocabulary("entity", tuple(f"e{i}" for i in range(40)))
    facts = [(i, 0, 30 + i % 4) for i in range(30)]
    graph = Graph("places", names, Vocabulary("relation", ("in",)), facts[:20], facts[20:], [])
    model = Model.empty("distmult", 2, 40, 1)
    errors, features = _plant(model.scorer, graph, graph, 0, seed=0)
    with_other_tail = np.isin(errors[:, 0], graph.valid[:, 0])
    assert with_other_tail.any()
    assert (features[with_other_tail][:, FEATURES.index("tail: no known answer")] == 1).all()


def test_what_is_usual_of_a_relation_is_drawn_to_all():
    random = np.random.default_rng(0)
    features = random.normal(size=(50, len(FEATURES)))
    relations = np.repeat([0, 1], [45, 5])
    usual = _Usual.of(features, relations, 3)
    values = features[:, _LOG_PROBABILITIES]
    for r in range(3):
        own = values[relations == r]
        mean = (own.sum(axis=0) + _PRIOR * values.mean(axis=0)) / (len(own) + _PRIOR)
        squares = ((own - own.mean(axis=0)) ** 2).sum(axis=0) if len(own) else np.zeros(2)
        variance = (squares + _PRIOR * values.var(axis=0)) / (len(own) + _PRIOR)
        np.testing.assert_allclose(usual.mean[r], mean)
        np.testing.assert_allclose(usual.spread[r], np.sqrt(variance))
    added = usual.added(features, relations)
    assert added.shape == (50, len(FEATURES) + 14)


def test_folds_are_even_and_repeatable():
    fold = deal(103, 5)
    assert sorted(np.bincount(fold).tolist()) == [20, 20, 21, 21, 21]
    np.testing.assert_array_equal(fold, deal(103, 5))
    assert (fold != deal(103, 5, seed=1)).any()
    for wrong in (1, 104, -1):
        with pytest.raises(ConfigError, match="folds must be"):
            deal(103, wrong)


@pytest.fixture(scope="module")
def graph():
    return random_graph(n_entities=30, n_relations=2, size=300)


@pytest.fixture
def run(graph, tmp_path):
    return bilink.train(graph, "distmult", 4, out=tmp_path / "run", options=OPTIONS)


def test_no_model_has_seen_what_it_judges(run):
    fitted = cross_fit(run, 3)
    for i, part in enumerate(fitted.runs):
        own = set(map(tuple, run.graph.train[fitted.fold[: len(run.graph.train)] == i].tolist()))
        seen = set(map(tuple, part.graph.train.tolist()))
        assert not own & seen
        assert own | seen == set(map(tuple, run.graph.train.tolist()))
        assert part.config.training == run.config.training
        assert (part.config.model, part.config.dim) == ("distmult", 4)


def test_an_audit_is_kept_and_gone_on_with(run):
    told = []
    stop = bilink.audit(
        run,
        k=7,
        folds=2,
        on_epoch=lambda i, record: told.append((i, record["epoch"])),
        should_stop=lambda: len(told) == 4,
    )
    assert stop is None
    assert told == [(0, 1), (0, 2), (0, 3), (1, 1)]
    assert kept_doubts(run) is None
    found = bilink.audit(run, k=7, folds=2, on_epoch=lambda *news: told.append(news))
    assert len(told) == 6  # the second fold went on from its checkpoint
    assert kept_doubts(run) == json.loads(json.dumps(found.to_dict()))["doubts"]
    again = bilink.audit(run, k=7, folds=2, on_epoch=lambda *news: told.append(news))
    assert len(told) == 6
    assert again.to_dict() == found.to_dict()
    fresh = bilink.audit(bilink.train(run.graph, "distmult", 4, options=OPTIONS), k=7, folds=2)
    np.testing.assert_allclose(fresh.values, found.values, atol=1e-6)


def test_a_run_that_changes_forgets_its_audit_and_force_clears_it(run):
    bilink.audit(run, folds=2)
    bilink.resume(run.path, options={"epochs": 4})
    with pytest.warns(DataWarning, match="belongs to another model"):
        assert kept_doubts(bilink.load(run.path)) is None
    again = bilink.audit(bilink.load(run.path), folds=2)
    assert again is not None
    bilink.train(run.graph, "transe", 4, out=run.path, force=True, options=OPTIONS)
    assert not (run.path / "audit").exists()


def test_folds_are_trained_in_other_processes_as_well(run, tmp_path):
    found = bilink.audit(run, folds=2, workers=LocalExecutor(1, 1))
    alone = bilink.audit(run, folds=2, work=tmp_path / "work")
    np.testing.assert_allclose(found.values, alone.values, atol=1e-6)
    with pytest.raises(ConfigError, match="work folder"):
        cross_fit(run, 2, workers=LocalExecutor(1, 1))


def test_folds_in_other_processes_can_be_stopped_and_gone_on_with(run, tmp_path):
    work = tmp_path / "work"
    places = {"folds": 2, "work": work, "workers": LocalExecutor(1, 1)}
    first_is_done = (work / "fold-0" / "model.safetensors").exists
    assert bilink.audit(run, **places, should_stop=first_is_done) is None
    before = (work / "fold-0" / "model.safetensors").stat().st_mtime_ns
    found = bilink.audit(run, **places)
    assert (work / "fold-0" / "model.safetensors").stat().st_mtime_ns == before
    alone = bilink.audit(run, folds=2, work=tmp_path / "alone")
    np.testing.assert_allclose(found.values, alone.values, atol=1e-6)


def test_a_work_folder_with_other_things_is_left_alone(run, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    (work / "thesis.tex").write_text("years of work")
    with pytest.raises(RunError, match=r"thesis\.tex"):
        bilink.audit(run, folds=2, work=work)
    assert [path.name for path in work.iterdir()] == ["thesis.tex"]


def test_an_ensemble_is_stood_for_by_its_first_member(graph):
    members = [bilink.train(graph, model, 4, options=OPTIONS) for model in ("distmult", "transe")]
    both = bilink.combine(members, shrinkage=1.0)
    fitted = cross_fit(both, 2, options={"epochs": 1})
    assert {part.config.model for part in fitted.runs} == {"distmult"}
    assert {part.config.training.epochs for part in fitted.runs} == {1}


def test_doubts_can_be_written_to_a_file(run, tmp_path):
    found = bilink.audit(run, k=4, folds=2, errors=0.6)
    for name in ("doubts.csv", "doubts.tsv", "doubts.parquet", "doubts.json"):
        found.write(tmp_path / name)
    with open(tmp_path / "doubts.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4
    assert tuple(rows[0]) == found.columns == tuple(found.rows()[0])
    assert [float(row["probability"]) for row in rows] == [doubt.probability for doubt in found]
    assert polars.read_parquet(tmp_path / "doubts.parquet").equals(found.to_polars())
    assert json.loads((tmp_path / "doubts.json").read_text()) == found.to_dict()
    with pytest.raises(ConfigError, match=r"must end in .tsv, .csv, .parquet or .json"):
        found.write(tmp_path / "doubts.ttl")


@pytest.mark.parametrize("wrong", [{"k": 0}, {"errors": 0.0}, {"errors": 1.0}])
def test_what_makes_no_sense_is_refused(run, wrong):
    with pytest.raises(ConfigError, match="must be"):
        bilink.audit(run, folds=2, **wrong)
