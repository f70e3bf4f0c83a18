"""Tasks on a Ray cluster, which may lose machines while it works."""

import logging
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from bilink._extras import needs
from bilink.distributed.executor import Event, Executor, Job, Pool, outcome
from bilink.errors import ConfigError, WorkerError

# What must survive the loss of any other machine runs on the head node.
_ON_HEAD = {"num_cpus": 0, "resources": {"node:__internal_head__": 0.001}}


class RayExecutor(Executor):
    """As many tasks at a time as fit into the cluster, each with ``threads`` CPUs.

    ``address`` is that of a cluster, ``ray://HOST:PORT`` from outside of it.  Without one, it is
    that of RAY_ADDRESS, of a cluster on this machine, or else of a new, temporary one.
    """

    def __init__(self, address: str | None = None, threads: int = 1):
        with needs("ray", extra="ray", purpose="running on a Ray cluster"):
            import ray
        self._ray, self._address, self.threads = ray, address, threads

    @property
    def workers(self) -> int:
        """How many tasks fit into the machines that are alive."""
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        return max(1, sum(int(node.get("CPU", 0) // self.threads) for node in nodes))

    @contextmanager
    def start(self, function: Job) -> Iterator[Pool]:
        """Connect, put ``function`` into the cluster's store, and disconnect at the end."""
        with self._connected():
            largest = max(node["Resources"].get("CPU", 0) for node in self._ray.nodes())
            if largest < self.threads:
                raise ConfigError(
                    f"no machine of the cluster has {self.threads} CPUs, at most {largest:.0f}; "
                    "set threads to what one machine has"
                )
            with closing(_RayPool(self._ray, function, self.threads)) as pool:
                yield pool

    @contextmanager
    def _connected(self) -> Iterator[None]:
        if self._ray.is_initialized():
            yield
            return
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no telemetry from a new cluster
        try:
            self._ray.init(self._address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError) as error:
            address = self._address or "ray"
            raise WorkerError(f"cannot reach the cluster at {address}: {error}") from None
        try:
            yield
        finally:
            self._ray.shutdown()


class _Mailbox:
    """Holds reports until they are fetched, and the numbers of tasks that should end."""

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
        # The caller decides whether a lost task is submitted again, so Ray must not retry it.
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
        # The wait is short, since reports are only fetched after it.  A task posts its reports
        # before it ends, so they are fetched before its end or together with it.
        ended, _ = self._ray.wait(
            list(self._tasks), num_returns=len(self._tasks), timeout=min(timeout, 0.05)
        )
        messages = self._ray.get(self._mailbox.take.remote())
        present = set(self._tasks.values())  # the mailbox may hold reports of a lost task
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
