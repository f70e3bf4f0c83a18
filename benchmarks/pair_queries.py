"""The 100 best new pairs of a relation, (?, r, ?), against the bare products of all pairs.

The bare products are all queries times all candidates, without looking at the scores, in the same
threads; they are timed on a part of the heads, just before and just after each search, and scaled.
The rows of some heads are compared with the result: no pair that is missing may score higher.
"""

import argparse
import resource
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from common import finish, show
from threadpoolctl import threadpool_limits

from bilink import load
from bilink.queries.pairs import PairSearch

ROWS = 256


def bare_seconds(scorer, relation, threads, blocks=4):
    """Seconds that the products of all pairs take, from ``blocks`` blocks of heads per thread."""
    heads = np.arange(ROWS * blocks) % scorer.n_entities
    queries = scorer.fact_queries(heads, np.full_like(heads, relation))

    def work(_):
        out = np.empty((ROWS, scorer.n_entities), dtype=scorer.dtype)
        for start in range(0, len(queries), ROWS):
            np.matmul(queries[start : start + ROWS], scorer.candidates.T, out=out)

    started = time.perf_counter()
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))
    return (time.perf_counter() - started) * scorer.n_entities / (len(queries) * threads)


def missed(scorer, relation, found, facts, heads):
    """How many pairs of these heads score higher than the last one found, and are not there."""
    n = scorer.n_entities
    queries = scorer.fact_queries(heads, np.full_like(heads, relation)).astype(np.float64)
    scores = queries @ scorer.candidates.T.astype(np.float64)
    rows, tails = np.nonzero(scores > found.scores[-1] + 1e-9 * abs(found.scores[-1]))
    better = heads[rows] * n + tails
    better = better[heads[rows] != tails]
    return len(np.setdiff1d(better, np.concatenate([facts, found.heads * n + found.tails])))


def measure(run, relations, k, threads):
    scorer, n = run.scorer, run.scorer.n_entities
    search = PairSearch(scorer, threads=threads)
    search.best(int(relations[0]), k, loops=False, seeds=np.arange(2))  # compile
    triples = run.graph.triples.astype(np.int64)
    rows = []
    for relation in relations.tolist():
        of_it = triples[triples[:, 1] == relation]
        facts = np.sort(of_it[:, 0] * n + of_it[:, 2])
        bare = bare_seconds(scorer, relation, threads)
        started = time.perf_counter()
        found = search.best(relation, k, leave_out=facts, loops=False, seeds=of_it[:, 0])
        ours = time.perf_counter() - started
        bare = (bare + bare_seconds(scorer, relation, threads)) / 2
        likely = np.unique(np.concatenate([found.heads[:20], np.arange(0, n, n // 40)]))
        rows.append((bare, ours, missed(scorer, relation, found, facts, likely)))
    return np.array(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, help="folders of trained runs")
    parser.add_argument("--relations", type=int, default=25, help="how many, spread by frequency")
    parser.add_argument("-k", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    rows = []
    for path in options.runs:
        run = load(path)
        counts = np.bincount(run.graph.train[:, 1], minlength=len(run.graph.relations))
        order = np.argsort(-counts, kind="stable")
        chosen = order[
            np.linspace(0, len(order) - 1, min(options.relations, len(order))).astype(int)
        ]
        found = measure(run, chosen, options.k, options.threads)
        ratios = found[:, 0] / found[:, 1]
        rows.append(
            {
                "data": run.graph.name,
                "model": run.model.family.name,
                "width": run.scorer.width,
                "relations": f"{len(chosen)} of {len(order)}",
                "bare products s": float(np.median(found[:, 0])),
                "bilink s": float(np.median(found[:, 1])),
                "× faster, median": float(np.median(ratios)),
                "least": float(ratios.min()),
                "most": float(ratios.max()),
                "missed pairs": int(found[:, 2].sum()),
                "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
            }
        )
        show(rows[-1:])
    finish("pair_queries", {f"the {options.k} best new pairs of a relation": rows})


if __name__ == "__main__":
    main()
