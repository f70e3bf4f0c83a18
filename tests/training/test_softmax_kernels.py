"""The softmax of rows of scores: exponentials, samples and rounding."""

import numpy as np
import pytest

from bilink.errors import ConfigError
from bilink.training import softmax_kernels
from bilink.training.config import SoftmaxConfig
from bilink.training.softmax_kernels import Kept, Targets
from bilink.training.tables import places_in


def room(size, rounding):
    most = min(size, int(2 + 1 / rounding)) if rounding else 0
    return Kept(
        np.empty((1, most), np.int32), np.empty((1, most), np.float32), np.empty(1, np.int64)
    )


def test_a_sample_estimates_the_sum_over_all():
    """The correction: e^s summed over the sample, scaled to all wrong ones, is right on average."""
    random = np.random.default_rng(0)
    count, size = 50, 7
    entities = random.normal(size=(count, 1)).astype(np.float32)
    answers, found = np.array([3, 8]), []
    for _ in range(4000):
        drawn = np.sort(random.choice(count, size, replace=False))
        row, loss = entities[drawn].T.copy(), np.zeros(1)
        gradients = np.empty(2, np.float32)
        targets = Targets(np.array([0, 2]), gradients, np.ones(1, np.float32), loss, np.zeros(1))
        softmax_kernels.sampled_gradients(
            0,
            1,
            row,
            np.ones((1, 1), np.float32),
            entities[answers],
            targets,
            places_in(drawn, answers),
            count,
            0.0,
            np.uint64(0),
            False,
            room(size, 0.0),
        )
        found.append(np.exp(loss[0] + entities[answers].mean()))
    np.testing.assert_allclose(np.mean(found), np.exp(entities).sum(), rtol=0.02)


def rounded(scores, rounding, seed):
    """Probabilities of one row after rounding, and its loss, where candidates 3 and 8 are right."""
    kept = room(len(scores), rounding)
    answer_gradients, loss = np.empty(2, np.float32), np.zeros(1)
    ones = np.ones(1, np.float32)
    targets = Targets(np.array([0, 2]), np.array([3, 8]), ones, loss, np.zeros(1))
    softmax_kernels.rounded_gradients(
        0,
        1,
        scores[None].copy(),
        targets,
        rounding,
        np.uint64(seed),
        False,
        kept,
        answer_gradients,
    )
    count = kept.counts[0]
    assert count <= kept.columns.shape[1]
    columns = kept.columns[0, :count]
    assert (np.diff(columns) > 0).all()
    assert (answer_gradients == -0.5).all()
    found = np.zeros(len(scores))
    found[columns] = kept.values[0, :count]
    return found, loss[0]


@pytest.mark.parametrize("size", [9, 64, 200])
@pytest.mark.parametrize("spread", [0, 2])
def test_rounded_probabilities_are_right_on_average(size, spread):
    rounding = 0.05
    scores = np.random.default_rng(size).normal(size=size, scale=spread).astype(np.float32)
    exact = np.exp(scores.astype(float)) / np.exp(scores.astype(float)).sum()
    rows, losses = zip(*(rounded(scores, rounding, seed) for seed in range(6000)), strict=True)
    np.testing.assert_allclose(np.mean(rows, axis=0), exact, atol=0.002)
    np.testing.assert_allclose(losses, -np.log(exact[[3, 8]]).mean(), rtol=1e-5)
    large = exact >= rounding
    np.testing.assert_allclose(
        np.array(rows)[:, large], np.tile(exact[large], (6000, 1)), rtol=1e-5
    )


def test_the_fast_exponential_is_right():
    row = np.linspace(-80, 0, 10_001).astype(np.float32)
    expected = np.exp(row.astype(float))
    softmax_kernels.exp_row(row, np.float32(0))
    np.testing.assert_allclose(row, expected, rtol=3e-7)


def test_rounding_too_small_for_a_sample_is_refused():
    options = {"loss": "softmax", "negatives": 100}
    with pytest.raises(ConfigError, match=r"pays from 0\.05 on"):
        SoftmaxConfig().with_options({**options, "rounding": 0.04})
    SoftmaxConfig().with_options({**options, "rounding": 0.05})
    SoftmaxConfig().with_options({**options, "rounding": 0.04, "full_epochs": 1})
