"""Threads that share the rows of a batch."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits


class Crew:
    """Runs kernels on parts of a range side by side; BLAS gets as many threads."""

    def __init__(self, threads: int):
        self.threads = threads

    @contextmanager
    def at_work(self) -> Iterator[None]:
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
