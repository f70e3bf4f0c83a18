"""The interface to workers, wherever they run.

A function that can spread its work takes an executor as an argument.  It calls ``executor.map``
like the built-in ``map``, or, to follow tasks and to end some early, starts a pool and reads its
events.  Functions and their arguments are pickled on their way to another process (never to disk),
so functions must be importable.
"""

import itertools
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

from bilink.errors import BilinkError, ConfigError, WorkerError

LOSSES = 3  # a task whose worker has died so often is given up

Report = Callable[[Any], bool]  # sends a message to the caller; False once the task should end
Job = Callable[[Any, Report], Any]  # what a task calls with its argument


@dataclass(frozen=True)
class Event:
    """What happened to a task: it reported, it is done, it failed, or its worker was lost."""

    task: int
    kind: Literal["report", "done", "failed", "lost"]
    value: Any  # what was reported or returned; for failed and lost, the cause in words


class Pool(Protocol):
    """Workers for one function; leaving the context of ``start`` ends what still runs."""

    def submit(self, argument: Any) -> int:
        """Submit a call of the function; returns the number of the task."""

    def stop(self, task: int) -> None:
        """Make the task's next report return False."""

    def events(self, timeout: float) -> list[Event]:
        """The events since the last call, of each task in order; waits for the first one."""


class Executor(ABC):
    """Where tasks run."""

    threads: int  # per task

    @property
    @abstractmethod
    def workers(self) -> int:
        """How many tasks run at a time; a cluster may grow or shrink."""

    @abstractmethod
    def start(self, function: Job) -> AbstractContextManager[Pool]:
        """Workers for ``function``, which is sent to each of them once."""

    def map(
        self,
        function: Callable[[Any], Any],
        items: Iterable[Any],
        should_stop: Callable[[], bool] = lambda: False,
    ) -> Iterator[Any]:
        """Like the built-in ``map``: results in the order of ``items``.

        An item whose worker dies is given to another worker.  Once ``should_stop`` returns True,
        there are no more results, and what still runs is ended.
        """
        waiting, running, losses = enumerate(items), dict[int, tuple[int, Any]](), dict[int, int]()
        results: dict[int, Any] = {}
        with self.start(partial(_call, function)) as pool:
            for position in itertools.count():
                while not (ended := should_stop()) and position not in results:
                    while len(running) < self.workers and (job := next(waiting, None)):
                        running[pool.submit(job[1])] = job
                    if not running:
                        return
                    for event in pool.events(timeout=1.0):
                        index, item = running.pop(event.task)
                        if event.kind == "done":
                            results[index] = event.value
                            continue
                        losses[index] = losses.get(index, 0) + 1
                        if event.kind == "failed" or losses[index] == LOSSES:
                            raise WorkerError(f"item {index + 1} was not done: {event.value}")
                        running[pool.submit(item)] = (index, item)
                if ended:
                    return
                yield results.pop(position)


def _call(function: Callable[[Any], Any], argument: Any, report: Report) -> Any:
    return function(argument)


def outcome(function: Job, argument: Any, report: Report) -> tuple[Literal["done", "failed"], Any]:
    """Call ``function`` in its worker; an error is returned as its cause in words."""
    try:
        return "done", function(argument, report)
    except BilinkError as error:
        return "failed", str(error)
    except MemoryError:
        return "failed", "there was not enough memory"
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(frame.filename).name}:{frame.lineno}"
        return "failed", f"{type(error).__name__}: {error} (in {where})"


def executor_for(workers: str, threads: int | None = None) -> Executor:
    """The executor that ``--workers`` names: a number of processes, ``ray``, or ``ray://…``."""
    from bilink.distributed.local import LocalExecutor
    from bilink.distributed.ray import RayExecutor

    if workers == "ray" or workers.startswith("ray://"):
        return RayExecutor(None if workers == "ray" else workers, threads or 1)
    if not workers.isdecimal() or not 1 <= int(workers) <= 1024:
        raise ConfigError(
            f"--workers must be a number from 1 to 1024, ray, or ray://HOST:PORT, not {workers!r}"
        )
    return LocalExecutor(int(workers), threads)
