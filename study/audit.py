"""Plant errors in a graph, and see whether an audit finds them.

    python study/audit.py --data atlas --out study/results/audit/atlas.json
    python study/audit.py --data fb15k-237 --epochs 20 --out study/results/audit/fb15k-237.json

A share of the training facts gets another head or tail: any entity (random), or one that stands in
that position of the relation elsewhere (typed).  Facts are then ranked by doubt with three methods:
by the raw score of a model trained on all of them, by the raw score of a model that did not see the
fact (cross-fitting), and as ``bilink audit`` does, with cross-fitting, rules and all evidence.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

import bilink
from bilink.evaluation.metrics import binary_metrics
from bilink.queries.doubts import doubt_facts
from bilink.runs.audit import cross_fit, fold_scorers

SETTINGS = [(share, kind) for share in (0.01, 0.05) for kind in ("random", "typed")]


def plant(graph, share, kind, seed):
    """The graph with errors, and which of its training facts they are."""
    random = np.random.default_rng([seed, 101])
    rows = np.sort(random.choice(len(graph.train), round(share * len(graph.train)), replace=False))
    wrong = bilink.sample_negatives(
        graph, graph.train[rows], [seed, 102], plausible=kind == "typed"
    )
    train = graph.train.copy()
    train[rows] = wrong
    planted = np.zeros(len(train), dtype=bool)
    planted[rows] = True
    _, first = np.unique(train, axis=0, return_index=True)  # the same error may be planted twice
    first.sort()
    return replace(graph, train=train[first]), planted[first]


def measures(values, planted):
    """How well doubts find what was planted."""
    k, order = int(planted.sum()), np.argsort(-values, kind="stable")
    return {
        "precision@k": float(planted[order[:k]].mean()),
        "recall@2k": float(planted[order[: 2 * k]].sum() / k),
        "auc": binary_metrics(planted, values)["auc"],
    }


def main():
    """Print a line for each method and setting, and write them all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="atlas")
    parser.add_argument("--model", default="complex")
    parser.add_argument("--dim", type=int, default=50)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    clean = bilink.load_graph(options.data)
    settings = {name: value for name, value in vars(options).items() if name != "out"}
    found = {**settings, "graph": clean.fingerprint, "settings": []}
    for share, kind in SETTINGS:
        graph, planted = plant(clean, share, kind, options.seed)
        started = time.perf_counter()
        training = {"epochs": options.epochs, "threads": options.threads}
        run = bilink.train(graph, options.model, options.dim, options=training)
        fitted = cross_fit(run, options.folds)
        fold = fitted.fold[: len(graph.train)]
        unseen = np.empty(len(graph.train))
        for i, part in enumerate(fitted.runs):
            unseen[fold == i] = part.scorer.score(graph.train[fold == i])
        doubts = doubt_facts(graph, fold_scorers(graph, fitted), fitted.fold, k=1)
        methods = {
            "score, in sample": -run.scorer.score(graph.train).astype(float),
            "score, cross-fitted": -unseen,
            "audit": doubts.values[: len(graph.train)],
        }
        results = {name: measures(values, planted) for name, values in methods.items()}
        row = {"share": share, "kind": kind, "planted": int(planted.sum()), "facts": len(planted)}
        row |= {"seconds": round(time.perf_counter() - started, 1), "results": results}
        found["settings"].append(row)
        for name, result in results.items():
            numbers = ", ".join(f"{key} {value:.3f}" for key, value in result.items())
            print(f"{options.data} {share:.0%} {kind}, {name}: {numbers}", flush=True)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
