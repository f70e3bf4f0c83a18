"""Steps of the optimizers, which both engines take with the same functions."""

import numpy as np
import pytest

from bilink._threads import ThreadPool
from bilink.training import margin_kernels, optimizers
from bilink.training.optimizers import Optimizer


def step(name, gradient, rate=0.5):
    pool = ThreadPool(1)
    rows = np.zeros((1, len(gradient)), dtype=np.float32)
    optimizer = Optimizer(rows, name, pool)
    with pool.running():
        optimizer.step(np.array([gradient], dtype=np.float32), np.float32(rate), 1)
    return rows[0]


@pytest.mark.parametrize("name", ["adagrad", "row-adagrad"])
def test_one_epsilon_is_under_the_root_of_adagrad(name):
    """A gradient of 1e-12 has the square 1e-24, which is the epsilon: the step is rate / √2."""
    np.testing.assert_allclose(step(name, [1e-12] * 3), -0.5 / np.sqrt(2), rtol=1e-5)
    np.testing.assert_allclose(step(name, [1e-9] * 3), -0.5, rtol=1e-5)  # far above it
    assert (step(name, [0.0] * 3) == 0).all()


def test_both_engines_take_steps_by_the_same_function():
    assert margin_kernels.move_row is optimizers.move_row
    assert not hasattr(margin_kernels, "EPSILON")


def test_adam_and_sgd():
    np.testing.assert_allclose(step("adam", [3.0, -1.0]), [-0.5, 0.5], rtol=1e-4)
    np.testing.assert_allclose(step("sgd", [3.0, -1e-3]), [-1.5, 5e-4], rtol=1e-6)
