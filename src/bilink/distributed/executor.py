"""The one protocol by which work is handed out, wherever it then runs.

An executor is an argument: who has work to spread calls ``executor.map`` as it would call ``map``,
or, to follow tasks and to end some early, starts a pool and reads its events.  Functions and what
they carry travel by pickle between processes (never to disk), so they must be importable.
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

LOSSES = 3  # so often may the worker of one and the same task die

Report = Callable[[Any], bool]  # tells the caller something; false once the caller wants an end
Job = Callable[[Any, Report], Any]  # of an argument


@dataclass(frozen=True)
class Event:
    """What happened to a task: it reported, it is done, it failed, or its worker was lost."""

    task: int
    kind: Literal["report", "done", "failed", "lost"]
    value: Any  # what was reported or returned; otherwise the cause, in words


class Pool(Protocol):
    """Workers that share one function; leaving its context ends whatever still runs."""

    def submit(self, argument: Any) -> int:
        """Hand out a call of the function; returns the number of the task."""

    def stop(self, task: int) -> None:
        """Let the task's next report return false."""

    def events(self, timeout: float) -> list[Event]:
        """What has happened since, in each task's order; waits so many seconds for the first."""


class Executor(ABC):
    """A place where tasks run."""

    threads: int  # that each task may take

    @property
    @abstractmethod
    def workers(self) -> int:
        """How many tasks run at a time; a cluster may grow and shrink."""

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

        An item whose worker dies is given to another one.  Once ``should_stop`` is true, there are
        no more results, and what still runs is ended.
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
                        place, item = running.pop(event.task)
                        if event.kind == "done":
                            results[place] = event.value
                            continue
                        losses[place] = losses.get(place, 0) + 1
                        if event.kind == "failed" or losses[place] == LOSSES:
                            raise WorkerError(f"item {place + 1} was not done: {event.value}")
                        running[pool.submit(item)] = (place, item)
                if ended:
                    return
                yield results.pop(position)


def _call(function: Callable[[Any], Any], argument: Any, report: Report) -> Any:
    return function(argument)


def outcome(function: Job, argument: Any, report: Report) -> tuple[Literal["done", "failed"], Any]:
    """Call ``function`` where it shall run; an error becomes its cause in words."""
    try:
        return "done", function(argument, report)
    except BilinkError as error:
        return "failed", str(error)
    except MemoryError:
        return "failed", "there was not enough memory"
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
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
