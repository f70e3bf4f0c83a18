"""A large graph on one machine: loading, describing, ranking, training; each in its own process.

The graph has the shape of Wikidata5M, at any size: entities lie in clusters, a relation maps a
cluster to another one, a tenth of the facts is noise.  Ratios are of one run: loading to the time
in which polars reads the same files as strings, ranking to its bare matrix products (the faster of
whole rows and of tiles), margin training to FB15K.  Times of loading are of all processors.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from common import finish

PRELUDE = """
import json, resource, sys, time
import numpy as np
folder, dim, queries, data = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() / 1e6
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
def random_model(graph, name):
    model = bilink.Model.empty(name, dim, len(graph.entities), len(graph.relations))
    random = np.random.default_rng(0)
    for array in (model.entities, model.relations):
        random.standard_normal(out=array, dtype=np.float32)
    return model
"""

LOAD = """
import bilink
from bilink.data import files
import polars
bilink.load_graph("umls")
least, files.LARGE = files.LARGE, 0
bilink.load_graph("nations")  # compile
files.LARGE = least
before, started = resident(), time.process_time()
graph = bilink.load_graph(folder)
seconds = time.process_time() - started
arrays = sum(graph.split(s).nbytes for s in ("train", "valid", "test")) / 1e6
names = sum(sys.getsizeof(name) + 8 for name in graph.entities.names) / 1e6
after = peak()
started = time.process_time()
for part in ("train", "valid", "test"):
    polars.read_csv(f"{folder}/{part}.txt", separator="\\t", has_header=False, quote_char=None,
                    schema=dict.fromkeys("hrt", polars.String))
bare = time.process_time() - started
print(json.dumps({"triples": len(graph.train), "processor s": seconds, "polars s": bare,
    "× polars": seconds / bare, "arrays MB": arrays, "names MB": names,
    "peak above them MB": after - before - arrays - names}))
"""

DESCRIBE = """
import bilink
from bilink.data.statistics import describe
from bilink.runs.paths import preview_paths
describe(bilink.load_graph("umls")), preview_paths(bilink.load_graph("umls"))  # compile
graph = bilink.load_graph(folder)
before, started = resident(), time.perf_counter()
describe(graph)
statistics = time.perf_counter() - started
preview_paths(graph)
print(json.dumps({"statistics s": statistics, "all s": time.perf_counter() - started,
                  "peak above the graph MB": peak() - before}))
"""

RANK = """
import bilink, threading
from concurrent.futures import ThreadPoolExecutor
from threadpoolctl import threadpool_limits
graph = bilink.load_graph(folder)
model = random_model(graph, "complex")
scorer = model.scorer
triples = graph.test[:queries]
bilink.rank_entities(scorer, graph, triples=triples[:2], memory=512 * 2**20)  # compile
random = np.random.default_rng(1)
asked = random.normal(size=(2 * len(triples), scorer.width)).astype(np.float32)
def bare(size, columns, threads=2):
    blocks = [asked[i : i + size] for i in range(0, len(asked), size)]
    def work(mine):
        buffer = np.empty(size * columns, dtype=np.float32)
        for block in mine:
            for first in range(0, scorer.n_entities, columns):
                part = scorer.candidates[first : first + columns]
                out = buffer[: len(block) * len(part)].reshape(len(block), len(part))
                np.matmul(block, part.T, out=out)
    started = time.perf_counter()
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, [blocks[i::threads] for i in range(threads)]))
    return time.perf_counter() - started
before, most, done = resident(), 0.0, False
def watch():
    global most
    while not done:
        most = max(most, resident())
        time.sleep(0.01)
