"""Margin training with one negative: triples per second against PyKEEN.

Both are measured over whole epochs.  Ours: the first epoch of a run, in which most pairs are
violated, and the mean over the first twenty.  PyKEEN's speed does not depend on the epoch: the best
of three, after one that pays for the set-up.  Its RESCAL takes minutes for an epoch, so an epoch
there is 20 batches of the training triples.
"""

import argparse

from common import ask_peer, finish, show

from bilink import load_graph, train

MARGINS = {"transe": 0.5, "hole": 0.2, "complex": 0.2, "distmult": 1.0, "rescal": 1.0}
LOSSES = {"hole": "sigmoid-margin", "complex": "sigmoid-margin"}  # the others on the score itself
PAPER = {"negatives": 1, "corrupt": "random", "constraint": "none", "validation_triples": 0}
SIZES = (1024, 8192, 65536)


def ours(graph, model, dim, epochs):
    """(first epoch, mean of all epochs) in triples per second."""
    loss = LOSSES.get(model, "margin")
    run = train(graph, model, dim, epochs=epochs, loss=loss, margin=MARGINS[model], **PAPER)
    seconds = [record["seconds"] for record in run.history]
    return len(graph.train) / seconds[0], len(graph.train) * len(seconds) / sum(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="wn18,fb15k")
    parser.add_argument("--models", default="transe,hole,complex,distmult,rescal")
    parser.add_argument("--dim", type=int, default=200)
    options = parser.parse_args()
    rows = []
    for name in options.data.split(","):
        graph = load_graph(name)
        arrays = {"train": graph.train, "sizes": [len(graph.entities), len(graph.relations)]}
        for model in options.models.split(","):
            train(graph, model, options.dim, epochs=1, **PAPER)  # compile
            first, mean = ours(graph, model, options.dim, 5 if model == "rescal" else 20)
            row = {"data": name, "model": model, "first epoch/s": first, "mean/s": mean}
            question = {"name": model, "dim": options.dim, "epochs": 3}
            if model == "rescal":
                question["batches"] = 20
            speeds = {}
            for size in SIZES[:1] if model == "rescal" else SIZES:
                answer = ask_peer("pykeen_training.py", arrays, batch_size=size, **question)
                speeds[size] = row[f"PyKEEN {size}/s"] = answer["speed"]
            row["× PyKEEN 1024"] = mean / speeds[1024]
            row["× its best"] = mean / max(speeds.values())
            row["first epoch × its best"] = first / max(speeds.values())
            rows.append(row)
            show(rows[-1:])
    finish("training_speed", {"triples per second": rows})


if __name__ == "__main__":
    main()
