import json
import os
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bilink.data.graph import Graph
from bilink.data.loading import load_graph
from bilink.data.statistics import (
    CATEGORIES,
    categories,
    describe,
    leakage,
    related_relations,
    relation_statistics,
    symmetry,
)
from bilink.data.vocabulary import Vocabulary
from bilink.errors import DataError, DataWarning

THRESHOLDS = st.sampled_from([0.3, 0.5, 0.8, 1.0])


def graph_of(train, valid=(), test=(), entities=4, relations=3):
    return Graph(
        name="small",
        entities=Vocabulary("entity", tuple(f"e{i}" for i in range(entities))),
        relations=Vocabulary("relation", tuple(f"r{i}" for i in range(relations))),
        train=np.array(train, dtype=np.int32).reshape(-1, 3),
        valid=np.array(valid, dtype=np.int32).reshape(-1, 3),
        test=np.array(test, dtype=np.int32).reshape(-1, 3),
    )


@st.composite
def graphs(draw):
    entities, relations = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    entity, relation = st.integers(0, entities - 1), st.integers(0, relations - 1)
    triples = st.lists(st.tuples(entity, relation, entity), max_size=24)
    return graph_of(draw(triples), draw(triples), draw(triples), entities, relations)


# References: Python sets, word by word from the definitions.


def rows(triples):
    return [tuple(row) for row in triples.tolist()]


def pair_sets(graph):
    """The set of (head, tail) of every relation."""
    sets = [set() for _ in graph.relations.names]
    for h, r, t in rows(graph.train):
        sets[r].add((h, t))
    return sets


def slow_category(pairs):
    if not pairs:
        return None
    many_tails = len(pairs) / len({h for h, _ in pairs}) >= 1.5
    many_heads = len(pairs) / len({t for _, t in pairs}) >= 1.5
    return ("N" if many_heads else "1") + "-" + ("N" if many_tails else "1")


def slow_symmetry(pairs):
    proper = {(h, t) for h, t in pairs if h != t}
    return len({(h, t) for h, t in proper if (t, h) in proper}) / len(proper) if proper else None


def slow_related(graph, threshold):
    sets = pair_sets(graph)
    found = set()
    for a in range(len(sets)):
        for b in range(a + 1, len(sets)):
            reverse = {(t, h) for h, t in sets[b]}
            for kind, other in (("duplicate", sets[b]), ("inverse", reverse)):
                shared = len(sets[a] & other)
                if shared and min(shared / len(sets[a]), shared / len(sets[b])) >= threshold:
                    found.add((kind, a, b, shared))
    return found


def slow_leakage(graph, split, threshold):
    sets = pair_sets(graph)
    related = slow_related(graph, threshold)
    twins = {(kind, *pair) for kind, a, b, _ in related for pair in ((a, b), (b, a))}
    ways = {"symmetric": 0, "inverse": 0, "duplicate": 0, "answered": 0}
    for h, r, t in rows(graph.split(split)):
        symmetric = h != t and (t, h) in sets[r] and slow_symmetry(sets[r]) >= threshold
        inverse = any(("inverse", r, s) in twins and (t, h) in sets[s] for s in range(len(sets)))
        duplicate = any(
            ("duplicate", r, s) in twins and (h, t) in sets[s] for s in range(len(sets))
        )
        ways["symmetric"] += symmetric
        ways["inverse"] += inverse
        ways["duplicate"] += duplicate
        ways["answered"] += symmetric or inverse or duplicate
    return ways


@given(graphs())
def test_the_statistics_of_relations_agree_with_sets(graph):
    for k, (found, pairs) in enumerate(
        zip(relation_statistics(graph), pair_sets(graph), strict=True)
    ):
        heads, tails = {h for h, _ in pairs}, {t for _, t in pairs}
        assert (found.id, found.name) == (k, f"r{k}")
        assert found.train == len(pairs)
        assert found.valid == sum(r == k for _, r, _ in rows(graph.valid))
        assert found.test == sum(r == k for _, r, _ in rows(graph.test))
        assert (found.heads, found.tails) == (len(heads), len(tails))
        assert found.tails_per_head == (len(pairs) / len(heads) if pairs else None)
        assert found.heads_per_tail == (len(pairs) / len(tails) if pairs else None)
        assert found.category == slow_category(pairs)
        assert found.symmetry == slow_symmetry(pairs)
        assert found.reflexivity == (sum(h == t for h, t in pairs) / len(pairs) if pairs else None)


