"""Softmax training of ComplEx on FB15K with the entities on torch's CPU, against NumPy.

Needs torch in the same environment; both train the same batches, in turn.
"""

import argparse

from common import finish
from softmax_speed import best_in_turn, ours

from bilink import load_graph


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--facts", type=int, default=10_000, help="training triples in an epoch")
    options = parser.parse_args()
    graph, rows = load_graph("fb15k"), []
    for title, negatives in (("all entities", 0), ("1,000 shared negatives", 1000)):
        told = {"negatives": negatives, "batch_size": 1000}
        numpy, torch = best_in_turn(
            ours(graph, options.facts, {**told, "device": "numpy"}),
            ours(graph, options.facts, {**told, "device": "cpu"}),
        )
        rows.append({"candidates": title, "torch's CPU, × the time of NumPy": torch / numpy})
    finish("torch_device", {"an epoch of softmax training, ComplEx, FB15K, 200 numbers": rows})


if __name__ == "__main__":
    main()
