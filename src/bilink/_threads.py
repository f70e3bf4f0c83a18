"""Threads of this machine: a pool for kernels, and threads of BLAS."""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController, threadpool_limits


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
            threadpool_limits(self.threads, "blas"),
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


_limit_lock = threading.Lock()
_limit_users: list[object] = []


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Each of our threads multiplies its own blocks; BLAS threads inside would multiply with ours.

    The limit holds for the process: the first who asks sets it, the last who leaves lifts it.
    """
    with _limit_lock:
        if not _limit_users:
            _limit_users.append(_blas().limit(limits=1, user_api="blas"))
        _limit_users.append(None)
    try:
        yield
    finally:
        with _limit_lock:
            _limit_users.pop()
            if len(_limit_users) == 1:
                limiter: Any = _limit_users.pop()
                limiter.restore_original_limits()
