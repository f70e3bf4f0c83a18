"""Tasks in processes on this machine."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from contextlib import AbstractContextManager, closing, suppress
from multiprocessing import connection
from typing import Any

from threadpoolctl import threadpool_limits

from bilink.distributed.executor import Event, Executor, Job, Pool, outcome

# Spawned instead of forked: a fork of a process with threads may hang.
_processes = multiprocessing.get_context("spawn")
_GONE = (EOFError, BrokenPipeError, ConnectionResetError)


class LocalExecutor(Executor):
    """``workers`` processes, with ``threads`` each; by default they divide the cores.

    Each process imports the script that uses it, so its work must stand under
    ``if __name__ == "__main__":``.
    """

    def __init__(self, workers: int = 1, threads: int | None = None):
        self._workers = workers
        self.threads = threads or max(1, (os.cpu_count() or 1) // workers)

    @property
    def workers(self) -> int:
        """The number of processes."""
        return self._workers

    def start(self, function: Job) -> AbstractContextManager[Pool]:
        """Processes for ``function``, each started when it is needed."""
        return closing(_LocalPool(function, self._workers, self.threads))


class _Worker:
    """A process and the pipe to it."""

    def __init__(self, function: Job, threads: int):
        self.pipe, other_end = _processes.Pipe()
        self.process = _processes.Process(
            target=_serve, args=(function, other_end, threads), daemon=True
        )
        self.process.start()
        other_end.close()  # so that the pipe is closed when the process ends

    def send(self, task: int, *argument: Any) -> None:
        with suppress(*_GONE):  # a dead process is noticed at the next read
            self.pipe.send((task, *argument))


class _LocalPool:
    def __init__(self, function: Job, workers: int, threads: int):
        self._function, self._vacancies, self._threads = function, workers, threads
        self._waiting: deque[tuple[int, Any]] = deque()
        self._idle: list[_Worker] = []
        self._busy: dict[int, _Worker] = {}
        self._stopped: set[int] = set()
        self._submitted = 0

    def submit(self, argument: Any) -> int:
        self._submitted += 1
        self._waiting.append((self._submitted, argument))
        self._hand_out()
        return self._submitted

    def stop(self, task: int) -> None:
        self._stopped.add(task)
        if task in self._busy:
            self._busy[task].send(task)

    def events(self, timeout: float) -> list[Event]:
        pipes = {worker.pipe: task for task, worker in self._busy.items()}
        ready = connection.wait(list(pipes), timeout)
        events = [self._read(pipes[pipe]) for pipe in ready]  # type: ignore[index]
        self._hand_out()
        return events

    def close(self) -> None:
        workers = [*self._idle, *self._busy.values()]
        for worker in workers:
            worker.process.kill()
        for worker in workers:
            worker.process.join()
            worker.pipe.close()

    def _hand_out(self) -> None:
        while self._waiting and (self._idle or self._vacancies):
            if not self._idle:
                self._vacancies -= 1
                self._idle.append(_Worker(self._function, self._threads))
            task, argument = self._waiting.popleft()
            worker = self._busy[task] = self._idle.pop()
            worker.send(task, argument)
            if task in self._stopped:
                worker.send(task)

    def _read(self, task: int) -> Event:
        worker = self._busy[task]
        try:
            kind, value = worker.pipe.recv()
        except _GONE:
            del self._busy[task]
            self._vacancies += 1
            worker.pipe.close()
            worker.process.join()
            code = worker.process.exitcode or 0
            end = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            return Event(task, "lost", f"its process {end}")
        if kind != "report":
            self._idle.append(self._busy.pop(task))
        return Event(task, kind, value)


def _serve(function: Job, pipe: Any, threads: int) -> None:
    """What a process does: receive a task, send its reports and its outcome, receive the next.

    The message (task, argument) starts a task; (task,) alone asks it to end.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with threadpool_limits(threads), suppress(*_GONE):
        while True:
            task, *argument = pipe.recv()
            if argument:
                pipe.send(outcome(function, argument[0], _reporter(pipe, task)))


def _reporter(pipe: Any, task: int) -> Any:
    going = True

    def report(message: Any) -> bool:
        nonlocal going
        pipe.send(("report", message))
        while pipe.poll():
            going = pipe.recv() != (task,) and going
        return going

    return report


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
