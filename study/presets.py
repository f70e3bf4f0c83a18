"""What `bilink train DATA` and `--model auto` reach in a given time, against each preset alone.

    python study/presets.py --data atlas kinship umls --minutes 5 --out study/results/presets

Each preset trains its model until its validation MRR rises no more or the time is over; auto has
the same time for all of its models and their ensemble.  Test triples are ranked once, at the end.
The settings of the presets were found on WN18, FB15k-237, the atlas and UMLS; other graphs are new
to them.
"""

import argparse
import json
import time
from pathlib import Path

import bilink
from bilink.runs.auto import EPOCHS, train_auto
from bilink.runs.job import prepare
from bilink.training.presets import PRESETS, choose

MODELS = {"complex": 100, "rescal": 50, "transe": 100}


def ways(graph, others):
    """Auto, each model by its default preset, and ComplEx by others."""
    yield "auto", auto, ()
    for model, dim in MODELS.items():
        default = choose(model, dim, graph, {})
        yield f"{model}, {default} (the default)", alone, (model, dim, default)
        if model == "complex":
            for preset in others:
                if preset != default:
                    yield f"{model}, {preset}", alone, (model, dim, preset)


def auto(graph, minutes):
    """What --model auto keeps."""
    outcome = train_auto(graph, minutes)
    return outcome.run, {"kept": outcome.name}


def alone(graph, minutes, model, dim, preset):
    """A preset's run."""
    options = {"epochs": EPOCHS, "validate_every": 5, "minutes": minutes}
    run = prepare(graph, model, dim, options, preset=preset).run()
    return run, {"epochs": len(run.history)}


def measured(train, graph, minutes, *arguments):
    """Test figures of what is trained, and how long that took."""
    started = time.perf_counter()
    run, more = train(graph, minutes, *arguments)
    spent = (time.perf_counter() - started) / 60
    test = bilink.rank_entities(run.scorer, graph).metrics()
    return {"minutes": spent, "mrr": test["mrr"], "hits@10": test["hits@10"], **more}


def main():
    """Print a line for each of them, and write a file for each graph."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", default=["atlas", "kinship", "umls"])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--others", nargs="*", default=PRESETS, help="presets to try besides")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for data in options.data:
        graph, rows = bilink.load_graph(data), {}
        for name, train, arguments in ways(graph, options.others):
            row = rows[name] = measured(train, graph, options.minutes, *arguments)
            print(
                f"{data}: {name}: MRR {row['mrr']:.3f}, Hits@10 {row['hits@10']:.3f}, "
                f"{row['minutes']:.1f} min",
                flush=True,
            )
        report = {"data": data, "minutes": options.minutes, "runs": rows}
        (options.out / f"{data}.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
