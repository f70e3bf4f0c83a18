"""What paths add to TransE on FB15K: the row of PTransE (Lin et al., 2015).

    python study/ptranse.py [--set path_rate=0.1 ...] [--valid] [--out FILE]

Trains TransE with the path loss and without it, with the same settings and seed.  Each is ranked
alone, and with what flows along paths added, weighed on valid.  ``--valid`` leaves test alone, for
choosing settings.  Those of training are TransE's in ``records.toml``, shortened.
"""

import argparse
import json
import time
from pathlib import Path

import bilink
from bilink.evaluation.entity_ranking import VALIDATION_FILTER, rank_entities
from bilink.runs.ptranse import prepare_ptranse

OUT = Path(__file__).parent / "results" / "paths" / "fb15k-ptranse.json"
DATA, DIM = "fb15k", 200
SETTINGS = {
    "loss": "softmax",
    "epochs": 20,
    "negatives": 1000,
    "full_epochs": 2,
    "rounding": 4e-3,
    "queries": "weighted",
    "answers_per_query": 4,
    "batch_size": 400,
    "init_scale": 1e-3,
    "learning_rate": 1.0,
    "decay": 0.88,
    "distance": "plain",
    "validation_triples": 2000,
    "validate_every": 5,
    "patience": 0,
    "keep": "last",
    "seed": 0,
    "length": 2,
    "path_rate": 0.1,
}


def measure(graph, settings, splits, progress=print):
    """Train once; rank the translations alone, and with paths."""
    started = time.perf_counter()
    job = prepare_ptranse(graph, DIM, settings, say=progress)
    counted = time.perf_counter()

    def report(record):
        if "validation_mrr" in record:
            minutes = (time.perf_counter() - counted) / 60
            mrr = record["validation_mrr"]
            progress(f"epoch {record['epoch']}: {mrr:.4f}, {minutes:.1f} min")

    run = job.run(on_epoch=report)
    minutes = (time.perf_counter() - started) / 60
    found = {
        "settings": settings,
        "paths": len(job.loss.rules.paths),
        "minutes_of_counting": round((counted - started) / 60, 2),
        "minutes": round(minutes, 2),
    }
    for name, scorer in (("alone", run.models["transe"].scorer), ("with paths", run.scorer)):
        found[name] = {}
        for split in splits:
            filters = {"filter": VALIDATION_FILTER} if split == "valid" else {}
            ranking = rank_entities(scorer, graph, split, **filters).to_dict()
            ranking.pop("categories")
            found[name][split] = ranking
            both = {key: round(value, 4) for key, value in ranking["both"].items()}
            progress(f"{name}, {split}: {both}")
    return found


def main():
    """Measure with the path loss and without it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--valid", action="store_true", help="leave test alone")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    settings = {**SETTINGS, **dict(pair.split("=", 1) for pair in options.set)}
    graph = bilink.load_graph(DATA)
    command = "python study/ptranse.py" + "".join(f" --set {pair}" for pair in options.set)
    found = {"data": DATA, "dim": DIM, "command": command}
    splits = ("valid",) if options.valid else ("valid", "test")
    for name, rate in (("ptranse", settings["path_rate"]), ("transe", 0)):
        found[name] = measure(graph, {**settings, "path_rate": rate}, splits)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
