"""Mining paths of one and two steps, against the bare sparse products of SciPy.

The groundings of all bodies of two steps are the non-zero entries of one product of sparse 0/1
matrices: rows (x, d₁) and columns z, times rows z and columns (d₂, y).  SciPy computes that product
and nothing else, in parts that fit in memory, for the edges that mining crosses; mining also leaves
out walks that return, counts the heads that hold, and keeps the rules.  Both run on one thread.
"""

import argparse
import time

import numpy as np
from common import finish, show
from scipy import sparse

from bilink import load_graph
from bilink.paths.adjacency import Adjacency
from bilink.paths.mining import mine
from bilink.paths.rules import MiningConfig


def bare_products(adjacency, hub):
    """Seconds of the products, and the entries that they have."""
    edges, n = adjacency.edges, adjacency.n_entities
    groups = len(edges.group_relation)
    ones = np.ones(len(edges.neighbours), dtype=np.int8)
    left = sparse.csr_matrix((ones, edges.neighbours, edges.group_start), shape=(groups, n))
    crossed = adjacency.degrees <= hub
    left = left[:, np.flatnonzero(crossed)]
    # Columns (d₂, y) are numbered by the pairs that occur: the group of y along the inverse of d₂.
    starts = edges.group_start[edges.groups]
    right = sparse.csr_matrix((ones, adjacency.reverse, starts), shape=(n, groups))
    right = right[np.flatnonzero(crossed)]
    seconds, entries = 0.0, 0
    size = max(1, groups // 200)
    for first in range(0, groups, size):
        part = left[first : first + size]
        started = time.perf_counter()
        product = part @ right
        seconds += time.perf_counter() - started
        entries += product.nnz
    return seconds, entries


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="wn18,fb15k-237,fb15k")
    options = parser.parse_args()
    config = MiningConfig(length=2, constants=False)
    mine(load_graph("atlas"), config)  # compile
    rows = []
    for name in options.data.split(","):
        graph = load_graph(name)
        adjacency = Adjacency.of_graph(graph)
        started = time.perf_counter()
        rules = mine(graph, config, threads=1)
        ours = time.perf_counter() - started
        bare, entries = bare_products(adjacency, config.hub)
        rows.append(
            {
                "data": name,
                "entries of the products": f"{entries:,}",
                "rules": f"{len(rules.paths):,}",
                "SciPy s": bare,
                "bilink s": ours,
                "× SciPy": ours / bare,
            }
        )
        show(rows[-1:])
    finish("mining_speed", {"all paths of one and two steps, one thread": rows})


if __name__ == "__main__":
    main()
