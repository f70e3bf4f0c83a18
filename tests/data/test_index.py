"""The index of facts against sets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bilink.data.graph import COLUMNS, SPLITS
from bilink.data.index import answers_of, known_answers
from conftest import random_graph

splits = st.lists(st.sampled_from(SPLITS), unique=True)


def facts_of(graph, chosen):
    return {tuple(row) for split in chosen for row in graph.split(split).tolist()}


def every_triple(graph):
    sizes = len(graph.entities), len(graph.relations), len(graph.entities)
    return np.stack(np.unravel_index(np.arange(np.prod(sizes)), sizes), axis=1)


@given(seed=st.integers(0, 10_000), chosen=splits)
def test_known_answers_of_every_query_agree_with_sets(seed, chosen):
    graph = random_graph(seed)
    facts, index = facts_of(graph, chosen), known_answers(graph, chosen)
    for side, (given_column, answer_column) in COLUMNS.items():
        assert len(index[side].answers) == len(facts)
        for entity in range(len(graph.entities)):
            for r in range(len(graph.relations)):
                mine = [f for f in facts if (f[given_column], f[1]) == (entity, r)]
                expected = sorted(f[answer_column] for f in mine)
                assert index[side].of_query(entity, r).tolist() == expected


@given(seed=st.integers(0, 10_000), chosen=splits)
def test_an_index_holds_its_facts_and_nothing_else(seed, chosen):
    graph = random_graph(seed)
    facts, index = facts_of(graph, chosen), known_answers(graph, chosen)
    triples = every_triple(graph)
    assert {tuple(row) for row in triples[index.holds(triples)].tolist()} == facts
    assert index.count == len(facts)


@given(seed=st.integers(0, 10_000), chosen=splits)
def test_the_pairs_and_positions_of_a_relation_agree_with_sets(seed, chosen):
    graph = random_graph(seed)
    facts, index = facts_of(graph, chosen), known_answers(graph, chosen)
    n = len(graph.entities)
    entities, starts = index.positions
    assert len(starts) == 2 * len(graph.relations) + 1
    for r in range(len(graph.relations)):
        mine = [f for f in facts if f[1] == r]
        assert index.pairs(r).tolist() == sorted(h * n + t for h, _, t in mine)
        for position, side, column in ((2 * r, "head", 0), (2 * r + 1, "tail", 2)):
            expected = sorted({f[column] for f in mine})
            assert index.seen(r, side).tolist() == expected
            assert entities[starts[position] : starts[position + 1]].tolist() == expected


def test_a_side_is_head_or_tail():
    index = known_answers(random_graph(0), ("train",))
    assert list(index) == ["head", "tail"]
    with pytest.raises(KeyError):
        index["relation"]


@given(seed=st.integers(0, 10_000), chosen=splits, part=st.sampled_from(SPLITS))
def test_the_answers_of_some_queries_are_those_of_the_whole_index(seed, chosen, part):
    graph = random_graph(seed)
    asked = graph.split(part)[::3]
    whole, some = known_answers(graph, chosen), answers_of(graph, chosen, asked)
    for side, (given_column, _) in COLUMNS.items():
        queries = {(int(row[given_column]), int(row[1])) for row in asked}
        answers = [whole[side].of_query(*query).tolist() for query in sorted(queries)]
        for query, wanted in zip(sorted(queries), answers, strict=True):
            assert some[side].of_query(*query).tolist() == wanted
        assert len(some[side].answers) == sum(map(len, answers))  # and no others
