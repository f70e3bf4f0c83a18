"""Test MRR after so many minutes of training, with the settings of the records.

    python -m study.time_to_quality --data fb15k --model C \
        --out study/results/records/fb15k/softmax/C/way.json

`bilink study records --tables` then draws it.

Test triples are used for this report only; nothing is chosen by them.  The minutes are those of
training alone.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

import bilink
from bilink.runs.job import prepare
from bilink.training.loop import initialise, make_engine
from study.records import record_settings


def main():
    """Print and write (epoch, minutes, MRR, Hits@10)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="fb15k")
    parser.add_argument("--model", default="C", help="a letter of records.toml")
    parser.add_argument("--every", type=int, default=2, help="epochs between two looks")
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--triples", type=int, default=5000, help="of test, at random")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    settings = record_settings(options.data)[options.model]
    name, dim = settings.pop("model"), settings.pop("dim")
    job = prepare(options.data, name, dim, settings, preset="paper")  # as the study does
    graph, training = job.graph, job.config.training
    random = np.random.default_rng(0)
    sample = graph.test[np.sort(random.permutation(len(graph.test))[: options.triples])]
    model = bilink.Model.empty(name, dim, len(graph.entities), len(graph.relations))
    initialise(model, training)
    engine = make_engine(model, graph, training)
    curve, seconds = [], 0.0
    for epoch in range(training.epochs):
        started = time.perf_counter()
        engine.run_epoch(epoch)
        seconds += time.perf_counter() - started
        if (epoch + 1) % options.every == 0:
            now = replace(model)  # whose scorer is made of the present parameters
            found = bilink.rank_entities(now.scorer, graph, triples=sample).metrics()
            curve.append([epoch + 1, seconds / 60, found["mrr"], found["hits@10"]])
            print("epoch {}: {:.1f} min, MRR {:.3f}, Hits@10 {:.3f}".format(*curve[-1]), flush=True)
        if seconds > 60 * options.minutes:
            break
    head = {"data": options.data, "test_triples": len(sample), "config": job.config.to_dict()}
    columns = {"columns": ["epoch", "minutes", "mrr", "hits@10"], "way": curve}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({**head, **columns}, indent=1) + "\n")


if __name__ == "__main__":
    main()
