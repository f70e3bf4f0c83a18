"""Softmax training of ComplEx on FB15K: an epoch against its bare matrix products, and peers.

The products of a batch are Q Cᵀ, G C and Gᵀ Q, of the same sizes and in the same library, with
nothing between them, for two questions per fact.  bilink asks these too, or, as its presets do,
equal questions once ("weighted"), which is the same objective in fewer products; how many fewer,
only a whole epoch tells, so that these rows are of one.  The peers get the same batches: PyKEEN's
LCWA loop scores all entities, its sLCWA loop as many negatives per triple; the plain torch loop is
what LibKGE does (one product, one cross-entropy, autograd, Adagrad), with the same negatives.
"""

import argparse
import time
from functools import cache

import numpy as np
from common import ask_peer, finish, show

from bilink import load_graph
from bilink.runs.job import prepare
from bilink.training.loop import initialise
from bilink.training.softmax import SoftmaxEngine


def ours(graph, facts, options):
    """An epoch over ``facts`` of the training triples, ready to be timed."""
    job = prepare(graph, "complex", 100, {"loss": "softmax", **options})
    part = type(graph)(
        graph.name, graph.entities, graph.relations, graph.train[:facts], graph.valid, graph.test
    )
    model = job._empty()
    initialise(model, job.config.training)
    engine = SoftmaxEngine(model, part, job.config.training)
    engine.run_epoch(0)
    return lambda: engine.run_epoch(1)


def products(graph, facts, batch, candidates):
    """The three products of all batches of an epoch, ready to be timed."""
    random = np.random.default_rng(0)
    queries = random.normal(size=(batch, 200)).astype(np.float32)
    entities = random.normal(size=(candidates, 200)).astype(np.float32)
    scores = np.empty((batch, candidates), np.float32)
    back, slopes = np.empty_like(queries), np.empty_like(entities)

    def epoch():
        for _ in range(-(-2 * facts // batch)):
            np.matmul(queries, entities.T, out=scores)
            np.matmul(scores, entities, out=back)
            np.matmul(scores.T, queries, out=slopes)

    epoch()
    return epoch


def best_in_turn(*works, times=4):
    """The shortest time of each, taken in turn, so that a slow moment hits all of them."""
    found = [float("inf")] * len(works)
    for _ in range(times):
        for i, work in enumerate(works):
            started = time.perf_counter()
            work()
            found[i] = min(found[i], time.perf_counter() - started)
    return found


@cache
def speed_of(peer, graph, negatives, batch):
    """Facts per second of a peer."""
    arrays = {"train": graph.train, "sizes": [len(graph.entities), len(graph.relations)]}
    question = {"peer": peer, "negatives": negatives, "batch": batch}
    return ask_peer("softmax_training.py", arrays, **question)["speed"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--facts", type=int, default=20_000, help="training triples in an epoch")
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--no-peers", action="store_true")
    options = parser.parse_args()
    graph = load_graph("fb15k")
    count, facts, batch = len(graph.entities), options.facts, options.batch
    rows = []
    once = {"queries": "weighted", "answers_per_query": 4}
    ways = (
        ("all entities", {"negatives": 0}, 1.4),
        ("all entities, weighted", {"negatives": 0, **once}, 1.4),
        ("all entities, rounding 0.004", {"negatives": 0, "rounding": 0.004}, 1.4),
        (
            "all entities, rounding 0.004, weighted",
            {"negatives": 0, "rounding": 0.004, **once},
            1.4,
        ),
        ("1,000 shared negatives", {"negatives": 1000}, 2),
        ("1,000 shared negatives, weighted", {"negatives": 1000, **once}, 2),
        (
            "1,000 shared negatives, weighted, rounding 0.02",
            {"negatives": 1000, "rounding": 0.02, **once},
            2,
        ),
    )
    for title, how, limit in ways:
        negatives = how["negatives"]
        own = facts if "queries" not in how else len(graph.train)
        how = {"queries": "per-fact", "answers_per_query": 0, **how}
        mine, bare = best_in_turn(
            ours(graph, own, {"batch_size": batch, **how}),
            products(graph, facts, batch, negatives or count),
            times=4 if own == facts else 2,
        )
        mine, bare = mine / own, bare / facts
        row = {"candidates": title, "facts/s": 1 / mine, "× products": mine / bare}
        row["goal"] = limit
        if not options.no_peers:
            for peer in ("pykeen", "torch"):
                speed = speed_of(peer, graph, negatives, batch)
                row[f"{peer} facts/s"] = speed
                row[f"× {peer}"] = 1 / mine / speed
        rows.append(row)
        show(rows[-1:])
    finish("softmax_speed", {"an epoch of softmax training, ComplEx, FB15K, 200 numbers": rows})


if __name__ == "__main__":
    main()
