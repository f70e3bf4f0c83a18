"""Where work runs: in processes on this machine, or on a Ray cluster."""

from bilink.distributed.executor import Event, Executor, Pool, executor_for
from bilink.distributed.local import LocalExecutor
from bilink.distributed.ray import RayExecutor

__all__ = ["Event", "Executor", "LocalExecutor", "Pool", "RayExecutor", "executor_for"]
