"""Training in parts against training in one piece: quality and triples per second, in one run.

Quality is the filtered ranking of test among all entities, after the same epochs; nothing is chosen
by it.  Times are of the processor, with the reading and writing of parts in them, so that the ratio
hardly depends on what else the machine does.  "once" deals the entities into parts once, and not
before each epoch.
"""

import argparse
import tempfile
import time
from pathlib import Path

from common import finish, show

from bilink import Model, load_graph, rank_entities
from bilink.models.registry import family
from bilink.training.config import MarginConfig, SoftmaxConfig
from bilink.training.loop import fit
from bilink.training.parts import fit_in_parts

COMMON = {"threads": 1, "validation_triples": 0, "keep": "last", "patience": 0}
SETTINGS = {
    "margin": lambda epochs, parts: MarginConfig(epochs=epochs, parts=parts, negatives=5, **COMMON),
    "sampled": lambda epochs, parts: SoftmaxConfig(
        epochs=epochs, parts=parts, negatives=500, **COMMON
    ),
    "softmax": lambda epochs, parts: SoftmaxConfig(epochs=epochs, parts=parts, **COMMON),
}


def measured(graph, model, dim, config, redeal, folder):
    """The trained model's metrics on test, and seconds of the processor for each epoch."""
    started = time.process_time()
    if config.parts == 1:
        sizes = len(graph.entities), len(graph.relations)
        found = fit(Model.empty(model, dim, *sizes), graph, config).model
    else:
        found = fit_in_parts(family(model), dim, graph, config, folder, redeal=redeal).model
    seconds = (time.process_time() - started) / config.epochs
    return rank_entities(found.scorer, graph, "test").metrics(), seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="fb15k-237,wn18rr")
    parser.add_argument("--losses", default="margin,sampled", help=", ".join(SETTINGS))
    parser.add_argument("--model", default="complex")
    parser.add_argument("--dim", type=int, default=50)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--parts", default="1,4,8")
    parser.add_argument("--once", default="4", help="numbers of parts that are also dealt once")
    parser.add_argument("--name", default="parts", help="of the file in results/")
    options = parser.parse_args()
    once = {int(text) for text in options.once.split(",") if text}
    rows = []
    for name in options.data.split(","):
        graph = load_graph(name)
        for loss in options.losses.split(","):
            # Compile, on a graph of a few triples.
            base = None
            for parts in map(int, options.parts.split(",")):
                for redeal in (True, False) if parts in once and parts > 1 else (True,):
                    config = SETTINGS[loss](options.epochs, parts)
                    if base is None:
                        warm_up(graph, options, loss)
                    with tempfile.TemporaryDirectory() as folder:
                        how = graph, options.model, options.dim, config, redeal, Path(folder)
                        metrics, seconds = measured(*how)
                    base = base or (metrics["mrr"], seconds)
                    rows.append(
                        {
                            "data": name,
                            "loss": loss,
                            "parts": f"{parts}" if redeal else f"{parts}, once",
                            "epochs": options.epochs,
                            "MRR": f"{metrics['mrr']:.4f}",
                            "− 1 part": f"{metrics['mrr'] - base[0]:+.4f}",
                            "Hits@10": f"{metrics['hits@10']:.4f}",
                            "s per epoch": seconds,
                            "triples/s, × 1 part": base[1] / seconds,
                        }
                    )
                    show(rows[-1:])
    finish(options.name, {f"{options.model} of dim {options.dim}, test": rows})


def warm_up(graph, options, loss):
    """Compile what is compiled, so that no time counts it."""
    config = SETTINGS[loss](1, 1)
    fit(Model.empty(options.model, 2, len(graph.entities), len(graph.relations)), graph, config)


if __name__ == "__main__":
    main()