@given(graphs())
def test_categories_and_symmetry_are_those_of_the_statistics(graph):
    assert categories(graph) == [relation.category for relation in relation_statistics(graph)]
    assert symmetry(graph) == [relation.symmetry for relation in relation_statistics(graph)]


@given(graphs(), THRESHOLDS)
def test_related_relations_agree_with_sets(graph, threshold):
    found = related_relations(graph, threshold)
    assert {(p.kind, p.first, p.second, p.shared) for p in found} == slow_related(graph, threshold)
    assert len(found) == len(slow_related(graph, threshold))
    for pair in found:
        sizes = [len(pairs) for pairs in pair_sets(graph)]
        assert pair.share_of_first == pair.shared / sizes[pair.first]
        assert pair.share_of_second == pair.shared / sizes[pair.second]
        assert (pair.first_name, pair.second_name) == (f"r{pair.first}", f"r{pair.second}")


@given(graphs(), st.sampled_from(["valid", "test"]), THRESHOLDS)
def test_leakage_agrees_with_sets(graph, split, threshold):
    found = leakage(graph, split, threshold)
    expected = slow_leakage(graph, split, threshold)
    assert {way: getattr(found, way) for way in expected} == expected
    assert found.triples == len(graph.split(split))
    assert 0 <= found.share <= 1


@given(graphs())
def test_a_description_agrees_with_sets_and_its_parts(graph):
    found = describe(graph)
    train = set(rows(graph.train))
    seen = {end for h, _, t in train for end in (h, t)}
    for split in ("train", "valid", "test"):
        triples = rows(graph.split(split))
        assert found.triples[split] == len(triples)
        assert found.repeated[split] == len(triples) - len(set(triples))
    for split in ("valid", "test"):
        triples = rows(graph.split(split))
        ends = {end for h, _, t in triples for end in (h, t)}
        relations = {r for _, r, _ in triples}
        assert found.in_train[split] == sum(triple in train for triple in triples)
        assert found.unseen_entities[split] == len(ends - seen)
        assert found.unseen_relations[split] == len(relations - {r for _, r, _ in train})
        assert found.leakage[split] == leakage(graph, split)
    everywhere = {end for h, _, t in rows(graph.triples) for end in (h, t)}
    assert found.unused_entities == len(graph.entities) - len(everywhere)
    assert found.density == len(train) / (len(graph.entities) ** 2 * len(graph.relations))
    assert list(found.relation_statistics) == relation_statistics(graph)
    assert list(found.related_relations) == related_relations(graph)
    assert found.categories == {c: categories(graph).count(c) for c in CATEGORIES}


@given(graphs())
def test_a_description_survives_json(graph):
    data = describe(graph).to_dict()
    assert json.loads(json.dumps(data)) == data


def test_many_begins_at_one_and_a_half():
    assert categories(graph_of([(0, 0, 1), (0, 0, 2), (1, 0, 3)]))[0] == "1-N"
    assert categories(graph_of([(1, 0, 0), (2, 0, 0), (3, 0, 1)]))[0] == "N-1"
    assert categories(graph_of([(0, 0, 1), (0, 0, 2), (1, 0, 3), (2, 0, 0)]))[0] == "1-1"


def test_a_triple_that_is_repeated_counts_once():
    assert categories(graph_of([(0, 0, 1)] * 5))[0] == "1-1"


def test_a_relation_of_loops_alone_has_no_symmetry_and_answers_nothing():
    graph = graph_of([(0, 0, 0), (1, 0, 1)], test=[(2, 0, 2)])
    assert relation_statistics(graph)[0].symmetry is None
    assert relation_statistics(graph)[0].reflexivity == 1
    assert leakage(graph).answered == 0


def test_a_symmetric_relation_is_not_its_own_partner():
    graph = graph_of([(0, 0, 1), (1, 0, 0), (2, 0, 3), (3, 0, 2)])
    assert related_relations(graph) == []
    assert relation_statistics(graph)[0].symmetry == 1


def test_large_ids_do_not_overflow():
    # As many entities as ids allow would make (relation, head, tail) need more than 64 bits.
    entities = 2_000_000
    last = entities - 1
    graph = Graph(
        name="wide",
        entities=Vocabulary("entity", ("",) * entities),
        relations=Vocabulary("relation", ("",) * 3_000_000),
        train=np.array([(last, 2_999_999, 0), (0, 2_999_998, last), (0, 5, 0)], dtype=np.int32),
        valid=np.empty((0, 3), dtype=np.int32),
        test=np.array([(0, 2_999_998, last)], dtype=np.int32),
    )
    (pair,) = related_relations(graph)
    assert (pair.kind, pair.first, pair.second) == ("inverse", 2_999_998, 2_999_999)


