"""CPU seconds of ``import bilink``, and how long a second process takes to its first epoch.

The ratio for the second process is against the first one, which compiles: near zero means that no
kernel was compiled again.
"""

import os
import resource
import subprocess
import sys
import tempfile

from common import finish

EPOCH = """
import time, bilink
graph = bilink.load_graph("atlas")
started = time.perf_counter()
bilink.train(graph, "complex", 50, epochs=1, validation_triples=0)
print(time.perf_counter() - started)
"""


def cpu_seconds(code, **env):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **env},
    ).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime), out


def main():
    imports = {
        f"{code}, CPU s": min(cpu_seconds(code)[0] for _ in range(5))
        for code in ("pass", "import numpy", "import bilink")
    }
    with tempfile.TemporaryDirectory() as cache:
        first, second = (float(cpu_seconds(EPOCH, BILINK_CACHE=cache)[1]) for _ in range(2))
    epoch = {"first process, s": first, "second process, s": second, "ratio": second / first}
    finish("start_up", {"importing": [imports], "until the first epoch is done": [epoch]})


if __name__ == "__main__":
    main()
