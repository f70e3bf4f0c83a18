"""Training in parts against training in one piece: quality and triples per second, in one run.

Quality is the filtered ranking of test among all entities, after the same epochs; nothing is chosen
by it.  Times are of the processor, with the reading and writing of parts in them, so that the ratio
hardly depends on what else the machine does.  "once" deals the entities into parts once, and not
before each epoch.

Memory is what a whole run (``bilink.train``) of one epoch takes at its peak above the loaded graph,
in a process of its own, against the estimate that ``--memory`` goes by.  Pages of files, which the
system takes back when it needs them, are not counted.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from common import finish, show

from bilink import Model, load_graph, rank_entities
from bilink.models.registry import family
from bilink.training.config import MarginConfig, SoftmaxConfig
from bilink.training.loop import fit
from bilink.training.parts import fit_in_parts

PEAK = """
import json, sys, tempfile, threading, time
import numpy as np, bilink
from bilink.data.vocabulary import Vocabulary
from bilink.runs.job import prepare
from bilink.training import estimate
n, m, parts, dim = map(int, sys.argv[1:])
random = np.random.default_rng(0)
triples = np.stack([random.integers(high, size=m) for high in (n, 50, n)], axis=1)
names = [Vocabulary(kind, tuple(f"{kind}{i}" for i in range(size)))
         for kind, size in (("entity", n), ("relation", 50))]
graph = bilink.Graph("random", *names, triples, triples[:0], triples[:0])
del triples
options = {"loss": "margin", "epochs": 1, "threads": 1, "parts": parts}
def anonymous():
    text = open("/proc/self/status").read()
    return 1024 * int(text.partition("RssAnon:")[2].split()[0])
with tempfile.TemporaryDirectory() as folder:
    small = bilink.load_graph("umls")
    bilink.train(small, "complex", 4, out=folder + "/small", options=options)  # compile
    job = prepare(graph, "complex", dim, options)
    before, most, done = anonymous(), 0, False
    def watch():
        global most
        while not done:
            most = max(most, anonymous())
            time.sleep(0.003)
    watcher = threading.Thread(target=watch)
    watcher.start()
    started = time.process_time()
    job.run(out=folder + "/run")
    seconds = time.process_time() - started
    done = True
    watcher.join()
print(json.dumps({"parts": parts, "entities": n, "parameters and state MB": 16 * n * dim / 1e6,
                  "peak above the graph MB": (most - before) / 1e6,
                  "estimate of all MB": job.plan().memory / 1e6, "processor s": seconds}))
"""
COMMON = {"threads": 1, "validation_triples": 0, "keep": "last", "patience": 0}
LOSSES = ("margin", "sampled", "softmax")


def config_of(loss, parts, options):
    """The settings of a run; "softmax" is over all entities, "sampled" over some of them."""
    common = {**COMMON, "epochs": options.epochs, "parts": parts}
    if loss == "margin":
        return MarginConfig(negatives=5, **common)
    return SoftmaxConfig(negatives=options.negatives if loss == "sampled" else 0, **common)


def measured(graph, model, dim, config, redeal, folder):
    """The trained model's metrics on test, and seconds of the processor for each epoch."""
    started = time.process_time()
    if config.parts == 1:
        sizes = len(graph.entities), len(graph.relations)
        found = fit(Model.empty(model, dim, *sizes), graph, config).model
    else:
        found = fit_in_parts(family(model), dim, graph, config, folder, redeal=redeal).model
    seconds = (time.process_time() - started) / config.epochs
    return rank_entities(found.scorer, graph, "test").metrics(), seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="fb15k-237,wn18rr")
    parser.add_argument("--losses", default="margin,sampled", help=", ".join(LOSSES))
    parser.add_argument("--model", default="complex")
    parser.add_argument("--dim", type=int, default=50)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--negatives", type=int, default=500, help="of sampled")
    parser.add_argument("--parts", default="1,4,8")
    parser.add_argument("--once", default="4", help="numbers of parts that are also dealt once")
    parser.add_argument("--name", default="parts", help="of the file in results/")
    parser.add_argument("--entities", type=int, default=150_000, help="of the test of memory")
    options = parser.parse_args()
    once = {int(text) for text in options.once.split(",") if text}
    rows = []
    for name in filter(None, options.data.split(",")):
        graph = load_graph(name)
        for loss in options.losses.split(","):
            # To compile, which no time counts.
            few = replace(graph, train=graph.train[:50], test=graph.test[:50])
            measured(few, options.model, options.dim, config_of(loss, 1, options), True, None)
            base = None
            for parts in map(int, options.parts.split(",")):
                for redeal in (True, False) if parts in once and parts > 1 else (True,):
                    config = config_of(loss, parts, options)
                    with tempfile.TemporaryDirectory() as folder:
                        how = graph, options.model, options.dim, config, redeal, Path(folder)
                        metrics, seconds = measured(*how)
                    base = base or (metrics["mrr"], seconds)
                    rows.append(
                        {
                            "data": name,
                            "loss": loss,
                            "parts": f"{parts}" if redeal else f"{parts}, once",
                            "epochs": options.epochs,
                            "MRR": f"{metrics['mrr']:.4f}",
                            "− 1 part": f"{metrics['mrr'] - base[0]:+.4f}",
                            "Hits@10": f"{metrics['hits@10']:.4f}",
                            "s per epoch": seconds,
                            "triples/s, × 1 part": base[1] / seconds,
                        }
                    )
                    show(rows[-1:])
    title = f"{options.model} of dim {options.dim}, {options.negatives} negatives sampled; test"
    peaks = []
    for parts in map(int, options.parts.split(",")):
        sizes = options.entities, 4 * options.entities, parts, 100
        if options.entities:
            command = [sys.executable, "-c", PEAK, *map(str, sizes)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            peaks.append(json.loads(done.stdout))
            show(peaks[-1:])
    finish(options.name, {title: rows, "memory": peaks})


if __name__ == "__main__":
    main()
