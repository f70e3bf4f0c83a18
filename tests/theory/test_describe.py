"""What is said about a graph: counts by brute force, sizes, what is kept, what is refused."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bilink.data.graph import Graph
from bilink.data.vocabulary import Vocabulary
from bilink.errors import BilinkError
from bilink.theory import description
from bilink.theory.consistent_models import construct
from bilink.theory.description import describe
from bilink.theory.relations import RelationFacts, facts_of, first_with_same_facts
from conftest import random_graph

EFFORT = 0.02


def graph_of(triples, n, k):
    triples = np.array(triples, dtype=np.int32).reshape(-1, 3)
    none = np.empty((0, 3), dtype=np.int32)
    names = (
        Vocabulary(kind, tuple(f"{kind}{i}" for i in range(size)))
        for kind, size in (("entity", n), ("relation", k))
    )
    return Graph("small", *names, triples, none, none)


def relation_of(pairs, n):
    heads, tails = np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2).T
    return RelationFacts(0, n, heads, tails)


PAIRS = st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=14)


@given(PAIRS)
def test_distmult_loses_the_facts_whose_reverse_is_none(pairs):
    lost = [1 for h, t in pairs if (t, h) not in pairs]
    assert relation_of(pairs, 5).lost_by_distmult() == len(lost)
    assert relation_of(pairs, 5).symmetric == (not lost)


@given(PAIRS, st.integers(0, 1000))
def test_transe_loses_at_least_as_many_facts_as_it_is_said_to(pairs, seed):
    """Whatever the vectors are."""
    random = np.random.default_rng(seed)
    entities, relation = (
        random.normal(size=(5, 3)),
        random.normal(size=3) * random.choice([0, 0.3, 2]),
    )
    scores = -np.sum((entities[:, None] + relation - entities[None]) ** 2, axis=2)
    others = [scores[i, j] for i, j in itertools.product(range(5), range(5)) if (i, j) not in pairs]
    best = max(others, default=-np.inf)
    lost = sum(scores[i, j] <= best + 1e-12 for i, j in pairs)
    assert relation_of(pairs, 5).lost_by_transe() <= lost


def test_transe_can_be_as_good_as_it_is_said_to_be():
    """A path is no cycle and loses nothing; two entities that know each other lose one fact."""
    assert relation_of({(0, 1), (1, 2), (2, 3)}, 4).lost_by_transe() == 0
    assert relation_of({(0, 1), (1, 0)}, 2).lost_by_transe() == 1
    assert relation_of({(0, 1), (1, 2), (2, 0)}, 3).lost_by_transe() == 1
    assert relation_of({(0, 0), (0, 1)}, 2).lost_by_transe() == 1
    assert relation_of({(0, 0), (1, 1)}, 2).lost_by_transe() == 0


def test_copies_and_inverses_of_earlier_relations_are_found():
    pairs = [(0, 1), (0, 2), (3, 3)]
    triples = [(h, 0, t) for h, t in pairs] + [(t, 1, h) for h, t in pairs]
    triples += [(h, 2, t) for h, t in pairs] + [(0, 3, 1)]
    graph = graph_of(triples, 4, 5)
    assert first_with_same_facts(facts_of(graph, ("train",))) == [
        (0, False),
        (0, True),
        (0, False),
        (3, False),
        (4, False),
    ]


def test_a_description_adds_up(tmp_path):
    graph = random_graph(n_entities=10, n_relations=3, size=50)
    found = describe(graph, effort=EFFORT, keep=tmp_path).to_dict()
    assert {r["relation"] for r in found["relations"]} == {"r0", "r1", "r2"}
    assert found["facts"] == len(graph.triples)
    uppers = [r["rounding_rank"]["upper"] for r in found["relations"]]
    assert found["sizes"]["rescal"] == min(10, 2 * sum(uppers))
    assert found["sizes"]["complex"] == sum(-(-3 * r // 2) for r in uppers)
    assert found["sizes"]["hole"] <= 2 * found["sizes"]["complex"] + 1
    assert found["paper_sizes"]["hole"] == min(2 * 3 * 10 + 1, 4 * sum(uppers) + 1)
    json.dumps(found)


def test_what_was_found_is_not_sought_again(tmp_path, monkeypatch):
    graph = random_graph(n_entities=8, n_relations=2, size=30)
    before = describe(graph, effort=EFFORT, keep=tmp_path)
    kept = sorted(tmp_path.iterdir())
    assert len(kept) == 2
    kept[0].write_text("{broken")  # as if cut short by a crash
    calls = []
    search = description.rounding_rank
    monkeypatch.setattr(
        description, "rounding_rank", lambda *a, **o: calls.append(1) or search(*a, **o)
    )
    assert describe(graph, effort=EFFORT, keep=tmp_path).to_dict() == before.to_dict()
    assert len(calls) == 1


def test_the_sizes_are_those_of_the_models():
    graph = random_graph(n_entities=30, n_relations=3, size=60)
    found = describe(graph, effort=EFFORT)
    if all(r.rounding_rank.certified == r.rounding_rank.upper for r in found.relations):
        for name, size in found.sizes.items():
            assert construct(graph, name, effort=EFFORT).model.dim == size


def test_empty_relations_ask_for_nothing():
    found = describe(graph_of([(0, 0, 0), (1, 0, 1)], 2, 2), effort=EFFORT).to_dict()
    one, empty = found["relations"]
    assert one["rounding_rank"]["upper"] == 1
    assert (empty["facts"], empty["category"], empty["rounding_rank"]["upper"]) == (0, None, 0)
    assert found["lost_by_transe"] == 0
    assert found["sizes"]["rescal"] == 2


def test_a_graph_without_relations_and_splits_that_are_none_are_refused():
    with pytest.raises(BilinkError, match="at least two entities"):
        describe(graph_of([(0, 0, 0)], 1, 1))
    with pytest.raises(BilinkError, match="no relations"):
        describe(graph_of([], 2, 0))
    with pytest.raises(BilinkError, match="unknown split 'dev'"):
        describe(random_graph(), splits=("dev",))
    with pytest.raises(BilinkError, match="at least one split"):
        describe(random_graph(), splits=())
