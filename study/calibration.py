"""Learn probabilities of trained runs on valid, and see how well they hold on test.

    bilink study records --data fb15k-237,wn18rr --models C
    python study/calibration.py runs/study/records/{fb15k-237,wn18rr}/softmax/C \
        --out study/results/calibration --picture docs/calibration.png

Beside ours stand the plain sigmoid of the score, and one Platt line for all relations.
"""

import argparse
import json
from pathlib import Path

import bilink
from bilink.evaluation.calibration import compare_calibrations, find_examples
from bilink.evaluation.reliability import ASKED, draw_reliability

TITLES = {"fb15k-237": "FB15k-237", "wn18rr": "WN18RR"}


def mistaken(run):
    """Mean probability of the best answers by the calibration of facts, and how many are true."""
    examples = find_examples(run.scorer, run.graph, "test", "answers")
    facts = bilink.fit_calibration(run.scorer, run.graph)
    given = facts.probabilities(examples.triples, examples.scores)
    return {"mean probability": float(given.mean()), "right": float(examples.labels.mean())}


def main():
    """Print a line for each calibration, and write a file for each graph."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, help="folders of trained runs")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    panels = []
    options.out.mkdir(parents=True, exist_ok=True)
    for path in options.runs:
        run = bilink.load(path)
        data, config = run.graph.name, run.config
        found = {"model": config.model, "dim": config.dim, "epochs": len(run.history)}
        for asked in ("facts", "answers"):
            for method in ("platt", "isotonic"):
                calibration = bilink.fit_calibration(
                    run.scorer, run.graph, asked=asked, method=method
                )
                row = compare_calibrations(run.scorer, run.graph, calibration)
                found[f"{asked}, {method}"] = row
                for name, result in row["results"].items():
                    numbers = ", ".join(
                        f"{key} {value:.4f}" for key, value in result.items() if key != "bins"
                    )
                    print(f"{data}, {asked}, {name}: {numbers}", flush=True)
            title = f"{TITLES.get(data, data)}: {ASKED[asked]}"
            panels.append({**found[f"{asked}, platt"], "title": title})
        found["answers taken for facts"] = mistaken(run)
        (options.out / f"{data}.json").write_text(json.dumps(found, indent=1) + "\n")
    if options.picture:
        draw_reliability(panels, options.picture)


if __name__ == "__main__":
    main()
