"""Threads of this machine: a pool for kernels, and threads of BLAS."""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController


def cores() -> int:
    """How many threads run at once."""
    return os.cpu_count() or 1


class ThreadPool:
    """Runs kernels on parts of a range side by side; BLAS gets as many threads."""

    def __init__(self, threads: int):
        self.threads = threads

    @contextmanager
    def running(self) -> Iterator[None]:
        """The time in which there are threads."""
        with (
            ThreadPoolExecutor(self.threads) as self._pool,
            blas_threads(self.threads),
        ):
            yield

    def spread(self, work: Callable[..., None], size: int, *arguments: Any) -> None:
        """Call ``work(first, last, …)`` on even parts of a range."""
        self.each(work, np.linspace(0, size, self.threads + 1).astype(int), *arguments)

    def each(self, work: Callable[..., None], bounds: np.ndarray, *arguments: Any) -> None:
        """Call ``work(first, last, …)`` from each bound to the next."""
        # Off the main thread even when there is one, so that signals are heard meanwhile.
        parts = pairwise(bounds.tolist())
        for job in [self._pool.submit(work, *part, *arguments) for part in parts]:
            job.result()


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


_lock = threading.Lock()
_limits: list[int] = []  # all that hold now
_originals: list[Any] = []  # what lifts them, while there are any


@contextmanager
def blas_threads(most: int) -> Iterator[None]:
    """BLAS takes at most so many threads meanwhile; of several limits at once the least holds.

    They hold for the process.  Threads that set and restored them each on its own would lift the
    limits of others.
    """
    with _lock:
        if not _limits:
            _originals.append(_blas().limit(limits=most, user_api="blas"))
        _limits.append(most)
        _blas().limit(limits=min(_limits), user_api="blas")
    try:
        yield
    finally:
        with _lock:
            _limits.remove(most)
            if _limits:
                _blas().limit(limits=min(_limits), user_api="blas")
            else:
                _originals.pop().restore_original_limits()


def single_threaded_blas() -> AbstractContextManager[None]:
    """For threads of ours that multiply blocks of their own: BLAS threads would be too many."""
    return blas_threads(1)
