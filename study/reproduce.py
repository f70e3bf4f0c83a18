"""Train and evaluate the configs below study/results, and keep what came out beside them.

    python study/reproduce.py study/results/margin/wn18            # all models of one graph
    python study/reproduce.py study/results/margin/wn18/hole       # one

Each folder holds ``config.toml`` (what was asked), ``history.jsonl`` and ``metrics.json`` (what
came out, on valid and test).  Settings were chosen on the validation split; test is evaluated once,
here.
"""

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

from bilink.runs.folder import RunFolder, read_config_file
from bilink.runs.job import prepare


def reproduce(folder):
    """Run one config; return its row for the table."""
    config = read_config_file(folder / "config.toml")
    with tempfile.TemporaryDirectory() as place:
        started = time.perf_counter()
        run = prepare(former=config).run(out=Path(place) / "run")
        minutes = (time.perf_counter() - started) / 60
        target = RunFolder(folder)
        for split in ("valid", "test"):
            found = run.evaluate(split).to_dict()
            found["minutes_of_training"] = round(minutes, 2)
            found["stopped"] = run.stopped
            target.write_metrics(found)
        shutil.copy(Path(place) / "run" / "history.jsonl", folder / "history.jsonl")
        shutil.copy(Path(place) / "run" / "config.toml", folder / "config.toml")
    return folder


def row(folder):
    """The folder's results as a line of Markdown."""
    config = read_config_file(folder / "config.toml")
    metrics = {m["split"]: m for m in json.loads((folder / "metrics.json").read_text()).values()}
    test, valid = metrics["test"]["both"], metrics["valid"]["both"]
    return (
        f"| {config.data['source']} | {config.model} | {config.dim} | {test['mrr']:.3f} | "
        f"{test['hits@1']:.3f} | {test['hits@10']:.3f} | {test['mr']:.0f} | {valid['mrr']:.3f} | "
        f"{metrics['test']['minutes_of_training']:.1f} |"
    )


def main():
    """Reproduce every config below the folder that is named."""
    root = Path(sys.argv[1])
    folders = sorted(path.parent for path in root.rglob("config.toml"))
    if not folders:
        sys.exit(f"there is no config.toml below {root}")
    for folder in folders:
        print(row(reproduce(folder)), flush=True)
    print("\n| data | model | dim | MRR | Hits@1 | Hits@10 | MR | valid MRR | minutes |")
    print("|---|---|---|---|---|---|---|---|---|")
    for folder in folders:
        print(row(folder))


if __name__ == "__main__":
    main()
