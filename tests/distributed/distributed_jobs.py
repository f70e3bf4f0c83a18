"""Functions that other processes import and run."""

import os
import signal
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info

from bilink.errors import TrainingError


def square(x):
    return x * x


def slow_first(x):
    time.sleep(0.3 if x == 0 else 0)
    return x


def die_once(marks, x):
    """The process is killed the first time that it is given ``x``."""
    mark = Path(marks) / str(x)
    if x == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def die(x):
    os.kill(os.getpid(), signal.SIGKILL)


def fail(x):
    if x == "known":
        raise TrainingError("training diverged")
    return {}["missing"]


def count_until_stopped(limit, report):
    for n in range(limit):
        if not report(n):
            return n
        time.sleep(0.01)
    return limit


def blas_threads(x):
    np.ones((2, 2)) @ np.ones((2, 2))
    return max(pool["num_threads"] for pool in threadpool_info())


def tail_ranks(rank, triples):
    """The ranks of a block of triples."""
    return rank(triples=triples).values("tail")


def report_my_process(limit, report):
    report(os.getpid())
    time.sleep(limit)
