"""Where the server's work is done: beside the event loop, so much at once and no more."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

Given = ParamSpec("Given")
Found = TypeVar("Found")


class BusyError(Exception):
    """All places of a lane are taken."""


class SlowError(Exception):
    """Work took longer than a lane allows."""


class Lane:
    """A few threads and a short queue before them.

    Work that is too slow is abandoned by its caller, but keeps its place until it has ended, so
    that impatient callers cannot pile it up.
    """

    def __init__(self, name: str, *, workers: int, waiting: int, seconds: float):
        self._name, self._workers = name, workers
        self._pool: ThreadPoolExecutor | None = None  # until there is work
        self._places = threading.BoundedSemaphore(workers + waiting)
        self.seconds = seconds

    async def do(
        self, work: Callable[Given, Found], *args: Given.args, **options: Given.kwargs
    ) -> Found:
        """Do the work on a thread of this lane."""
        if not self._places.acquire(blocking=False):
            raise BusyError
        try:
            job = self._open().submit(work, *args, **options)
        except BaseException:
            self._places.release()
            raise
        job.add_done_callback(lambda _: self._places.release())
        try:
            return await asyncio.wait_for(asyncio.wrap_future(job), self.seconds)
        except TimeoutError:
            raise SlowError from None

    def _open(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._workers, f"bilink-{self._name}")
        return self._pool

    def close(self) -> None:
        """Drop what waits, and end the threads when they are done."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
