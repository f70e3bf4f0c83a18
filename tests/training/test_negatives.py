import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bilink._jit import draw
from bilink.data.graph import Graph
from bilink.data.index import known_answers
from bilink.data.vocabulary import Vocabulary
from bilink.models.model import Model
from bilink.training.config import MarginConfig
from bilink.training.margin import MarginEngine, head_chances, known_table
from bilink.training.margin_kernels import contains
from conftest import random_graph


@given(seed=st.integers(0, 10_000))
def test_the_table_holds_the_training_triples_and_nothing_else(seed):
    graph = random_graph(seed)
    table = known_table(graph)
    n, k = len(graph.entities), len(graph.relations)
    train = {tuple(t) for t in graph.train.tolist()}
    for h in range(n):
        for r in range(k):
            for t in range(n):
                assert contains(table, (h * k + r) * n + t) == ((h, r, t) in train)


def test_draws_are_uniform_and_repeatable():
    def draws(seed):
        state = np.array([seed], dtype=np.uint64)
        with np.errstate(over="ignore"):
            return [draw(state, 10) for _ in range(3000)]

    counts = np.bincount(draws(7), minlength=10)
    assert len(counts) == 10
    assert abs(counts - 300).max() < 80  # about five standard deviations
    assert draws(7) == draws(7) != draws(8)


def star(tails):
    """One head with many tails: a 1-N relation."""
    none = np.empty((0, 3))
    triples = np.array([(0, 0, t) for t in range(1, tails + 1)])
    names = tuple(map(str, range(tails + 1)))
    return Graph(
        "star",
        Vocabulary("entity", names),
        Vocabulary("relation", ("r", "unused")),
        triples,
        none,
        none,
    )


def test_bernoulli_corrupts_the_side_with_fewer_true_answers():
    chances = head_chances(star(9), "bernoulli") / 2**31
    assert chances[0] == pytest.approx(0.9)  # tails per head 9, heads per tail 1
    assert chances[1] == 0.5
    assert (head_chances(star(9), "random") == 2**30).all()


def test_a_relation_that_holds_for_all_entities_has_no_negatives_and_does_not_hang():
    none = np.empty((0, 3))
    full = np.array([(h, 0, t) for h in range(2) for t in range(2)])
    graph = Graph(
        "full", Vocabulary("entity", ("a", "b")), Vocabulary("relation", ("r",)), full, none, none
    )
    model = Model.empty("distmult", 2, 2, 1)
    totals = MarginEngine(model, graph, MarginConfig(threads=1)).run_epoch(0)
    assert totals.pairs == 0
    assert (
        MarginEngine(model, graph, MarginConfig(threads=1, filter_negatives=False))
        .run_epoch(0)
        .pairs
        == 4
    )


@pytest.mark.parametrize(("corrupt", "negatives", "expected"), [("random", 1, 1), ("both", 3, 6)])
def test_each_positive_meets_the_asked_number_of_negatives(corrupt, negatives, expected):
    graph = random_graph()
    model = Model.empty("distmult", 2, len(graph.entities), len(graph.relations))
    config = MarginConfig(corrupt=corrupt, negatives=negatives, threads=2)
    assert MarginEngine(model, graph, config).run_epoch(0).pairs == expected * len(graph.train)


def test_plausible_negatives_stand_in_the_same_position_elsewhere():
    """Only entities that some negative or positive touched have moved."""
    none = np.empty((0, 3))
    names = tuple(f"e{i}" for i in range(40))
    train = np.array([(0, 0, 2), (1, 0, 3), (4, 1, 5), (6, 1, 7)])
    relations = Vocabulary("relation", ("r", "s"))
    graph = Graph("two", Vocabulary("entity", names), relations, train, none, none)
    moved = {}
    for plausible in (0.0, 0.5, 1.0):
        model = Model.empty("distmult", 4, 40, 2)
        model.entities[:] = model.relations[:] = 0.5
        config = MarginConfig(
            margin=100.0, plausible=plausible, threads=1, corrupt="both", negatives=8
        )
        engine = MarginEngine(model, graph, config)
        for epoch in range(5):
            engine.run_epoch(epoch)
        moved[plausible] = set(np.flatnonzero((model.entities != 0.5).any(axis=1)).tolist())
    assert moved[1.0] == set(range(8))
    assert moved[0.5] > set(range(8))
    assert len(moved[0.0]) > 30


@given(seed=st.integers(0, 10_000))
def test_pools_hold_each_entity_of_a_position_once(seed):
    graph = random_graph(seed)
    pools, starts = known_answers(graph, ("train",)).positions
    for r in range(len(graph.relations)):
        rows = graph.train[graph.train[:, 1] == r]
        for place, column in ((2 * r, 0), (2 * r + 1, 2)):
            found = pools[starts[place] : starts[place + 1]]
            assert found.tolist() == sorted(set(rows[:, column].tolist()))
