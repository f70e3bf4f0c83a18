"""Ranking with a compiled ensemble against ranking with each of its members, and fitting it.

Members are models of random numbers: what they score does not change what it costs.
"""

import argparse
import time

import numpy as np
from common import best_time, finish

from bilink import Model, load_graph, rank_entities
from bilink.data.index import known_answers
from bilink.ensembles.config import EnsembleConfig
from bilink.ensembles.fitting import fit_ensemble
from bilink.ensembles.mixture import MixtureScorer


def random_model(name, dim, graph, random):
    model = Model.empty(name, dim, len(graph.entities), len(graph.relations))
    for array in (model.entities, model.relations):
        random.standard_normal(out=array, dtype=np.float32)
        array /= 10
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="wn18,fb15k")
    parser.add_argument("--dim", type=int, default=200)
    options = parser.parse_args()
    ranking, fitting = [], []
    for name in options.data.split(","):
        graph = load_graph(name)
        random = np.random.default_rng(0)
        members = [
            random_model(model, dim, graph, random).scorer
            for model, dim in (("transe", options.dim), ("hole", options.dim), ("rescal", 100))
        ]
        weights = {side: random.random((len(graph.relations), 3)) for side in ("head", "tail")}
        mixture = MixtureScorer(members, weights)
        part = graph.test[:20_000]
        known = known_answers(graph, ("train", "valid", "test"))

        def rank(scorer, part=part, known=known, graph=graph):
            return rank_entities(scorer, graph, triples=part, known=known)

        alone = [best_time(lambda s=member: rank(s)) for member in members]
        together = best_time(lambda s=mixture: rank(s))
        row = {"data": name, "members, s": sum(alone), "ensemble, s": together}
        ranking.append({**row, "ensemble / members": together / sum(alone)})
        for method in ("stack", "paper"):
            split = "train" if method == "paper" else "valid"
            config = EnsembleConfig(method=method, fit=split)
            fit_ensemble(members, graph, EnsembleConfig(method=method, triples=10))  # compile
            started = time.perf_counter()
            fit_ensemble(members, graph, config)
            seconds = time.perf_counter() - started
            fitting.append({"data": name, "method": method, "fit on": split, "seconds": seconds})
    finish("ensemble_cost", {"ranking": ranking, "fitting, members' scores included": fitting})


if __name__ == "__main__":
    main()
