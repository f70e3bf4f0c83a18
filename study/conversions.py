"""Train TransE, HolE, ComplEx and DistMult, convert each along every arrow, and rank again.

    python study/conversions.py --out study/results/theory/conversions-wn18.json

The ranks of a converted model should be those of the original, ranked in double precision, and its
MRR the same to six digits.
"""

import argparse
import json
from pathlib import Path

import numpy as np

import bilink
from bilink.models.model import Model
from bilink.theory.conversions import ARROWS, convert

SOURCES = ("transe", "hole", "complex", "distmult")
SIDES = ("head", "tail")


def arrows(source, dim):
    """The (target, construction) that models of this family and size can be converted to."""
    found = {(a.target, a.kind) for a in ARROWS if a.source == source and a.most >= dim}
    return sorted((target, kind) for target, kind in found if target != source)


def main():
    """Print a line for each arrow, and write them all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="wn18")
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    graph = bilink.load_graph(options.data)
    rows = []
    for source in SOURCES:
        run = bilink.train(graph, source, options.dim, epochs=options.epochs, validation_triples=0)
        model = run.model
        arrays = (array.astype(np.float64) for array in (model.entities, model.relations))
        double = bilink.rank_entities(Model(model.family, model.dim, *arrays).scorer, graph)
        mrr = run.evaluate().metrics()["mrr"]
        for target, kind in arrows(source, options.dim):
            made, certificate = convert(model, target, kind)
            ranking = bilink.rank_entities(made.scorer, graph)
            moved = [ranking.values(side) != double.values(side) for side in SIDES]
            row = {
                **certificate.to_dict(),
                "mrr": mrr,
                "converted mrr": ranking.metrics()["mrr"],
                "moved ranks": int(np.sum(moved)),
                "queries": 2 * len(graph.test),
            }
            rows.append(row)
            print(
                f"{source} {options.dim} -> {target} {certificate.dim} ({kind}, "
                f"{certificate.level}): MRR {mrr:.6f} -> {row['converted mrr']:.6f}, "
                f"{row['moved ranks']} ranks moved",
                flush=True,
            )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
