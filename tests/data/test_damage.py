"""Hidden facts and planted errors."""

import numpy as np
import pytest

import bilink
from bilink.data.damage import hide_facts, plant_errors
from bilink.errors import ConfigError


def triples_of(*parts):
    return {tuple(row) for part in parts for row in np.asarray(part).tolist()}


@pytest.fixture(scope="module")
def atlas():
    return bilink.load_graph("atlas")


def test_a_share_of_each_split_is_hidden_and_nothing_is_left_without_a_fact(atlas):
    part, hidden = hide_facts(atlas, 0.1, seed=3)
    assert len(part.train) == len(atlas.train) - round(0.1 * len(atlas.train))
    assert len(part.test) == len(atlas.test) - round(0.1 * len(atlas.test))
    assert triples_of(part.triples, hidden) == triples_of(atlas.triples)
    assert not triples_of(part.triples) & triples_of(hidden)
    assert set(part.unseen_entities) == set(atlas.unseen_entities)
    assert set(part.train[:, 1]) == set(atlas.train[:, 1])
    again, same = hide_facts(atlas, 0.1, seed=3)
    assert again.fingerprint == part.fingerprint
    np.testing.assert_array_equal(same, hidden)
    assert hide_facts(atlas, 0.1, seed=4)[0].fingerprint != part.fingerprint


def test_errors_replace_facts_and_are_none(atlas):
    part, errors = plant_errors(atlas, 0.02, seed=3)
    assert 0.9 * 0.02 * len(atlas.triples) < len(errors) <= 0.02 * len(atlas.triples) + 3
    assert not triples_of(errors) & triples_of(atlas.triples)
    assert triples_of(errors) <= triples_of(part.triples)
    gone = triples_of(atlas.triples) - triples_of(part.triples)
    seen = {side: {(r, e) for r, e in atlas.triples[:, [1, side]].tolist()} for side in (0, 2)}
    for h, r, t in errors.tolist():
        assert any(q == r and (a == h or b == t) for a, q, b in gone)
        assert (r, h) in seen[0]
        assert (r, t) in seen[2]


def test_a_share_is_a_share(atlas):
    for wrong in (-0.1, 1.0):
        with pytest.raises(ConfigError, match="share"):
            hide_facts(atlas, wrong)
        with pytest.raises(ConfigError, match="share"):
            plant_errors(atlas, wrong)
    assert len(hide_facts(atlas, 0)[1]) == len(plant_errors(atlas, 0)[1]) == 0