@pytest.mark.parametrize("entities", [0, 3])
def test_a_graph_without_triples_can_be_described(entities):
    graph = graph_of([], entities=entities, relations=2)
    found = describe(graph)
    assert categories(graph) == [None, None]
    assert found.density == 0
    assert found.leakage["test"].share == 0
    assert found.categories == dict.fromkeys(CATEGORIES, 0)


def test_an_unknown_split_is_named():
    with pytest.raises(DataError, match="unknown split 'dev'"):
        leakage(graph_of([]), "dev")


# The embedded graph promises these in its README.


def test_the_atlas_has_all_categories_and_no_unseen_entity():
    found = describe(load_graph("atlas"))
    assert all(found.categories.values())
    assert set(found.unseen_entities.values()) | set(found.unseen_relations.values()) == {0}
    assert min(relation.test for relation in found.relation_statistics) > 0


def test_no_triple_of_the_atlas_is_answered_by_its_counterpart():
    found = describe(load_graph("atlas"))
    assert {r.name for r in found.relation_statistics if r.symmetry == 1} == {
        "borders",
        "within 150 km of",
    }
    (pair,) = found.related_relations
    assert (pair.kind, pair.first_name, pair.second_name) == (
        "inverse",
        "capital of",
        "has capital",
    )
    assert found.leakage["valid"].answered == found.leakage["test"].answered == 0


def test_the_country_of_a_capital_of_the_atlas_is_in_train():
    graph = load_graph("atlas")
    capital_of, in_country = graph.relations.find("capital of"), graph.relations.find("in country")
    capitals = {(h, t) for h, r, t in rows(graph.triples) if r == capital_of}
    assert capitals <= {(h, t) for h, r, t in rows(graph.train) if r == in_country}


# Facts of the benchmark graphs.  The counts were computed by this module and, once, by the slow
# references above.  WN18 and FB15K are known for their leakage (Toutanova and Chen, 2015;
# Dettmers et al., 2018).


@pytest.fixture(scope="module")
def benchmark_graph():
    folder = os.environ.get("BILINK_DATA")
    if not folder:
        pytest.skip("$BILINK_DATA is not set: it names the folder of the benchmark graphs")
    graphs: dict[str, Graph] = {}

    def load(name):
        if name not in graphs:
            with warnings.catch_warnings():  # some have entities that train does not mention
                warnings.simplefilter("ignore", DataWarning)
                graphs[name] = load_graph(os.path.join(folder, name))
        return graphs[name]

    return load


@pytest.mark.realdata
@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("wn18", (2, 7, 7, 2)),
        ("wn18rr", (2, 4, 3, 2)),
        ("fb15k", (368, 309, 394, 274)),
        ("fb15k-237", (17, 26, 86, 108)),
    ],
)
def test_categories_of_the_benchmarks(benchmark_graph, name, counts):
    found = categories(benchmark_graph(name))
    assert tuple(found.count(category) for category in CATEGORIES) == counts


@pytest.mark.realdata
def test_the_benchmarks_agree_with_sets(benchmark_graph):
    graph = benchmark_graph("wn18")
    for relation, pairs in zip(relation_statistics(graph), pair_sets(graph), strict=True):
        assert relation.category == slow_category(pairs)
        assert relation.symmetry == slow_symmetry(pairs)


@pytest.mark.realdata
def test_wn18_has_three_symmetric_relations_and_seven_inverse_pairs(benchmark_graph):
    graph = benchmark_graph("wn18")
    symmetric = {r.name for r in relation_statistics(graph) if (r.symmetry or 0) >= 0.8}
    assert symmetric == {"_derivationally_related_form", "_similar_to", "_verb_group"}
    related = related_relations(graph)
    assert [pair.kind for pair in related] == ["inverse"] * 7
    assert {"_hypernym", "_hyponym"} in [{p.first_name, p.second_name} for p in related]


@pytest.mark.realdata
@pytest.mark.parametrize(
    ("name", "ways"),
    [
        ("wn18", (1052, 3606, 0, 4658)),  # 93 %
        ("wn18rr", (1052, 0, 0, 1052)),  # the symmetric relations were left in
        ("fb15k", (4226, 34334, 2230, 39616)),  # 67 %
        ("fb15k-237", (0, 0, 0, 0)),
    ],
)
def test_leakage_of_the_benchmarks(benchmark_graph, name, ways):
    found = leakage(benchmark_graph(name))
    assert (found.symmetric, found.inverse, found.duplicate, found.answered) == ways
