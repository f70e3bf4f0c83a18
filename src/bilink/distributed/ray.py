"""Tasks on a Ray cluster, which may lose machines while it works."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bilink._extras import needs
from bilink.distributed.executor import Event, Executor, Job, Pool, outcome
from bilink.errors import ConfigError, WorkerError

# What must outlive every other machine stays on the one that the cluster cannot lose.
_ON_HEAD = {"num_cpus": 0, "resources": {"node:__internal_head__": 0.001}}


class RayExecutor(Executor):
    """As many tasks at a time as the cluster has room for, each with ``threads`` CPUs.

    ``address`` is that of a cluster, ``ray://HOST:PORT`` from outside of it.  Without one, it is
    what RAY_ADDRESS says, a cluster that runs on this machine, or else a new one for the time.
    """

    def __init__(self, address: str | None = None, threads: int = 1):
        with needs("ray", extra="ray", purpose="running on a Ray cluster"):
            import ray
        self._ray, self._address, self.threads = ray, address, threads

    @property
    def workers(self) -> int:
        """How many tasks fit into the machines that are alive now."""
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        return max(1, sum(int(node.get("CPU", 0) // self.threads) for node in nodes))

    @contextmanager
    def start(self, function: Job) -> Iterator[Pool]:
        """Connect, put ``function`` into the cluster's store, and leave in the end."""
        with self._connected():
            largest = max(node["Resources"].get("CPU", 0) for node in self._ray.nodes())
            if largest < self.threads:
                raise ConfigError(
                    f"no machine of the cluster has {self.threads} CPUs, at most {largest:.0f}; "
                    "set threads to what one machine has"
                )
            pool = _RayPool(self._ray, function, self.threads)
            try:
                yield pool
            finally:
                pool.close()

    @contextmanager
    def _connected(self) -> Iterator[None]:
        if self._ray.is_initialized():
            yield
            return
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster of ours sends nothing
        try:
            self._ray.init(self._address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError) as error:
            place = self._address or "ray"
            raise WorkerError(f"cannot reach the cluster at {place}: {error}") from None
        try:
            yield
        finally:
            self._ray.shutdown()


class _Mailbox:
    """Holds reports until they are fetched, and knows which tasks should end."""

    def __init__(self) -> None:
        self._messages: list[tuple[int, Any]] = []
        self._stopped: set[int] = set()

    def post(self, task: int, message: Any) -> bool:
        self._messages.append((task, message))
        return task not in self._stopped

    def take(self) -> list[tuple[int, Any]]:
        messages, self._messages = self._messages, []
        return messages

    def stop(self, task: int) -> None:
        self._stopped.add(task)


class _RayPool:
    def __init__(self, ray: Any, function: Job, threads: int):
        self._ray = ray
        self._function = ray.put(function)
        self._mailbox = ray.remote(_Mailbox).options(**_ON_HEAD).remote()
        # Who submits decides what becomes of a lost task, so Ray itself does not try again.
        self._run = ray.remote(_run).options(num_cpus=threads, max_retries=0)
        self._tasks: dict[Any, int] = {}  # Ray's reference → our number
        self._submitted = 0

    def submit(self, argument: Any) -> int:
        self._submitted += 1
        reference = self._run.remote(self._function, argument, self._mailbox, self._submitted)
        self._tasks[reference] = self._submitted
        return self._submitted

    def stop(self, task: int) -> None:
        self._mailbox.stop.remote(task)

    def events(self, timeout: float) -> list[Event]:
        # Reports are fetched in turns, so the wait is short; those of a finished task were posted
        # before it ended, so that they are fetched with it at the latest.
        ended, _ = self._ray.wait(
            list(self._tasks), num_returns=len(self._tasks), timeout=min(timeout, 0.05)
        )
        messages = self._ray.get(self._mailbox.take.remote())
        present = set(self._tasks.values())  # a task that was lost may still have had a word
        reports = [Event(task, "report", value) for task, value in messages if task in present]
        return reports + [self._end(reference) for reference in ended]

    def close(self) -> None:
        for reference in self._tasks:
            self._ray.cancel(reference, force=True)
        self._ray.kill(self._mailbox)

    def _end(self, reference: Any) -> Event:
        task = self._tasks.pop(reference)
        try:
            kind, value = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:  # a process or a machine died
            return Event(task, "lost", f"its worker died ({type(error).__name__})")
        return Event(task, kind, value)


def _run(function: Job, argument: Any, mailbox: Any, task: int) -> tuple[str, Any]:
    import ray

    return outcome(function, argument, lambda message: ray.get(mailbox.post.remote(task, message)))
