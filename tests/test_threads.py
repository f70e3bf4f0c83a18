"""Limits on the threads of BLAS, which hold for the whole process."""

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from bilink._threads import ThreadPool, blas_threads, single_threaded_blas


def blas():
    """How many threads BLAS would take."""
    np.ones((2, 2)) @ np.ones((2, 2))
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def many():
    """Whatever the machine has, there may be four."""
    with blas_threads(4):
        yield


def test_the_least_limit_holds_whatever_ends_first():
    outer = single_threaded_blas()
    with blas_threads(3):
        assert blas() == {3}
        outer.__enter__()
        assert blas() == {1}
    assert blas() == {1}
    outer.__exit__(None, None, None)
    assert blas() == {4}


def test_training_in_one_thread_does_not_lift_the_limit_of_another():
    begun, ended, found = threading.Event(), threading.Event(), []

    def train():
        with ThreadPool(2).running():
            begun.set()
            ended.wait(20)

    thread = threading.Thread(target=train)
    thread.start()
    begun.wait(20)
    with single_threaded_blas():
        ended.set()
        thread.join(20)
        found.append(blas())
    assert found == [{1}]
    assert blas() == {4}


def test_an_error_lifts_the_limit():
    with pytest.raises(KeyError), single_threaded_blas():
        raise KeyError
    assert blas() == {4}
