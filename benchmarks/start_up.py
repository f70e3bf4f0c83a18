"""CPU seconds of ``import bilink``, and how long a second process takes to its first epoch.

The ratio for the second process is against the first one, which compiles: near zero means that no
kernel was compiled again.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time

from common import show

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
    for _ in range(2):
        time.sleep(0.1)
        bare = min(cpu_seconds("pass")[0] for _ in range(5))
        numpy = min(cpu_seconds("import numpy")[0] for _ in range(5))
        ours = min(cpu_seconds("import bilink")[0] for _ in range(5))
    show([{"python alone, CPU s": bare, "import numpy": numpy, "import bilink": ours}])
    with tempfile.TemporaryDirectory() as cache:
        first, second = (float(cpu_seconds(EPOCH, BILINK_CACHE=cache)[1]) for _ in range(2))
    show(
        [
            {
                "first process to first epoch, s": first,
                "second process": second,
                "second / first": second / first,
            }
        ]
    )


if __name__ == "__main__":
    main()
