"""R-GCN and R-GCN+ (Schlichtkrull et al., 2018) on WN18 and FB15K.

    python study/rgcn.py --data wn18 --epochs 60 [--valid] [--out FILE] [--runs FOLDER]

Trains R-GCN with each of its settings; the one with the best validation MRR is ranked on test,
once.  R-GCN+ is its ensemble with a DistMult that is trained alone, weighed on validation.  Runs
are kept in a folder and gone on with when the study is called again.  ``--valid`` leaves test
alone.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import bilink
from bilink.evaluation.entity_ranking import VALIDATION_FILTER, rank_entities
from bilink.runs.combined import combine
from bilink.runs.job import prepare

OUT = Path(__file__).parent / "results" / "rgcn"
PUBLISHED = {  # filtered
    "wn18": {"rgcn": {"mrr": 0.814}, "rgcn+": {"mrr": 0.819, "hits@10": 0.964}},
    "fb15k": {"rgcn": {"mrr": 0.651}, "rgcn+": {"mrr": 0.696, "hits@10": 0.842}},
}
COMMON = {"validation_triples": 1000, "patience": 0, "threads": 1}
SETTINGS = [{"learning_rate": 0.05}, {"learning_rate": 0.01}]
# A softmax over a thousand negatives; the weight of N3 is that of study/records.toml.
DISTMULT = {"epochs": 12, "negatives": 1000, "validate_every": 4, "patience": 0, "threads": 1}
PENALTY = {"wn18": 0.0003, "fb15k": 0.006}


def trained(graph, model, dim, options, folder, **how):
    """A run that is read, gone on with or made; what it took, and its validation MRR."""
    job = prepare(graph, model, dim, options, **how)

    def report(record):
        if "validation_mrr" in record:
            epoch, mrr = record["epoch"], record["validation_mrr"]
            print(f"{folder.name}: epoch {epoch}, validation MRR {mrr:.4f}", flush=True)

    before = time.process_time()
    run = job.run_or_read(folder, on_epoch=report)
    if time.process_time() - before > 1:
        with (folder.parent / f"{folder.name}.seconds").open("a") as file:
            file.write(f"{time.process_time() - before}\n")
    seconds = map(float, (folder.parent / f"{folder.name}.seconds").read_text().split())
    row = {
        "options": options,
        "validation_mrr": round(run.progress.best_mrr, 4),
        "epoch": run.progress.best_epoch,
        "epochs": len(run.history),
        "minutes": round(sum(record["seconds"] for record in run.history) / 60, 1),
        "processor_minutes": round(sum(seconds) / 60, 1),
    }
    return run, row


def ranked(run, graph, splits):
    """Metrics of both sides together, on each split."""
    found = {}
    for split in splits:
        filters = {"filter": VALIDATION_FILTER} if split == "valid" else {}
        both = rank_entities(run.scorer, graph, split, **filters).to_dict()["both"]
        found[split] = {key: round(both[key], 4) for key in ("mrr", "mr", "hits@1", "hits@10")}
    return found


def study(data, dim, epochs, seed, settings, runs, splits):
    """R-GCN with its best setting, DistMult, and both together."""
    graph = bilink.load_graph(data)
    tried, best = [], None
    every = max(1, epochs // 12)
    for setting in settings:
        options = {**COMMON, "validate_every": every, "epochs": epochs, "seed": seed, **setting}
        name = "-".join([data, "rgcn", str(dim), *map(str, setting.values())])
        run, row = trained(graph, "rgcn", dim, options, runs / name)
        tried.append(row)
        if best is None or row["validation_mrr"] > best[1]["validation_mrr"]:
            best = run, row
    penalty = {f"regularization.{x}": PENALTY[data] for x in ("entity", "relation")}
    options = {**DISTMULT, "seed": seed, **penalty}
    other, row = trained(
        graph, "distmult", dim, options, runs / f"{data}-distmult-{dim}", preset="sampled"
    )
    both = combine([best[0], other])
    made = {"rgcn": best[0], "distmult": other, "rgcn+": both}
    return {
        "data": data,
        "dim": dim,
        "seed": seed,
        "command": " ".join(["python", *sys.argv]),
        "graph": graph.fingerprint,
        "chosen": best[1],
        "tried": tried,
        "distmult": row,
        "found": {name: ranked(run, graph, splits) for name, run in made.items()},
        "published": PUBLISHED[data],
    }


def main():
    """Write a file for a graph."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", choices=list(PUBLISHED), default="wn18")
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rates", type=float, nargs="+", help="learning rates to try")
    parser.add_argument("--valid", action="store_true", help="leave test alone")
    parser.add_argument("--runs", type=Path, default=Path("runs/rgcn"))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    options.runs.mkdir(parents=True, exist_ok=True)
    settings = [{"learning_rate": x} for x in options.rates] if options.rates else SETTINGS
    splits = ("valid",) if options.valid else ("valid", "test")
    how = (options.seed, settings, options.runs, splits)
    found = study(options.data, options.dim, options.epochs, *how)
    path = options.out or OUT / f"{options.data}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found["found"], indent=1))


if __name__ == "__main__":
    main()
