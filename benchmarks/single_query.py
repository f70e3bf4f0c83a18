"""One question (h, r, ?) from Python, against one bare product of a query and all candidates."""

import argparse
import time

import numpy as np
from common import finish
from threadpoolctl import threadpool_limits

from bilink import load


def median_ms(function, repeat=300):
    times = []
    for i in range(repeat):
        started = time.perf_counter()
        function(i)
        times.append(time.perf_counter() - started)
    return 1e3 * float(np.median(times))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", help="folders of trained runs")
    parser.add_argument("-k", type=int, default=10)
    options = parser.parse_args()
    rows = []
    for path in options.runs:
        run = load(path)
        scorer, graph = run.scorer, run.graph
        test = np.random.default_rng(0).permutation(graph.test)[:300]
        asked = [(graph.entities.names[h], graph.relations.names[r]) for h, r, _ in test]
        queries = scorer.queries("tail", test[:, 0], test[:, 1])
        with threadpool_limits(1, "blas"):
            run.query(head=asked[0][0], relation=asked[0][1])  # what is made once
            bare = median_ms(lambda i, s=scorer, q=queries: s.candidates @ q[i % len(q)])
            ours = median_ms(
                lambda i, run=run, asked=asked: run.query(
                    head=asked[i % 300][0], relation=asked[i % 300][1], k=options.k
                )
            )
        rows.append(
            {
                "data": graph.name,
                "model": run.model.family.name,
                "bare product ms": bare,
                "query ms": ours,
                "over 1.5 × bare, ms": ours - 1.5 * bare,
            }
        )
    finish("single_query", {"one question (h, r, ?), medians": rows})


if __name__ == "__main__":
    main()
