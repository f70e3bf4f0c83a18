"""What `bilink train DATA` reaches in a given time, and what `--model complex` does alone.

    python study/presets.py --data kinship umls --minutes 2 10 --out study/results/presets
    python study/presets.py --data wn18rr --models complex complex-reciprocal --out …

Test triples are ranked once, at the end; everything is chosen on validation.  The outcome depends
on what else the machine does, since it decides how many epochs fit into the time.
"""

import argparse
import json
import os
import time
from pathlib import Path

import bilink
from bilink.runs.auto import train_auto
from bilink.runs.job import prepare
from bilink.runs.tuning import tuned


def auto(graph, minutes, seed, say):
    """What is made without a model named."""
    made = train_auto(graph, minutes, seed=seed, say=say)
    members = list(made.run.member_names) or [made.name]
    return made.run, {"members": members, "validation_mrr": made.validation_mrr}


def alone(graph, model, seed, say):
    """A model with its defaults, after the trials that settle its penalty."""
    job = tuned(prepare(graph, model, None, {"seed": seed}), {}, say)
    say(f"estimate: {job.plan().seconds:.0f} s")
    run = job.run(calibrate=False)
    seconds = sum(record["seconds"] for record in run.history)
    return run, {"training_seconds": seconds, "training": run.config.training.to_dict()}


def measured(train, *arguments):
    """Test figures of what is trained, how long that took, and what was said meanwhile."""
    started, said = time.perf_counter(), []

    def say(line):
        print(f"  {line}", flush=True)
        said.append(line)

    run, more = train(*arguments, say)
    spent = (time.perf_counter() - started) / 60
    test = bilink.rank_entities(run.scorer, run.graph).metrics()
    figures = {name: test[name] for name in ("mrr", "hits@1", "hits@10", "mr")}
    load = os.getloadavg()[1] if hasattr(os, "getloadavg") else None
    return {"minutes": spent, **figures, **more, "load": load, "said": said}


def main():
    """Print a line for each run, and write a file for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", default=["kinship", "umls"])
    parser.add_argument("--minutes", type=float, nargs="*", default=[])
    parser.add_argument("--models", nargs="*", default=[], help="models to train alone")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for data in options.data:
        graph = bilink.load_graph(data)
        runs = [(f"auto-{minutes:g}m", auto, minutes) for minutes in options.minutes]
        runs += [(model, alone, model) for model in options.models]
        for name, train, how in runs:
            print(f"{data}, {name}", flush=True)
            row = measured(train, graph, how, options.seed)
            print(f"{data}, {name}: test MRR {row['mrr']:.4f}, {row['minutes']:.1f} min")
            report = {"data": data, "way": name, "seed": options.seed, **row}
            file = options.out / f"{data}-{name}.json"
            file.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
