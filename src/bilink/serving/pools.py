"""Threads beside the event loop: pools with short queues, and one thread for what can wait."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class BusyError(Exception):
    """The queue of a worker pool is full."""


class SlowError(Exception):
    """Work took longer than its worker pool allows."""


class WorkerPool:
    """A few threads beside the event loop, and a queue of limited length before them.

    A caller gives up on work that is too slow, but the work counts until it has ended, so that
    impatient callers cannot pile it up.
    """

    def __init__(self, name: str, *, workers: int, waiting: int, seconds: float):
        self._name, self._workers = name, workers
        self._threads: ThreadPoolExecutor | None = None  # until there is work, and after ``close``
        self._free = threading.BoundedSemaphore(workers + waiting)
        self.seconds = seconds
        self.last_use = 0.0  # when work last came in or ended

    async def run(self, work: Callable[P, R], *args: P.args, **options: P.kwargs) -> R:
        """Do the work on one of the threads."""
        if not self._free.acquire(blocking=False):
            raise BusyError
        try:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self._workers, f"bilink-{self._name}")
            self.last_use = time.monotonic()
            job = self._threads.submit(work, *args, **options)
        except BaseException:
            self._free.release()
            raise
        job.add_done_callback(lambda _: self._free.release())
        try:
            return await asyncio.wait_for(asyncio.wrap_future(job), self.seconds)
        except TimeoutError:
            raise SlowError from None

    def close(self) -> None:
        """Drop what waits, and end the threads when they are done."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None


class Background:
    """One thread, for what is prepared before anybody asks for it.

    Between two pieces of work it waits while callers are being answered, but not for ever, and not
    before what somebody waits for.  It has the priority of all threads: a thread that waits for a
    processor while it holds the lock of the interpreter would keep all others waiting.
    """

    QUIET = 0.2  # seconds since the last question after which nobody is kept waiting
    LONGEST_WAIT = 2.0  # seconds

    def __init__(self, last_use: Callable[[], float] = lambda: 0.0):
        # What is to be done, and whether somebody waits for it; None ends the thread.
        self._work: deque[tuple[Callable[[], object], bool] | None] = deque()
        self._changed = threading.Condition()
        self._last_use = last_use
        self._thread: threading.Thread | None = None

    def add(self, work: Callable[[], object], *, first: bool = False) -> None:
        """Do this when there is time; ``first``, for which somebody waits, before all else."""
        with self._changed:
            (self._work.appendleft if first else self._work.append)((work, first))
            if self._thread is None:
                name = "bilink-background"
                self._thread = threading.Thread(target=self._loop, name=name, daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Drop what waits; the thread ends when the present piece is done."""
        with self._changed:
            self._work.clear()
            self._work.append(None)
            self._changed.notify()

    def _loop(self) -> None:
        while (found := self._next()) is not None:
            work, is_wanted = found
            if not is_wanted:
                self._wait_for_quiet()
            with suppress(Exception):  # whoever asks for it will meet the same error, and say it
                work()

    def _next(self) -> tuple[Callable[[], object], bool] | None:
        with self._changed:
            while True:
                while not self._work:
                    self._changed.wait()
                work = self._work.popleft()
                if work is not None:
                    return work
                if not self._work:
                    self._thread = None
                    return None

    def _wait_for_quiet(self) -> None:
        end = time.monotonic() + self.LONGEST_WAIT
        while end > time.monotonic() < self._last_use() + self.QUIET:
            time.sleep(self.QUIET / 4)
