"""Triple classification as Socher et al. (2013) did it: WN11 and FB13 with their false triples.

    python study/classification.py --data wn11 --models transe ntn --out DIR

Each model is trained with each of its settings.  Every few epochs, thresholds are chosen on the
validation split, and the model with the best accuracy there is kept.  The setting that is best on
validation classifies the test split, once.  One file is written for each graph and model; it has
all settings that were tried.
"""

import argparse
import json
import sys
import time
from functools import partial
from pathlib import Path

import bilink
from bilink.models.model import Model
from bilink.models.registry import family
from bilink.training.config import MarginConfig
from bilink.training.loop import fit

COMMON = {"corrupt": "bernoulli", "negatives": 1, "validate_every": 10, "patience": 3}
DISTANCE = [
    {"dim": 50, "margin": 2.0, "constraint": "ball", "plausible": 0.5},
    {"dim": 50, "margin": 4.0, "constraint": "ball", "plausible": 0.5},
    {"dim": 50, "margin": 2.0, "constraint": "ball", "plausible": 1.0},
    {"dim": 50, "margin": 1.0, "constraint": "sphere", "plausible": 0.5},
]
PRODUCT = [
    {"dim": 50, "loss": "sigmoid-margin", "margin": 0.5, "constraint": "ball", "plausible": 0.5},
    {"dim": 50, "loss": "sigmoid-margin", "margin": 0.5, "constraint": "ball", "plausible": 1.0},
]
FEW = DISTANCE[0], DISTANCE[2]
SETTINGS = {
    "transe": DISTANCE,
    "transe-l1": DISTANCE,
    "transh": FEW,
    "transr": [{**setting, "dim": 20, "learning_rate": 0.01} for setting in FEW],
    "transg": [*FEW, {"dim": 50, "margin": 1.0, "constraint": "ball", "plausible": 0.5}],
    "distmult": PRODUCT,
    "complex": [{**setting, "dim": 25} for setting in PRODUCT],
    "rescal": [{**setting, "dim": 20} for setting in PRODUCT],
    "ntn": [
        {"dim": 20, "margin": 1.0, "constraint": "ball", "plausible": 0.5},
        {"dim": 20, "margin": 1.0, "constraint": "ball", "regularization.relation": 1e-3},
    ],
}


def accuracy(graph, model):
    """The share of validation triples that are classified rightly."""
    present = Model(model.family, model.dim, model.entities, model.relations)
    return bilink.classify_triples(present.score, graph, "valid").metrics()["accuracy"]


def trained(graph, name, setting, seed, epochs, threads, begin=None):
    """The model with the best accuracy on validation, that accuracy, and its epoch."""
    options = {key: value for key, value in setting.items() if key != "dim"}
    given = {**COMMON, **options, "epochs": epochs, "seed": seed, "threads": threads}
    config = MarginConfig().with_options(given)
    sizes = len(graph.entities), len(graph.relations)
    model = Model.empty(name, setting["dim"], *sizes)
    found = fit(model, graph, config, validate=partial(accuracy, graph), begin=begin)
    return found.model, found.progress


def start_of(graph, name, setting, *how):
    """What starts a TransR, as its authors do: a TransE of the same setting, but for its steps."""
    if name != "transr":
        return None
    same = {key: value for key, value in setting.items() if key != "learning_rate"}
    base, _ = trained(graph, "transe", same, *how)

    def begin(model):
        model.entities[:] = base.entities
        family(name).begin(model.relations, base.relations)

    return begin


def study(graph, data, name, seed, epochs, threads):
    """Train a model with all its settings, and classify test with the best one."""
    tried, best = [], None
    for setting in SETTINGS[name]:
        started = time.perf_counter()
        begin = start_of(graph, name, setting, seed, epochs, threads)
        model, progress = trained(graph, name, setting, seed, epochs, threads, begin)
        row = {
            "setting": setting,
            "valid_accuracy": round(progress.best_mrr, 4),
            "epoch": progress.best_epoch,
            "minutes": round((time.perf_counter() - started) / 60, 2),
        }
        tried.append(row)
        print(f"{data} {name}: {row}", flush=True)
        if best is None or progress.best_mrr > best[0]:
            best = progress.best_mrr, model, row
    found = bilink.classify_triples(best[1].score, graph, "test").to_dict()
    return {
        "data": data,
        "model": name,
        "test_accuracy": round(found["accuracy"], 4),
        "chosen": best[2],
        "seed": seed,
        "threads": threads,
        "command": " ".join(["python", *sys.argv]),
        "common": {**COMMON, "epochs": epochs},
        "tried": tried,
        "protocol": found["protocol"],
        "true_triples": found["true_triples"],
        "false_triples": found["false_triples"],
        "graph": found["graph"],
    }


def main():
    """Write a file for each graph and model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", default=["wn11", "fb13"])
    parser.add_argument("--models", nargs="+", default=list(SETTINGS))
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for data in options.data:
        graph = bilink.load_graph(data)
        for name in options.models:
            found = study(graph, data, name, options.seed, options.epochs, options.threads)
            path = options.out / f"{data}-{name}.json"
            path.write_text(json.dumps(found, indent=1) + "\n")
            print(f"{data} {name}: test accuracy {found['test_accuracy']:.3f}", flush=True)


if __name__ == "__main__":
    main()
