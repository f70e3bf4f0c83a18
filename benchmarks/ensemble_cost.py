"""What a relation-level ensemble costs: ranking with it against its members, and fitting it.

    python benchmarks/ensemble_cost.py
    python benchmarks/ensemble_cost.py --runs runs/rescal runs/hole runs/transe

Members are the given runs of one graph, or models of random numbers: what they score hardly changes
what it costs.  Aims: ranking at most 1.2 times the sum of the members, fitting below two minutes.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from common import best_time, finish

import bilink
from bilink import Model, load_graph, rank_entities
from bilink.data.index import known_answers
from bilink.ensembles.fitting import EnsembleConfig, fit_ensemble


def random_model(name, dim, graph, random):
    model = Model.empty(name, dim, len(graph.entities), len(graph.relations))
    for array in (model.entities, model.relations):
        random.standard_normal(out=array, dtype=np.float32)
        array /= 10
    return model


def random_members(name, dim):
    """A graph and three models of it."""
    graph, random = load_graph(name), np.random.default_rng(0)
    kinds = (("transe", dim), ("hole", dim), ("rescal", min(dim, 100)))
    return name, graph, [random_model(kind, size, graph, random).scorer for kind, size in kinds]


def trained_members(paths):
    """The graph of some runs and their models."""
    runs = [bilink.load(path) for path in paths]
    return runs[0].graph.name, runs[0].graph, [run.model.scorer for run in runs]


def measure(name, graph, members, most):
    """A row on ranking and one on fitting by each method, members' scores included."""
    fitting, made = [], {}
    for method in ("stack", "paper"):
        started = time.perf_counter()
        made[method] = fit_ensemble(members, graph, EnsembleConfig(method=method))
        seconds = time.perf_counter() - started
        on = "valid" if method == "stack" else "train"
        fitting.append(
            {
                "data": name,
                "members": len(members),
                "method": method,
                "fit on": on,
                "triples": len(graph.split(on)),
                "relations": len(graph.relations),
                "seconds": seconds,
            }
        )
    part = graph.test[:most]
    known = known_answers(graph, ("train", "valid", "test"))

    def seconds(scorer):
        return best_time(lambda: rank_entities(scorer, graph, triples=part, known=known))

    alone, together = [seconds(member) for member in members], seconds(made["stack"])
    ranking = {
        "data": name,
        "triples": len(part),
        "members, s": sum(alone),
        "ensemble, s": together,
        "ensemble / members": together / sum(alone),
    }
    return ranking, fitting


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="wn18,fb15k")
    parser.add_argument("--dim", type=int, default=200)
    parser.add_argument("--runs", type=Path, nargs="+", help="trained members, instead of --data")
    parser.add_argument("--triples", type=int, default=20_000, help="at most so many are ranked")
    options = parser.parse_args()
    measure(*random_members("atlas", 4), most=10)  # compiles the kernels
    if options.runs:
        chosen = [trained_members(options.runs)]
    else:
        chosen = (random_members(name, options.dim) for name in options.data.split(","))
    ranking, fitting = [], []
    for members in chosen:
        row, rows = measure(*members, most=options.triples)
        ranking.append(row)
        fitting += rows
    finish("ensemble_cost", {"ranking": ranking, "fitting, members' scores included": fitting})


if __name__ == "__main__":
    main()
