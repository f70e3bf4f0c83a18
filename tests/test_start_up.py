"""Quick to import, and compiled once."""

import os
import resource
import subprocess
import sys

CODE = """
import bilink
from bilink.models import kernels
from bilink.models.registry import family
from bilink.training.kernels import train_chunk
run = bilink.train("atlas", "distmult", 4, epochs=1, validation_triples=5)
bound = [family("distmult").bind(t) for t in (train_chunk, kernels.fill_queries)]
print(sum(sum(f.stats.cache_misses.values()) for f in bound))
"""


def run(code, **env):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **env}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_second_process_compiles_nothing(tmp_path):
    assert int(run(CODE, BILINK_CACHE=str(tmp_path))) > 0
    assert run(CODE, BILINK_CACHE=str(tmp_path)) == "0"


def test_without_a_place_for_the_cache_it_still_works(tmp_path):
    (tmp_path / "file").write_text("")
    assert int(run(CODE, BILINK_CACHE=str(tmp_path / "file" / "cache"))) > 0


def test_importing_bilink_costs_little():
    """Against importing NumPy, not against the clock."""

    def cpu(code):
        times = []
        for _ in range(3):
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            run(code)
            times.append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before)
        return min(times)

    assert cpu("import bilink") < cpu("import numpy")
