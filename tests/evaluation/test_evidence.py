"""Evidence for triples, against a slow and obvious reference."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bilink
from bilink.data.index import known_answers
from bilink.evaluation.evidence import FEATURES, Evidence, _compare_rows
from bilink.models.scorer import SIDES
from conftest import random_graph

GIVEN, ANSWER = {"tail": 0, "head": 2}, {"tail": 2, "head": 0}


def random_model(name, dim, graph, seed):
    model = bilink.Model.empty(name, dim, len(graph.entities), len(graph.relations))
    random = np.random.default_rng(seed)
    model.entities[:] = random.normal(size=model.entities.shape)
    model.relations[:] = random.normal(size=model.relations.shape)
    return model


def log_odds(share):
    share = min(max(share, 0.01), 0.99)
    return math.log(share / (1 - share))


def companions(own, train_units, e):
    """Shares and lifts of the other relations of a unit, by the units of train."""
    shares, lifts = [], []
    has_e = sum(e in unit for unit in train_units)
    for d in sorted(own - {e}):
        has_d = sum(d in unit for unit in train_units)
        both = sum(d in unit and e in unit for unit in train_units)
        shares.append(both / (has_d + 2))
        lifts.append(math.log((both + 1) / (has_d * has_e / max(len(train_units), 1) + 1)))
    return shares, lifts


def units_of(facts, k, pairs):
    found = {}
    for h, r, t in facts:
        ends = (((h, t), r), ((t, h), r + k)) if pairs else ((h, r), (t, r + k))
        for unit, directed in ends:
            found.setdefault(unit, set()).add(directed)
    return found


def expected(graph, scores, triple):
    """The features of one triple by their names; ``scores(side, given, relation)`` is a row."""
    h, r, t = triple
    k = len(graph.relations)
    facts = {tuple(f) for f in graph.triples.tolist()}
    train = [tuple(f) for f in graph.train.tolist()]
    found = {}
    entities, trained = (units_of(part, k, False) for part in (facts, train))
    for side in SIDES:
        given, answer = triple[GIVEN[side]], triple[ANSWER[side]]
        known = {f[ANSWER[side]] for f in facts if f[1] == r and f[GIVEN[side]] == given}
        row = scores(side, given, r).astype(np.float64)
        barred = known | (set() if r in graph.reflexive_relations else {given})
        open_ = [j for j in range(len(row)) if j not in barred - {answer}]
        total = sum(math.exp(row[j] - row[answer]) for j in open_ if j not in barred)
        total += answer in barred
        above = sum(row[j] > row[answer] for j in open_)
        level = sum(row[j] == row[answer] for j in open_ if j != answer)
        number = len(known - {answer})
        own = {"log-probability among the candidates": max(-math.log(total), -20)}
        own["logarithm of the rank"] = -math.log(1 + above + level / 2)
        own["log-probability, single-valued"] = None  # below
        own["known answers"] = math.log1p(number)
        own["no known answer"] = float(number == 0)
        sizes = {}
        for f in set(train):
            sizes.setdefault((f[GIVEN[side]], f[1]), set()).add(f[ANSWER[side]])
        counts = [(key[1], len(value)) for key, value in sizes.items()]
        more = sum(size > number for _, size in counts) + 1
        common = more / (sum(size >= number for _, size in counts) + 2)
        mine = [size for relation, size in counts if relation == r]
        chance = (sum(s > number for s in mine) + 3 * common) / (sum(s >= number for s in mine) + 3)
        second = (sum(size > 1 for _, size in counts) + 1) / (len(counts) + 2)
        two = (sum(s > 1 for s in mine) + 3 * second) / (len(mine) + 3)
        first = own["log-probability among the candidates"]
        own["log-probability, single-valued"] = first * (1 - two)
        own["chance of one more answer"] = log_odds(0.5 if number == 0 else chance)
        e = r + (k if side == "head" else 0)
        shares, lifts = companions(entities.get(given, set()), list(trained.values()), e)
        own["best companion"] = log_odds(max(shares, default=0))
        own["mean companion"] = log_odds(np.mean(shares) if shares else 0)
        own["worst companion"] = min([*lifts, 0])
        own["mean lift"] = np.mean(lifts) if lifts else 0
        own["relations"] = math.log1p(len(shares))
        own["usual answers"] = math.log(max(sum(mine), 1) / max(len(mine), 1))
        found |= {f"{side}: {name}": value for name, value in own.items()}
    pairs, trained = (units_of(part, k, True) for part in (facts, train))
    shares, lifts = companions(pairs.get((h, t), set()), list(trained.values()), r)
    found["other relations of the pair"] = math.log1p(len(shares))
    found["worst companion of the pair"] = min([*lifts, 0])
    found["best lift of the pair"] = max([*lifts, 0])
    found["best companion of the pair"] = max(shares, default=0)
    found["facts of the relation"] = math.log1p(sum(f[1] == r for f in train))
    return found


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_features_are_those_of_the_definition(seed):
    graph = random_graph(seed=seed)
    model = random_model("complex", 3, graph, seed)
    scorer = model.scorer
    random = np.random.default_rng(seed)
    some = graph.triples[random.permutation(len(graph.triples))[:6]]
    others = np.stack([random.integers(0, n, 6) for n in (12, 3, 12)], axis=1)
    triples = np.concatenate([some, others])
    features = Evidence(scorer, graph).features(triples)

    def scores(side, given, relation):
        return scorer.scores(side, np.array([given]), np.array([relation]))[0]

    for row, triple in zip(features, triples.tolist(), strict=True):
        wanted = expected(graph, scores, triple)
        assert list(wanted) == list(FEATURES)
        np.testing.assert_allclose(row, list(wanted.values()), rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def evidence():
    graph = random_graph()
    model = random_model("distmult", 4, graph, 1)
    return Evidence(model.scorer, graph)


def test_lists_hold_the_best_candidates_that_are_not_known(evidence):
    graph, known = evidence.graph, known_answers(evidence.graph, ("train", "valid", "test"))
    for side in SIDES:
        places = evidence.places(side)
        lists = evidence.lists(places, 4)
        assert not known.holds(lists.triples).any()
        features = evidence.features(lists.triples)
        first = FEATURES.index(f"{side}: log-probability among the candidates")
        np.testing.assert_allclose(features[:, first], lists.log_probability, rtol=1e-4, atol=1e-5)
        for i in (0, len(places.given) - 1):
            given, relation = places.given[i], places.relations[i]
            row = evidence.scorer.scores(side, np.array([given]), np.array([relation]))[0]
            row[known[side].of_query(int(given), int(relation))] = -np.inf
            if relation not in graph.reflexive_relations:
                row[given] = -np.inf
            mine = lists.triples[lists.place == i][:, ANSWER[side]]
            np.testing.assert_allclose(row[mine], np.sort(row)[::-1][: len(mine)])


def test_whoever_is_seen_in_a_position_is_asked_about(evidence):
    for side in SIDES:
        places = set(zip(*(p.tolist() for p in evidence.places(side)[1:]), strict=True))
        assert {(f[GIVEN[side]], f[1]) for f in evidence.graph.triples.tolist()} <= places


def test_scores_that_are_far_apart_have_finite_log_probabilities():
    scores = np.array([[0.0, 3000.0, 6000.0]])
    known, out = np.array([1, 2]), np.empty((2, 2))
    places = np.zeros(2, dtype=np.int64)
    start, stop, own = np.array([0]), np.array([2]), np.array([-1])
    _compare_rows(scores, start, stop, known, own, places, known, out)
    np.testing.assert_array_equal(out[:, 0], 0)  # each is far above the only other candidate
