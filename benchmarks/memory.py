"""Peak memory of training, and of evaluation under a budget, each in a process of its own.

Training is compared with parameters plus Adagrad state; evaluation with what the process held
before it began.
"""

import argparse
import json
import subprocess
import sys

from common import finish

TRAIN = """
import json, resource, sys
import bilink
data, model, dim, epochs = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
graph = bilink.load_graph(data)
run = bilink.train(graph, model, dim, epochs=epochs, negatives=1, corrupt="random")
size = run.model.entities.nbytes + run.model.relations.nbytes
seconds = sum(r["seconds"] for r in run.history)
print(json.dumps({
    "parameters+state MB": 2 * size / 1e6,
    "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
    "triples/s": len(graph.train) * len(run.history) / seconds,
}))
"""

EVALUATE = """
import json, resource, sys, threading, time
import numpy as np, bilink
data, model, dim, budget = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
graph = bilink.load_graph(data)
empty = bilink.Model.empty(model, dim, len(graph.entities), len(graph.relations))
random = np.random.default_rng(0)
for array in (empty.entities, empty.relations):
    random.standard_normal(out=array, dtype=np.float32)
bilink.rank_entities(empty.scorer, graph, triples=graph.test[:2], memory=budget)  # compile
def resident():
    pages = int(open("/proc/self/statm").read().split()[1])
    return pages * resource.getpagesize() / 1e6
before, peak, done = resident(), 0.0, False
def watch():
    global peak
    while not done:
        peak = max(peak, resident())
        time.sleep(0.002)
watcher = threading.Thread(target=watch)
watcher.start()
started = time.perf_counter()
bilink.rank_entities(empty.scorer, graph, memory=budget)
seconds = time.perf_counter() - started
done = True
watcher.join()
print(json.dumps({"before MB": before, "peak growth MB": peak - before,
                  "budget MB": budget / 1e6, "seconds": seconds}))
"""


def measure(code, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", default="hsgene", help="the large graph; empty to leave it out")
    options = parser.parse_args()
    runs = [("fb15k", model, 200, 10) for model in ("transe", "hole", "complex", "distmult")]
    runs += [("fb15k", "rescal", 200, 1), ("fb15k", "transe", 100, 5)]
    runs += [("fb15k", "complex", 50, 5)]
    if options.large:
        runs += [(options.large, "transe", 100, 5), (options.large, "complex", 50, 5)]
    rows = []
    for data, model, dim, epochs in runs:
        row = {"data": data, "model": model, "dim": dim, **measure(TRAIN, data, model, dim, epochs)}
        row["over MB"] = row["peak MB"] - row["parameters+state MB"]
        rows.append(row)
    training = rows
    budget = 256 * 2**20
    runs = [("wn18", "transe", 200), ("fb15k", "complex", 100)]
    runs += [(options.large, "transe", 100)] if options.large else []
    rows = []
    for data, model, dim in runs:
        found = measure(EVALUATE, data, model, dim, budget)
        rows.append({"data": data, "model": model, "dim": dim, **found})
    finish("memory", {"training": training, "evaluation under a budget": rows})


if __name__ == "__main__":
    main()
