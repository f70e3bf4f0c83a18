"""Splitting triples into train, valid and test."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bilink.data.building import split_triples
from bilink.errors import ConfigError, DataWarning


def random_triples(n, n_entities, n_relations, seed):
    rng = np.random.default_rng(seed)
    shape = (n_entities, n_relations, n_entities)
    rows = rng.choice(n_entities**2 * n_relations, size=n, replace=False)
    return np.column_stack(np.unravel_index(rows, shape)).astype(np.int32)


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32), n=st.integers(100, 300))
def test_train_mentions_all_and_the_parts_are_a_partition(seed, n):
    triples = random_triples(n, 12, 3, seed)
    train, valid, test = split_triples(triples, 12, 3, seed=seed)
    assert len(valid) == len(test) == round(n / 10)
    parts = np.concatenate([train, valid, test])
    assert sorted(map(tuple, parts)) == sorted(map(tuple, triples))
    assert set(parts[:, [0, 2]].ravel()) == set(train[:, [0, 2]].ravel())
    assert set(parts[:, 1]) == set(train[:, 1])


def test_the_seed_decides():
    triples = random_triples(500, 20, 4, 0)
    first, again, other = (split_triples(triples, 20, 4, seed=seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[1], other[1])


def test_the_numbering_of_entities_does_not_matter():
    triples = random_triples(500, 20, 4, 0)
    new = np.random.default_rng(5).permutation(20)
    moved = np.column_stack([new[triples[:, 0]], triples[:, 1], new[triples[:, 2]]])
    back = np.argsort(new)
    for a, b in zip(split_triples(triples, 20, 4), split_triples(moved, 20, 4), strict=True):
        assert np.array_equal(a, np.column_stack([back[b[:, 0]], b[:, 1], back[b[:, 2]]]))


def test_a_star_cannot_be_split_and_says_so():
    star = np.array([[0, 0, i] for i in range(1, 11)], dtype=np.int32)
    with pytest.warns(DataWarning, match="only 0 triples of 10 can be held out, not 2"):
        train, valid, test = split_triples(star, 11, 1)
    assert (len(train), len(valid), len(test)) == (10, 0, 0)


@pytest.mark.parametrize("fractions", [(0.5, 0.1, 0.1), (0, 0.5, 0.5), (1.2, -0.1, -0.1)])
def test_fractions_must_be_a_whole(fractions):
    with pytest.raises(ConfigError, match="add up to 1"):
        split_triples(random_triples(50, 5, 4, 0), 5, 4, fractions)
