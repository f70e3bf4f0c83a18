"""What paths alone reach on the benchmark graphs: the rows of rule learners and Gaifman models.

    python study/paths.py --data wn18,fb15k,wn18rr,fb15k-237 [--short | --compare] [--out FOLDER]

Rules are mined on train and weighed on valid; test is ranked once.  ``--short`` counts paths of one
and two steps only, without constants, aggregated by the best rule: seconds, and nothing is learnt.
``--compare`` compares the aggregations on valid, each half weighed on the other; test is not used.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

import bilink
from bilink.ensembles.aggregation import fit_aggregation
from bilink.evaluation.entity_ranking import VALIDATION_FILTER, rank_entities
from bilink.paths.clusters import clustered
from bilink.paths.mining import mine
from bilink.paths.scorer import PathScorer, fixed_weights
from bilink.runs.paths import train_paths

OUT = Path(__file__).parent / "results" / "paths"
SHORT = {"length": 2, "constants": False, "aggregation": "max"}
COMPARED = ("max", "sum", "noisy-or", "clusters", "learnt", "auto")


def measure(data, short=False, progress=print):
    """Mine, weigh and rank one graph."""
    graph = bilink.load_graph(data)
    moments = [time.perf_counter()]

    def say(text):
        moments.append(time.perf_counter())
        progress(f"{data}: {text}")

    run = train_paths(graph, SHORT if short else {}, calibrate=False, say=say)
    started = time.perf_counter()
    ranking = run.evaluate("test")
    found = ranking.to_dict()
    found.pop("categories")
    return {
        "data": data,
        "command": f"python study/paths.py --data {data}" + (" --short" if short else ""),
        "mining": run.config.mining.to_dict(),
        "aggregation": run.config.aggregation,
        "paths": len(run.model.rules.paths),
        "rules_with_constants": len(run.model.rules.constants),
        "hubs": run.model.rules.hubs,
        "seconds_of_mining": round(moments[1] - moments[0], 1),
        "seconds_of_weighing": round(moments[2] - moments[1], 1),
        "seconds_of_ranking": round(time.perf_counter() - started, 1),
        "test": found,
    }


def compare(data, progress=print):
    """The validation MRR of each aggregation, of halves that it was not weighed on."""
    graph = bilink.load_graph(data)
    rules = clustered(mine(graph), graph)
    scorer = PathScorer(rules, graph, fixed_weights("max", len(graph.relations)))
    order = np.random.default_rng(0).permutation(len(graph.valid))
    halves = [graph.valid[order[i::2]] for i in range(2)]
    found = {}
    for name in COMPARED:
        parts = []
        for weighed, ranked in (halves, halves[::-1]):
            weights, chosen = fit_aggregation(scorer, replace(graph, valid=weighed), name)
            ranking = rank_entities(
                scorer.with_weights(weights),
                graph,
                "valid",
                filter=VALIDATION_FILTER,
                triples=ranked,
            )
            parts.append(ranking.metrics()["mrr"])
        found[name] = float(np.mean(parts))
        progress(f"{data}, {name}: {found[name]:.4f}")
    names = chosen["head"] + chosen["tail"]
    return {
        "data": data,
        "command": f"python study/paths.py --data {data} --compare",
        "mining": rules.config.to_dict(),
        "clusters": len(np.unique(rules.clusters)),
        "paths": len(rules.paths),
        "validation_mrr": found,
        "chosen_by_auto": {name: names.count(name) for name in COMPARED if name in names},
    }


def main():
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", default="wn18,wn18rr,fb15k-237,fb15k")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for data in options.data.split(","):
        if options.compare:
            text = json.dumps(compare(data), indent=1) + "\n"
            (options.out / f"{data}-aggregations.json").write_text(text, encoding="utf-8")
            continue
        found = measure(data, options.short)
        name = f"{data}-short.json" if options.short else f"{data}.json"
        (options.out / name).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        both = {key: round(value, 4) for key, value in found["test"]["both"].items()}
        seconds = {key: value for key, value in found.items() if key.startswith("seconds")}
        print(data, both, seconds, flush=True)


if __name__ == "__main__":
    main()
