"""Filtered entity ranking of the test split, against its bare matrix products and PyKEEN.

The bare products are blocks of queries times all entities, in the same threads, without looking at
the result: in whole rows or in tiles, whichever is faster.  PyKEEN ranks a part of the triples with
the same embeddings, and its time is scaled up; its MRR on that part is printed beside ours.
"""

import argparse
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from common import ask_peer, best_time, finish, show
from threadpoolctl import threadpool_limits

from bilink import Model, load_graph, rank_entities
from bilink.evaluation.ranks import MEMORY_BUDGET, block_size


def random_model(graph, name, dim):
    model = Model.empty(name, dim, len(graph.entities), len(graph.relations))
    random = np.random.default_rng(0)
    for array in (model.entities, model.relations):
        random.standard_normal(out=array, dtype=np.float32)
    return model


def bare_products(scorer, queries, columns, threads=2):
    """Multiply blocks of queries by all candidates, some at once, and throw the scores away."""
    size, threads = block_size(scorer, MEMORY_BUDGET, threads)
    blocks = [queries[i : i + size] for i in range(0, len(queries), size)]

    def work(mine):
        buffer = np.empty(size * columns, dtype=np.float32)
        for block in mine:
            for first in range(0, scorer.n_entities, columns):
                part = scorer.candidates[first : first + columns]
                out = buffer[: len(block) * len(part)].reshape(len(block), len(part))
                np.matmul(block, part.T, out=out)

    with threadpool_limits(1, "blas"), ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, [blocks[i::threads] for i in range(threads)]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="wn18,fb15k")
    parser.add_argument("--models", default="transe,distmult,complex")
    parser.add_argument("--dim", type=int, default=200, help="real numbers per entity")
    parser.add_argument("--peer-triples", type=int, default=500)
    options = parser.parse_args()
    rows = []
    for data in options.data.split(","):
        graph = load_graph(data)
        for name in options.models.split(","):
            dim = options.dim // 2 if name == "complex" else options.dim
            model = random_model(graph, name, dim)
            scorer = model.scorer
            rank_entities(scorer, graph, triples=graph.test[:10])  # compile
            random = np.random.default_rng(1)
            queries = random.normal(size=(2 * len(graph.test), scorer.width)).astype(np.float32)
            repeat = 5 if data.startswith("wn") else 2
            bare = min(
                best_time(lambda q=queries, s=scorer, c=columns: bare_products(s, q, c), repeat)
                for columns in (scorer.n_entities, 4096)
            )
            ours = best_time(lambda s=scorer, g=graph: rank_entities(s, g), repeat)
            part = graph.test[: options.peer_triples]
            arrays = {split: graph.split(split) for split in ("train", "valid", "test")}
            arrays |= {"entities": model.entities, "relations": model.relations}
            arrays["sizes"] = [len(graph.entities), len(graph.relations)]
            question = {"name": name, "triples": len(part), "batch_size": 32}
            peer = ask_peer("pykeen_ranking.py", arrays, **question)
            scaled = peer["seconds"] * len(graph.test) / len(part)
            rows.append(
                {
                    "data": data,
                    "model": name,
                    "bare products s": bare,
                    "bilink s": ours,
                    "× bare": ours / bare,
                    "GFLOP/s": 4e-9 * len(graph.test) * scorer.n_entities * scorer.width / bare,
                    "PyKEEN s": scaled,
                    "PyKEEN ×": scaled / ours,
                    "MRR": f"{rank_entities(scorer, graph, triples=part).metrics()['mrr']:.6f}",
                    "PyKEEN MRR": f"{peer['mrr']:.6f}",
                }
            )
            show(rows[-1:])
    finish("ranking_speed", {"filtered ranking of the test split": rows})


if __name__ == "__main__":
    main()
