"""Without probabilities, candidates that make no sense are left out, and the answer says so."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import bilink
from bilink.data.graph import Graph
from bilink.data.vocabulary import Vocabulary
from bilink.queries.answers import Question
from conftest import random_graph

CAPITAL, BORDERS, LIES_IN, NEW = range(4)
N = 24  # countries, then as many cities
COUNTRIES, CITIES = range(N), range(N, 2 * N)
NAMES = tuple([f"country {i}" for i in COUNTRIES] + [f"city {i}" for i in CITIES])


@pytest.fixture(scope="module")
def run():
    """Most countries have a capital, which lies in them, and borders; nobody has validation facts.

    The last three have none; the first has two.
    """
    has = COUNTRIES[:-3]
    facts = [(i, CAPITAL, N + i) for i in has] + [(0, CAPITAL, 2 * N - 1)]
    facts += [(i, BORDERS, (i + step) % len(has)) for i in has for step in (1, 2)]
    facts += [(N + i, LIES_IN, i) for i in has] + [(2 * N - 1, LIES_IN, 0)]
    relations = Vocabulary("relation", ("capital", "borders", "lies in", "new"), {"borders": "b\n"})
    graph = Graph("g", Vocabulary("entity", NAMES), relations, np.array(facts), [], [])
    return bilink.train(graph, "distmult", 4, epochs=2, threads=1)


def facts(answers):
    return {(a.head, a.tail) for a in answers}


def reasons(answers):
    return [(part.count, part.reason) for part in answers.left_out]


def test_entities_that_were_never_in_the_position_are_left_out(run):
    assert run.judge is None
    answers = run.query(head="country 1", relation="borders", k=99)
    assert {a.tail for a in answers} == set(NAMES[:21]) - {"country 1"}
    assert reasons(answers) == [(27, "entities that were never the tail of 'b\ufffd'")]
    everything = run.query(head="country 1", relation="borders", k=99, any_entity=True)
    assert {a.tail for a in everything} == set(NAMES) - {"country 1"}
    assert not everything.left_out
    new = run.query(tail="country 1", relation="borders", k=99, new=True)
    assert len(new) == 18
    assert reasons(new)[0][0] == 27


def test_a_place_that_has_its_one_value_gets_no_other(run):
    answers = run.query(head="country 3", relation="capital", k=99)
    assert facts(answers) == {("country 3", "city 27")}
    why = "entities, since 'capital' has one tail for each head, and this head has it"
    assert reasons(answers) == [(46, why)]
    assert not len(run.query(head="country 3", relation="capital", new=True))
    assert facts(run.query(head="country 0", relation="capital")) == {
        ("country 0", "city 24"),
        ("country 0", "city 47"),
    }
    open_place = run.query(head="country 23", relation="capital", k=99)  # it has none yet
    assert {a.tail for a in open_place} == {*NAMES[24:45], "city 47"}
    assert reasons(open_place) == [(25, "entities that were never the tail of 'capital'")]


def test_pairs_and_new_facts_leave_out_the_same(run):
    borders = run.query(relation="borders", k=999, new=True)
    known = {(NAMES[h], NAMES[t]) for h, r, t in run.graph.train.tolist() if r == BORDERS}
    pairs = set(product(NAMES[:21], NAMES[:21])) - {(name, name) for name in NAMES}
    assert facts(borders) == pairs - known
    everything = run.query(relation="borders", k=9999, new=True, any_entity=True)
    assert reasons(borders) == [
        (
            len(everything) - len(borders),
            "pairs with an entity that was never in that position of 'b\ufffd'",
        )
    ]
    assert facts(run.query(relation="borders", k=999)) == pairs

    capitals = run.query(relation="capital", k=999)
    assert len(capitals) == 22
    assert all(answer.known for answer in capitals)
    scores = [answer.score for answer in capitals]
    assert scores == sorted(scores, reverse=True)
    assert len(run.query(relation="capital", k=3)) == 3
    new = run.query(relation="capital", new=True)
    left = len(run.query(relation="capital", k=9999, new=True, any_entity=True))
    assert not len(new)
    assert reasons(new) == [(left, "new pairs, since 'capital' has one head for each tail")]

    found = run.new_facts(9999)
    assert {a.relation for a in found} == {"borders", "new"}
    everything = run.new_facts(99_999, any_entity=True)
    assert sum(part.count for part in found.left_out) == len(everything) - len(found)
    assert [part.reason for part in found.left_out] == [
        "new pairs, since the relation has one value for each head or tail",
        "pairs with an entity that was never in that position of the relation",
    ]


def test_nothing_is_left_out_of_a_relation_without_training_facts(run):
    for answers in (
        run.query(head="city 25", relation="new", k=99),
        run.query(relation="new", k=9999),
    ):
        assert not answers.left_out
    assert len(run.query(head="city 25", relation="new", k=99)) == len(NAMES) - 1
    assert not run.query(head="city 25", tail="city 26").left_out


def test_what_the_user_allows_is_obeyed(run):
    some = run.query(head="country 3", relation="capital", only=["city 30", "country 4"])
    assert {a.tail for a in some} == {"city 30", "country 4"}
    assert not some.left_out
    seen = run.query(head="country 3", relation="capital", only="seen", k=99)
    assert len(seen) == 22
    assert not seen.left_out


def test_few_places_or_many_values_do_not_make_a_relation_single_valued():
    def single(facts):
        graph = random_graph(n_entities=40, n_relations=1)
        graph = Graph("g", graph.entities, graph.relations, np.array(facts), [], [])
        run = bilink.train(graph, "distmult", 2, epochs=1, threads=1)
        return len(run.query(head="e1", relation="r0", k=99)) == 1

    assert not single([(i, 0, i + 20) for i in range(9)])
    assert single([(i, 0, i + 20) for i in range(10)])
    twice = [(0, 0, 1)]
    assert not single([(i, 0, i + 20) for i in range(19)] + twice)
    assert single([(i, 0, i + 20) for i in range(20)] + twice)


def test_the_answer_says_what_was_left_out(run):
    answers = run.query(head="country 3", relation="lies in", k=2)
    note = "(left out: 27 entities that were never the tail of 'lies in'; any_entity=True brings"
    assert note in repr(answers)
    part = {"count": 27, "reason": "entities that were never the tail of 'lies in'"}
    assert answers.to_dict()["left_out"] == [part]
    sets = run.query_all([Question("country 3", "lies in", None)])
    assert sets.to_dict()["left_out"] == [{"question": "(country 3, lies in, ?)", **part}]
    sets = run.query_all([Question("country 3", "lies in", None)], any_entity=True)
    assert sets.to_dict()["left_out"] == []


def test_with_probabilities_nothing_is_left_out():
    graph = random_graph(n_entities=30, size=400)
    names = (*graph.entities.names, "stranger")
    graph = replace(graph, entities=Vocabulary("entity", names))
    run = bilink.train(graph, "complex", 4, epochs=3, threads=1)
    assert run.judge is not None
    answers = run.query(head="e1", relation="r0", k=99)
    assert "stranger" in {a.tail for a in answers}
    assert not answers.left_out
