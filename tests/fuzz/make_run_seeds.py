"""Make the seeds of the target run_folders: a trained run, rules, and an ensemble of both.

They are committed, so that a case is the same whatever the code is; run this again when the format
of run folders changes.
"""

import json
import random
import shutil

from harness import SEEDS

import bilink
from bilink.runs.folder import RunFolder

FOLDER = SEEDS / "run_folders"
OPTIONS = {"epochs": 2, "threads": 1, "patience": 0, "validate_every": 1}


def main() -> None:
    dice = random.Random(0)
    names = [f"e{i}" for i in range(10)]
    triples = {
        (dice.choice(names), dice.choice(("r", "s")), dice.choice(names)) for _ in range(150)
    }
    graph = bilink.graph_from_triples(sorted(triples), fractions=(0.6, 0.3, 0.1))
    shutil.rmtree(FOLDER, ignore_errors=True)
    trained = bilink.train(graph, "complex", 2, out=FOLDER / "trained", options=OPTIONS)
    rules = bilink.train(graph, "paths", out=FOLDER / "rules", options={"length": 2})
    ensemble = bilink.combine([trained, rules], out=FOLDER / "ensemble")
    for run in (trained, rules, ensemble):
        RunFolder(run.path).write_metrics(run.evaluate().to_dict(), run.digest)
    doubts = bilink.audit(trained, folds=2, errors=0.4)
    print(len(doubts), "doubts")
    for fold in (FOLDER / "trained" / "audit").glob("fold-*"):
        shutil.rmtree(fold)
    for lock in FOLDER.rglob(".*lock"):
        lock.unlink()
    for path in FOLDER.rglob("*.json"):  # shorter, so that more mutations hit something
        path.write_text(json.dumps(json.loads(path.read_text())) + "\n")


if __name__ == "__main__":
    main()
