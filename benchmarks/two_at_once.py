"""Two trainings beside each other: how much longer each takes than alone, 2 being a fair share.

Threads of OpenBLAS that have nothing to do go on looking for work, for 2**26 cycles unless told.
A training multiplies every few milliseconds, so they never sleep, and take the cores from the other
one.  bilink tells them 2**18 cycles, where NumPy has not been imported before it.
"""

import argparse
import os
import statistics
import subprocess
import sys

from common import finish

TIMEOUT = "OPENBLAS_THREAD_TIMEOUT"


def train(seconds):
    """Print the median time of an epoch, of as many as there is time for."""
    import time

    from softmax_speed import ours

    from bilink import load_graph

    options = {"negatives": 1000, "batch_size": 300, "questions": "weighted"}
    epoch = ours(load_graph("fb15k"), 10_000, options)
    times, started = [], time.perf_counter()
    while time.perf_counter() - started < seconds:
        before = time.perf_counter()
        epoch()
        times.append(time.perf_counter() - before)
    print(statistics.median(times))


def median_times(count, timeout, seconds):
    """Of so many trainings at once."""
    env = {**os.environ, TIMEOUT: timeout}
    command = [sys.executable, __file__, "--child", "--seconds", str(seconds)]
    children = [
        subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) for _ in range(count)
    ]
    return [float(child.communicate()[0].splitlines()[-1]) for child in children]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10, help="of each training")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        train(options.seconds)
        return
    rows = []
    for title, timeout in (("OpenBLAS's default, 2**26 cycles", "26"), ("ours, 2**18", "18")):
        [alone] = median_times(1, timeout, options.seconds)
        both = median_times(2, timeout, options.seconds)
        ratio = statistics.mean(both) / alone
        rows.append({"threads wait": title, "epoch alone, s": alone, "× with two": ratio})
    finish("two_at_once", {"ComplEx, FB15K, 10,000 facts, weighted questions": rows})


if __name__ == "__main__":
    main()
