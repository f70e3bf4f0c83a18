"""Models of several forms: a margin step against TransE's, ranking against bare products.

    python benchmarks/readout_speed.py

The claims: a margin step of TransH takes at most 2 times as long as one of TransE, and ranking k
forms takes at most 1.3 times as long as k matrix products of the same queries and candidates.  All
ways are timed in turn, several times, and the least times are compared.
"""

import argparse

import numpy as np
from common import best_time, finish

import bilink
from bilink._threads import single_threaded_blas
from bilink.models.model import Model
from bilink.models.ntn import SLICES
from bilink.models.transg import COMPONENTS
from bilink.training.config import MarginConfig
from bilink.training.loop import initialise
from bilink.training.margin import MarginEngine

FORMS = {"transe": 1, "transh": 2, "transg": COMPONENTS, "ntn": SLICES}
QUERIES = 256


def steps(graph, dim, negatives):
    """Seconds of an epoch of each model, whose margin is always violated, in turns."""
    engines, times = {}, {}
    config = MarginConfig(threads=1, margin=1e6, learning_rate=1e-6, negatives=negatives)
    for name in ("transe", "transh", "transg", "transr", "ntn"):
        model = Model.empty(name, dim, len(graph.entities), len(graph.relations))
        initialise(model, config)
        engines[name] = MarginEngine(model, graph, config)
        engines[name].run_epoch(0)  # compiles
    for _ in range(3):
        for name, engine in engines.items():
            took = best_time(lambda engine=engine: engine.run_epoch(1), 1)
            times[name] = min(took, times.get(name, took))
    return [
        {
            "model": name,
            "dim": dim,
            "negatives": negatives,
            "microseconds a step": round(1e6 * took / len(graph.train), 2),
            "of TransE": round(took / times["transe"], 2),
        }
        for name, took in times.items()
    ]


def rankings(n_entities, dim):
    """Seconds of the scores of a block of queries, and of as many bare products, in turns."""
    random, rows = np.random.default_rng(0), []
    for name, forms in FORMS.items():
        model = Model.empty(name, dim, n_entities, 3)
        for array in (model.entities, model.relations):
            random.standard_normal(out=array, dtype=np.float32)
            array *= 0.1
        scorer = model.scorer
        queries = scorer.queries("tail", np.arange(QUERIES), np.zeros(QUERIES, dtype=np.int64))
        out = np.empty((QUERIES, n_entities), dtype=np.float32)
        left = random.standard_normal((QUERIES, dim), dtype=np.float32)
        right = random.standard_normal((n_entities, dim), dtype=np.float32)

        def scores(scorer=scorer, queries=queries, out=out):
            scorer.query_scores(queries, out)

        def products(forms=forms, left=left, right=right, out=out):
            for _ in range(forms):
                np.matmul(left, right.T, out=out)

        times = [np.inf, np.inf]
        with single_threaded_blas():  # as in ranking, where threads have blocks of their own
            for _ in range(8):
                for i, way in enumerate((scores, products)):
                    times[i] = min(times[i], best_time(way, 1))
        rows.append(
            {
                "model": name,
                "forms": forms,
                "dim": dim,
                "of so many bare products": round(times[0] / times[1], 2),
            }
        )
    return rows


def main():
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="fb15k-237")
    options = parser.parse_args()
    graph = bilink.load_graph(options.data)
    finish(
        "readout_speed",
        {
            "margin steps": [row for n in (1, 5) for row in steps(graph, 100, n)],
            "ranking": [r for d in (100, 200) for r in rankings(len(graph.entities), d)],
        },
    )


if __name__ == "__main__":
    main()
