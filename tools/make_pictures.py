"""Draw docs/speed_and_quality.png from benchmarks/results and study/results.

python tools/make_pictures.py
"""

import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).parent.parent
TITLES = {
    "rescal": "RESCAL",
    "distmult": "DistMult",
    "hole": "HolE",
    "complex": "ComplEx",
    "transe": "TransE",
}
OURS, PEER = "#1f6f8b", "#c9c2b4"


def rows(benchmark):
    tables = json.loads((ROOT / "benchmarks/results" / f"{benchmark}.json").read_text())
    return next(iter(tables.values()))


def draw_training(axes):
    found = [r for r in rows("training_speed") if r["data"] == "fb15k"]
    for place, row in enumerate(reversed(found)):
        peer = max(value for key, value in row.items() if key.startswith("PyKEEN"))
        axes.barh(place + 0.2, row["mean/s"], 0.36, color=OURS)
        axes.barh(place - 0.2, peer, 0.36, color=PEER)
        axes.text(row["mean/s"] * 1.15, place + 0.2, f"{row['× its best']:.0f} ×", va="center")
    axes.set_yticks(range(len(found)), [TITLES[row["model"]] for row in reversed(found)])
    axes.set_xscale("log")
    axes.set_xlim(right=3e7)
    axes.set_title("training, FB15K, triples per second", loc="left")


def draw_ranking(axes):
    found = [r for r in rows("ranking_speed") if r["data"] == "wn18"]
    for place, row in enumerate(reversed(found)):
        axes.barh(place + 0.2, row["bilink s"], 0.36, color=OURS)
        axes.barh(place - 0.2, row["PyKEEN s"], 0.36, color=PEER)
        axes.text(row["bilink s"] * 1.15, place + 0.2, f"{row['PyKEEN ×']:.0f} ×", va="center")
    axes.set_yticks(range(len(found)), [TITLES[row["model"]] for row in reversed(found)])
    axes.set_xscale("log")
    axes.set_title("ranking WN18's test split, seconds", loc="left")


def draw_quality(axes):
    for name, title in TITLES.items():
        path = ROOT / "study/results/margin/wn18" / name / "history.jsonl"
        seconds, x, y = 0.0, [], []
        for line in path.read_text().splitlines():
            record = json.loads(line)
            seconds += record["seconds"]
            if "validation_mrr" in record:
                x.append(seconds)
                y.append(record["validation_mrr"])
        axes.plot(x, y, label=title, linewidth=2)
        shift = {"hole": 9, "complex": -9}.get(name, 0)  # the two curves end at one height
        axes.annotate(
            title, (x[-1], y[-1]), xytext=(4, shift), textcoords="offset points", va="center"
        )
    axes.set_xscale("log")
    axes.set_ylim(0, 1)
    axes.margins(x=0.18)
    axes.set_title("WN18, validation MRR by seconds of training", loc="left")


def main():
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.4), width_ratios=[1, 1, 1.1])
    draw_training(axes[0])
    draw_ranking(axes[1])
    draw_quality(axes[2])
    handles = [plt.Rectangle((0, 0), 1, 1, color=c) for c in (OURS, PEER)]
    labels = ["bilink, 2 cores", "PyKEEN, same machine, best of three batch sizes (RESCAL: 1,024)"]
    figure.legend(handles, labels, loc="lower left", ncols=2, frameon=False)
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    figure.savefig(ROOT / "docs/speed_and_quality.png", dpi=120)


if __name__ == "__main__":
    main()
