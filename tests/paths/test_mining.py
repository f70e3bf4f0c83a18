"""Mining: exact counts against slow, obvious ones; confidences of a family tree by hand."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bilink.data.graph import Graph
from bilink.data.vocabulary import Vocabulary
from bilink.errors import ConfigError
from bilink.paths.mining import mine
from bilink.paths.rules import MiningConfig
from conftest import random_graph

ALL = {"support": 1, "confidence": 0.0, "per_relation": 10**6, "per_constant": 10**6}


# -- a slow, obvious reference, which imports nothing from bilink ----------------------------------


def directed_facts(triples, k):
    """(start, directed relation, end) of all edges without loops, both ways."""
    facts = {(h, r, t) for h, r, t in triples if h != t}
    return facts | {(t, r + k, h) for h, r, t in facts}


def walks(edges, steps):
    """The pairs that a walk along ``steps`` joins, over entities that all differ."""
    found = {(x, (x,)) for x, d, _ in edges if d == steps[0]}
    for step in steps:
        found = {
            (y, (*visited, y))
            for x, visited in found
            for start, d, y in edges
            if start == x and d == step and y not in visited
        }
    return {(visited[0], y) for y, visited in found}


def slow_paths(triples, k, length):
    """{(r, steps): (support, groundings)} of all rules that hold for at least one pair."""
    edges = directed_facts(triples, k)
    found = {}
    for n in range(1, length + 1):
        for steps in itertools.product(range(2 * k), repeat=n):
            pairs = walks(edges, steps)
            for r in range(k):
                if steps == (r,):
                    continue  # the fact itself
                support = sum((x, r, y) in edges for x, y in pairs)
                if support:
                    found[(r, *steps)] = (support, len(pairs))
    return found


def slow_constants(triples, k):
    """{(e, c, s, d): (support, groundings)}, d = −1 for any."""
    edges = directed_facts(triples, k)
    found = {}
    for e, c in {(d, end) for _, d, end in edges}:
        heads = {x for x, d, end in edges if (d, end) == (e, c)}
        for s in range(2 * k):
            # A fact is no evidence for itself.
            others = {x for x, d, end in edges if d == s and (s, end) != (e, c)}
            count(found, (e, c, s, -1), heads, others)
            for d in {end for _, r, end in edges if r == s}:
                if d != c:
                    bodies = {x for x, r, end in edges if (r, end) == (s, d)}
                    count(found, (e, c, s, d), heads, bodies)
    return found


def count(found, key, heads, bodies):
    if heads & bodies:
        found[key] = (len(heads & bodies), len(bodies))


def paths_of(rules):
    return {
        tuple(int(d) for d in row if d >= 0): tuple(counts)
        for row, counts in zip(rules.paths.tolist(), rules.path_counts.tolist(), strict=True)
    }


# -- tests -----------------------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.integers(3, 9), st.integers(1, 3), st.integers(0, 40))
def test_paths_are_counted_as_a_slow_reference_counts(seed, n, k, size):
    graph = random_graph(seed, n, k, size)
    found = mine(graph, MiningConfig(length=2, constants=False, **ALL))
    assert paths_of(found) == slow_paths(graph.train.tolist(), k, 2)


@given(st.integers(0, 10**6), st.integers(3, 7), st.integers(1, 2), st.integers(5, 25))
def test_paths_of_three_steps_are_exact_where_all_can_be_walked(seed, n, k, size):
    graph = random_graph(seed, n, k, size)
    found = paths_of(mine(graph, MiningConfig(constants=False, **ALL)))
    slow = slow_paths(graph.train.tolist(), k, 3)
    # Bodies that join a single fact are not looked for.
    wanted = {key: value for key, value in slow.items() if len(key) < 4 or value[0] > 1}
    assert {key: found.get(key) for key in wanted} == wanted
    assert set(found) <= set(slow)


@given(st.integers(0, 10**6), st.integers(3, 9), st.integers(1, 3), st.integers(0, 40))
def test_rules_with_constants_are_counted_as_a_slow_reference_counts(seed, n, k, size):
    graph = random_graph(seed, n, k, size)
    rules = mine(graph, MiningConfig(length=1, **{**ALL, "support": 2}))
    found = {
        tuple(row): tuple(counts)
        for row, counts in zip(
            rules.constants.tolist(), rules.constant_counts.tolist(), strict=True
        )
    }
    slow = slow_constants(graph.train.tolist(), k)
    assert found == {key: value for key, value in slow.items() if value[0] >= 2}


FAMILY = """
anna mother_of bert
anna mother_of clara
anna mother_of dora
bert child_of anna
clara child_of anna
dora child_of emil
bert sibling_of clara
clara sibling_of bert
emil mother_of fritz
anna grandmother_of fritz
"""


def family():
    facts = [line.split() for line in FAMILY.split("\n") if line]
    names = [sorted({fact[i] for fact in facts for i in places}) for places in ((0, 2), (1,))]
    rows = [(names[0].index(h), names[1].index(r), names[0].index(t)) for h, r, t in facts]
    train, none = np.array(rows), np.empty((0, 3))
    entities, relations = (
        Vocabulary(kind, tuple(n)) for kind, n in zip(("entity", "relation"), names, strict=True)
    )
    return Graph("family", entities, relations, train, none, none)


def test_confidences_of_a_family_tree():
    """By hand.  mother_of ← its inverse child_of: 2 of 3, since dora's mother is said to be anna.

    sibling_of is symmetric: 2 of 2.  Siblings share a mother: of the six ordered pairs of anna's
    children two are siblings.
    """
    graph = family()
    child, mother, sibling = (
        graph.relations.find(n) for n in ("child_of", "mother_of", "sibling_of")
    )
    k = len(graph.relations)
    found = paths_of(mine(graph, MiningConfig(length=2, support=1, confidence=0.0)))
    assert found[(mother, child + k)] == (2, 3)
    assert found[(child, mother + k)] == (2, 4)
    assert found[(sibling, sibling + k)] == (2, 2)
    assert found[(sibling, mother + k, mother)] == (2, 6)
    rules = mine(graph, MiningConfig(length=2, support=1, confidence=0.0, prior=5))
    i = next(
        i
        for i in rules.of_relation(sibling)
        if rules.paths[i, 1] == sibling + k and rules.paths[i, 2] < 0
    )
    assert rules.path_confidence[i] == pytest.approx(2 / 7)


def test_a_fact_is_never_its_own_evidence():
    """One relation, one fact: there is nothing that it could follow from."""
    graph = random_graph(0, 4, 1, 1)
    assert len(graph.train) <= 1
    rules = mine(graph, MiningConfig(**ALL))
    assert len(rules) == 0


def test_the_number_of_threads_does_not_matter():
    graph = random_graph(3, 40, 4, 400)
    one, two = (mine(graph, MiningConfig(support=1), threads=n) for n in (1, 2))
    for name in ("paths", "path_counts", "constants", "constant_counts"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


def test_hubs_are_not_crossed_and_are_counted():
    star = [(0, 0, i) for i in range(1, 8)] + [(1, 1, 2), (3, 1, 4)]
    none = np.empty((0, 3))
    names = (
        Vocabulary("entity", tuple(f"e{i}" for i in range(8))),
        Vocabulary("relation", ("a", "b")),
    )
    graph = Graph("star", *names, np.array(star), none, none)
    through = {(1, 2, 0): (2, 42)}  # b(x, y) ← a(z, x), a(z, y) through the middle of the star
    assert through.items() <= paths_of(mine(graph, MiningConfig(length=2, support=1))).items()
    capped = mine(graph, MiningConfig(length=2, support=1, hub=6))
    assert capped.hubs == 1
    assert (1, 2, 0) not in paths_of(capped)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"length": "4"}, "length must be at least 1 and at most 3, not 4"),
        ({"length": "two"}, "length must be a whole number, not 'two'"),
        ({"constants": "perhaps"}, "constants must be true or false"),
        ({"confidence": 2.0}, "confidence must be at least 0 and at most 1"),
        ({"steps": 3}, "paths have no option 'steps'; there are length"),
    ],
)
def test_bad_options_get_a_sentence(options, sentence):
    with pytest.raises(ConfigError, match=sentence):
        MiningConfig().with_options(options)
