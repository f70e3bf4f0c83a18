"""Numbers made of probabilities, against their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sk

import naive
from bilink.errors import ConfigError, DataError
from bilink.evaluation.reliability import reliability


@given(st.integers(0, 1000), st.integers(1, 4), st.integers(1, 8))
def test_the_error_is_that_of_the_definition(seed, bins, size):
    random = np.random.default_rng(seed)
    p, y = random.random(bins * size), random.random(bins * size) < 0.5
    found = reliability(p, y, bins)
    assert found.ece == pytest.approx(naive.calibration_error(p.tolist(), y.tolist(), bins))
    assert found.counts.tolist() == [size] * bins
    assert found.brier == pytest.approx(sk.brier_score_loss(y, p))
    assert found.log_loss == pytest.approx(sk.log_loss(y, p, labels=[False, True]))


@given(st.lists(st.tuples(st.sampled_from([0.1, 0.5, 0.9]), st.booleans()), min_size=1))
def test_the_order_of_triples_does_not_matter_where_probabilities_are_equal(pairs):
    p, y = (np.array(column) for column in zip(*pairs, strict=True))
    found, turned = reliability(p, y, 7), reliability(p[::-1], y[::-1], 7)
    np.testing.assert_allclose(found.observed, turned.observed)
    assert found.counts.sum() == len(pairs)
    assert len(found.counts) <= 3


def test_certain_and_right_is_perfect_certain_and_wrong_is_finite():
    right = reliability(np.array([0.0, 1.0]), np.array([False, True]))
    assert (right.ece, right.brier, right.log_loss) == (0, 0, 0)
    wrong = reliability(np.array([0.0, 1.0]), np.array([True, False]))
    assert wrong.ece == 1
    assert np.isfinite(wrong.log_loss)


def test_what_is_no_probability_is_refused():
    with pytest.raises(DataError, match="between 0 and 1"):
        reliability(np.array([0.5, np.nan]), np.array([True, False]))
    with pytest.raises(DataError, match="do not fit"):
        reliability(np.array([0.5]), np.array([True, False]))
    with pytest.raises(ConfigError, match="bins"):
        reliability(np.array([0.5]), np.array([True]), 0)
