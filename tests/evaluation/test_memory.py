"""Ranking stays inside the budget it is given, also on a large graph."""

import subprocess
import sys

import pytest

CODE = """
import resource, threading, time
import numpy as np, bilink
graph = bilink.load_graph("hsgene")
model = bilink.Model.empty("complex", 50, len(graph.entities), len(graph.relations))
np.random.default_rng(0).standard_normal(out=model.entities, dtype=np.float32)
bilink.train("atlas", "complex", 4, epochs=1).evaluate()  # compiling takes memory of its own
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
before, peak, done = resident(), 0, False
def watch():
    global peak
    while not done:
        peak = max(peak, resident())
        time.sleep(0.002)
watcher = threading.Thread(target=watch)
watcher.start()
try:
    bilink.rank_entities(model.scorer, graph, triples=graph.test[:400], memory=256 * 2**20)
finally:
    done = True
    watcher.join()
print((peak - before) / 2**20)
"""


@pytest.mark.slow
@pytest.mark.realdata
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_ranking_a_large_graph_stays_inside_256_megabytes(real_data):
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 256
