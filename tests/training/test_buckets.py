"""How entities and triples are dealt into buckets."""

from itertools import combinations, pairwise

import numpy as np
import pytest

from bilink.training.buckets import Deal, bucket_order, bucket_seed, deal_entities, part_sizes
from conftest import random_graph

GRAPH = random_graph(n_entities=23, n_relations=3, size=300)


def dealt(parts, deal=0, graph=GRAPH):
    n = len(graph.entities)
    part_of = deal_entities(n, parts, 0, deal)
    row_of = np.empty(n, dtype=np.int32)
    for p in range(parts):
        row_of[part_of == p] = np.arange((part_of == p).sum())
    return Deal.of(graph, part_of, row_of, parts, 0, deal)


@pytest.mark.parametrize("parts", range(2, 12))
def test_buckets_are_all_pairs_and_change_one_part_at_a_time(parts):
    order = bucket_order(parts)
    assert sorted(order) == list(combinations(range(parts), 2))
    assert all(len(set(a) & set(b)) == 1 for a, b in pairwise(order))


@pytest.mark.parametrize("parts", [2, 3, 5, 23])
def test_parts_are_as_large_as_they_should_be_and_dealt_anew(parts):
    first, second = (deal_entities(23, parts, 0, deal) for deal in (0, 1))
    for part_of in (first, second):
        assert np.bincount(part_of, minlength=parts).tolist() == part_sizes(23, parts)
    assert (first != second).any()
    assert (first != deal_entities(23, parts, 1, 0)).any()


@pytest.mark.parametrize("parts", [2, 3, 5])
def test_each_triple_is_in_one_bucket_with_its_two_parts(parts):
    deal = dealt(parts)
    found = []
    for number, (first, second) in enumerate(bucket_order(parts)):
        for order in ((first, second), (second, first)):
            graph = deal.bucket(number, *order)
            members = [np.flatnonzero(deal.part_of == p) for p in order]
            ids = np.concatenate([m[np.argsort(deal.row_of[m])] for m in members])
            assert len(graph.entities) == len(ids)
            triples = graph.train.copy()
            triples[:, [0, 2]] = ids[triples[:, [0, 2]]]
        found.append(triples)
    found = np.concatenate(found)
    assert len(found) == len(GRAPH.train)
    assert sorted(map(tuple, found)) == sorted(map(tuple, GRAPH.train))


def test_triples_within_a_part_go_to_all_buckets_of_that_part():
    graph = random_graph(n_entities=23, n_relations=3, size=2000)
    deal, sizes = dealt(4, graph=graph), part_sizes(23, 4)
    for number, (first, second) in enumerate(bucket_order(4)):
        triples = deal.bucket(number, first, second).train
        sides = (triples[:, [0, 2]] >= sizes[first]).sum(axis=1)
        within = np.bincount(sides, minlength=3)[[0, 2]]
        assert (within > 0).all()  # triples of either part
        assert within.sum() < len(triples)
        # A third of those of each part, and all between the two: as many in each bucket.
        assert abs(len(triples) - len(graph.train) / 6) < len(graph.train) / 12


def test_triples_that_are_given_as_false_are_dealt_as_well():
    graph = random_graph(n_entities=23, n_relations=3, size=300)
    object.__setattr__(graph, "negatives", {"train": graph.test})
    deal = dealt(3, graph=graph)
    found = [deal.bucket(i, *pair).negatives["train"] for i, pair in enumerate(bucket_order(3))]
    assert sum(map(len, found)) == len(graph.test)


def test_each_bucket_has_random_numbers_of_its_own():
    found = {bucket_seed(s, e, b) for s in range(3) for e in range(3) for b in range(3)}
    assert len(found) == 27