rows = max(1, min(256, int(0.3 * 512e6) // scorer.row_bytes))  # whole rows within 512 MB
found = {"rows": [], "tiles": [], "ours": []}
for turn in range(3):
    found["rows"].append(bare(rows, scorer.n_entities))
    found["tiles"].append(bare(256, 4096))
    watcher = threading.Thread(target=watch)
    done = False
    watcher.start()
    started = time.perf_counter()
    bilink.rank_entities(scorer, graph, triples=triples, memory=512 * 2**20)
    found["ours"].append(time.perf_counter() - started)
    done = True
    watcher.join()
best = {key: min(times) for key, times in found.items()}
products = min(best["rows"], best["tiles"])
print(json.dumps({"entities": scorer.n_entities, "queries": len(asked),
    "bare, whole rows s": best["rows"], "bare, tiles s": best["tiles"], "bilink s": best["ours"],
    "× bare": best["ours"] / products,
    "GFLOP/s": 2e-9 * len(asked) * scorer.n_entities * scorer.width / best["ours"],
    "peak growth MB": most - before}))
"""

TRAIN = """
import bilink
from bilink.training import presets
from bilink.training.loop import initialise, make_engine
def speed(graph, name, options, seconds=15):
    config = presets.preset(name, "complex").with_options(options)
    model = random_model(graph, "complex")
    initialise(model, config)
    engine = make_engine(model, graph, config)
    state = {"first": None}
    def pause(share):
        now = time.perf_counter()
        if state["first"] is None:
            state["first"], state["share"] = now, share
        state["last"], state["now"] = share, now
        return now - state["first"] > seconds
    try:
        engine.run_epoch(0, pause=pause)
    except Exception as error:
        if type(error).__name__ != "EpochPausedError":
            raise
    done = (state["last"] - state["share"]) * len(graph.train)
    return done / (state["now"] - state["first"])
small, large = bilink.load_graph(data), bilink.load_graph(folder)
rows = {}
for name in ("margin", "sampled"):
    speed(small, name, {}, 2)
    ours, theirs = speed(large, name, {}), speed(small, name, {}, 10)
    rows[f"{name} triples/s"] = ours
    rows[f"{name} triples/s of {data}"] = theirs
    rows[f"{name} ×"] = ours / theirs
print(json.dumps({**rows, "peak MB": peak()}))
"""


def make_graph(folder, n, k, m, c, held_out=5_000):
    """Write train, valid and test of a graph with n entities in c clusters, k relations."""
    rng = np.random.default_rng(0)
    cluster = rng.integers(c, size=n)
    members = np.argsort(cluster, kind="stable")
    starts = np.searchsorted(cluster[members], np.arange(c + 1))
    relation = np.minimum((k * rng.random(m) ** 3).astype(np.int64), k - 1)  # few are frequent
    target = np.stack([rng.permutation(c) for _ in range(k)])
    head = (n * rng.random(m) ** 1.5).astype(np.int64)
    goal = target[relation, cluster[head]]
    size = starts[goal + 1] - starts[goal]
    place = np.maximum(np.minimum((size * rng.random(m) ** 3).astype(np.int64), size - 1), 0)
    tail = members[np.minimum(starts[goal] + place, n - 1)]
    noise = rng.random(m) < 0.1
    tail[noise] = rng.integers(n, size=int(noise.sum()))
    frame = pl.DataFrame({"h": head, "r": relation, "t": tail}).unique()
    frame = frame.sample(fraction=1.0, shuffle=True, seed=1)
    frame = frame.select(
        h="Q" + pl.col("h").cast(pl.String),
        r="P" + pl.col("r").cast(pl.String),
        t="Q" + pl.col("t").cast(pl.String),
    )
    folder.mkdir(parents=True, exist_ok=True)
    cut = len(frame) - 2 * held_out
    bounds = {"train": (0, cut), "valid": (cut, held_out), "test": (cut + held_out, held_out)}
    for name, (first, length) in bounds.items():
        part = frame.slice(first, length)
        part.write_csv(folder / f"{name}.txt", separator="\t", include_header=False)


def measure(code, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + code, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout)


PARTS = {"loading": LOAD, "describing": DESCRIBE, "ranking": RANK, "training": TRAIN}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="a graph that is there, or is made there")
    parser.add_argument("--entities", type=int, default=1_000_000)
    parser.add_argument("--relations", type=int, default=822)
    parser.add_argument("--triples", type=int, default=4_500_000)
    parser.add_argument("--clusters", type=int, default=4_000)
    parser.add_argument("--dim", type=int, default=64, help="complex numbers per entity")
    parser.add_argument("--queries", type=int, default=1_000, help="test triples to rank")
    parser.add_argument("--data", default="fb15k", help="the small graph to compare training with")
    parser.add_argument("--parts", default=",".join(PARTS))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary) / "graph"
        if not (folder / "train.txt").exists():
            sizes = options.entities, options.relations, options.triples, options.clusters
            make_graph(folder, *sizes)
        how = folder, options.dim, options.queries, options.data
        names = options.parts.split(",")
        finish("large_graph", {name: [measure(PARTS[name], *how)] for name in names})


if __name__ == "__main__":
    main()
