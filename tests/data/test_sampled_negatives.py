"""False triples made of true ones."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bilink.data.graph import SPLITS, Graph
from bilink.data.loading import load_graph
from bilink.data.negatives import sample_negatives
from bilink.data.vocabulary import Vocabulary
from bilink.errors import ConfigError, DataError
from conftest import random_graph


def graph_of(train, valid=(), test=(), n_entities=5, n_relations=2):
    return Graph(
        "small",
        Vocabulary("entity", tuple(f"e{i}" for i in range(n_entities))),
        Vocabulary("relation", tuple(f"r{i}" for i in range(n_relations))),
        np.array(train).reshape(-1, 3),
        np.array(valid).reshape(-1, 3),
        np.array(test).reshape(-1, 3),
    )


def rows(triples):
    return [tuple(triple) for triple in np.asarray(triples).tolist()]


def possible(graph, triple, side, known, *, any_entity):
    """All false triples that differ in ``side``, by looking at every entity."""
    column = {"head": 0, "tail": 2}[side]
    true = {row for split in known for row in rows(graph.split(split))}
    seen = {t[column] for t in rows(graph.train) if t[1] == triple[1]}
    found = set()
    for entity in range(len(graph.entities)) if any_entity else seen:
        other = list(triple)
        other[column] = entity
        if tuple(other) not in true:
            found.add(tuple(other))
    return found


@given(
    seed=st.integers(0, 1000), size=st.integers(5, 90), known=st.sampled_from([SPLITS, SPLITS[:2]])
)
def test_one_side_changes_in_position_and_never_to_a_known_triple(seed, size, known):
    graph = random_graph(seed, n_entities=6, n_relations=2, size=size)
    for side in ("head", "tail"):
        negatives = rows(sample_negatives(graph, graph.triples, seed, sides=side, known=known))
        for triple in rows(graph.triples):
            choices = possible(graph, triple, side, known, any_entity=False)
            choices = choices or possible(graph, triple, side, known, any_entity=True)
            if choices:  # else the triple has no negative
                assert negatives.pop(0) in choices
        assert not negatives


@given(seed=st.integers(0, 1000), size=st.integers(5, 90))
def test_either_side_changes_and_positions_go_before_any_entity(seed, size):
    graph = random_graph(seed, n_entities=5, n_relations=2, size=size)
    negatives = rows(sample_negatives(graph, graph.triples, seed))
    for triple in rows(graph.triples):
        choices = [
            possible(graph, triple, "head", SPLITS, any_entity=any_entity)
            | possible(graph, triple, "tail", SPLITS, any_entity=any_entity)
            for any_entity in (False, True)
        ]
        if choices[0] or choices[1]:
            assert negatives.pop(0) in (choices[0] or choices[1])
    assert not negatives


def test_every_possible_replacement_is_equally_likely():
    graph = graph_of([(0, 0, 1), (0, 0, 2), (3, 0, 4), (3, 0, 0), (1, 0, 3)], test=[(0, 0, 3)])
    drawn = sample_negatives(graph, [(0, 0, 1)], sides="tail", count=30_000)
    tails, counts = np.unique(drawn[:, 2], return_counts=True)
    assert tails.tolist() == [0, 4]  # of the tails 0 to 4, 1 and 2 are known, 3 from the test split
    assert abs(counts[0] - 15_000) < 500
    raw = sample_negatives(graph, [(0, 0, 1)], sides="tail", count=30_000, known=["train"])
    assert np.unique(raw[:, 2]).tolist() == [0, 3, 4]


def test_sides_are_drawn_evenly_and_both_gives_each():
    graph = random_graph(size=30)
    triples = np.repeat(graph.test[:1], 10_000, axis=0)
    assert abs((sample_negatives(graph, triples)[:, 0] != triples[:, 0]).sum() - 5_000) < 300
    both = sample_negatives(graph, graph.test, sides="both", count=2).reshape(-1, 4, 3)
    changed = both != graph.test[:, None, :]
    assert changed[:, :2, 0].all()
    assert changed[:, 2:, 2].all()
    assert not changed[:, :2, 1:].any()
    assert not changed[:, 2:, :2].any()


def test_a_single_tail_leaves_the_head_then_any_entity():
    heads = graph_of([(0, 0, 4), (1, 0, 4), (2, 1, 3)], test=[(3, 0, 4)])
    raw = rows(sample_negatives(heads, [(3, 0, 4)] * 50, known=[]))
    assert set(raw) == {(0, 0, 4), (1, 0, 4), (3, 0, 4)}  # in position, were they not known
    found = set(rows(sample_negatives(heads, [(3, 0, 4)] * 200)))
    assert found == {(2, 0, 4), (4, 0, 4), *((3, 0, tail) for tail in range(4))}
    pairs = graph_of([(0, 0, 4), (1, 0, 4), (2, 0, 3)])  # head 2 goes with both tails but its own
    assert set(rows(sample_negatives(pairs, [(2, 0, 3)] * 99, sides="tail"))) == {(2, 0, 4)}


def test_relations_that_training_does_not_have_fall_back_to_any_entity():
    graph = graph_of([(0, 0, 1)], test=[(2, 1, 3)])
    negatives = sample_negatives(graph, graph.test, count=100)
    assert len(negatives) == 100
    assert (2, 1, 3) not in rows(negatives)
    assert len(sample_negatives(graph_of([], test=[(0, 0, 1)]), [(0, 0, 1)])) == 1


def test_a_relation_between_all_entities_has_no_negatives():
    everything = [(h, 0, t) for h in range(3) for t in range(3)]
    graph = graph_of([*everything, (0, 1, 1)], n_entities=3)
    assert rows(sample_negatives(graph, everything)) == []
    assert len(sample_negatives(graph, [*everything, (0, 1, 1)])) == 1
    assert sample_negatives(graph, graph.test).shape == (0, 3)


def test_equal_seeds_give_equal_negatives():
    graph = random_graph()
    first, again, other = (sample_negatives(graph, graph.test, seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sides": "left"}, "sides must be one of random, head, tail, both"),
        ({"count": 0}, "count must be at least 1"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"known": ["tset"]}, "unknown split 'tset'"),
        ({"triples": [(0, 9, 1)]}, "ids that graph 'random' does not have"),
    ],
)
def test_impossible_wishes_get_a_sentence(options, message):
    graph = random_graph()
    with pytest.raises((ConfigError, DataError), match=message):
        sample_negatives(graph, **{"triples": graph.test, **options})


@pytest.mark.realdata
def test_negatives_of_a_large_split_come_quickly(real_data):
    graph = load_graph(real_data / "fb15k")
    start = time.process_time()
    assert len(sample_negatives(graph, graph.test)) == 59_071
    assert time.process_time() - start < 2  # some 0.3 s
