"""Make the consistent models of a graph, and rank its facts with them.

    python study/theory.py wn18 --models rescal,complex,hole
    python study/theory.py wn18 --models rescal --splits train
    python study/theory.py fb15k --models complex --ranked 1000

writes construct-GRAPH[-SPLITS]-MODEL.json to study/results/theory: size, certificate, MRR on the
first --ranked triples of each split, seconds of the search and the checks, and the command.
(`bilink theory describe GRAPH --json` makes the describe-GRAPH.json there.)
"""

import argparse
import json
import shlex
import sys
import time
from pathlib import Path

import bilink
from bilink.data.graph import SPLITS
from bilink.data.index import known_answers
from bilink.theory.consistent_models import certify, consistent_model, relation_factors
from bilink.theory.relations import facts_of

HERE = Path(__file__).parent


def mrr(model, graph, split, most):
    """The filtered MRR of a split's first triples, and how many they are."""
    triples = graph.split(split)[:most]
    known = known_answers(graph, SPLITS)
    ranking = bilink.rank_entities(model.scorer, graph, triples=triples, known=known)
    return {"mrr": ranking.metrics()["mrr"], "triples": len(triples)}


def main():
    """One search for factors, then one file for each model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data")
    parser.add_argument("--models", default="rescal,complex,hole")
    parser.add_argument("--splits", default=",".join(SPLITS), help="whose triples are the facts")
    parser.add_argument("--effort", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--ranked", type=int, default=20_000, help="triples of each split")
    parser.add_argument("--out", type=Path, default=HERE / "results/theory")
    options = parser.parse_args()
    graph = bilink.load_graph(options.data)
    splits = tuple(options.splits.split(","))
    how = {"effort": options.effort, "threads": options.threads}
    base = {"command": shlex.join(["python", "study/theory.py", *sys.argv[1:]]), **how}
    part = "" if splits == SPLITS else "-" + "+".join(splits)

    def write(name, found, seconds):
        found = {**found, **base, "seconds": round(seconds, 1), "bilink": bilink.__version__}
        (options.out / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
        print(name, f"{seconds:.0f} s", flush=True)

    started = time.perf_counter()
    relations = facts_of(graph, splits)
    factors = relation_factors(relations, **how)
    searched = time.perf_counter() - started
    for name in options.models.split(","):
        started = time.perf_counter()
        made = certify(consistent_model(factors, name), factors, relations)
        seconds = searched + time.perf_counter() - started
        found = {
            "graph": options.data,
            "fingerprint": graph.fingerprint,
            "splits": splits,
            "entities": len(graph.entities),
            "facts": sum(map(len, relations)),
            **made.to_dict(),
            "ranking": {s: mrr(made.model, graph, s, options.ranked) for s in SPLITS},
        }
        write(f"construct-{options.data}{part}-{name}", found, seconds)


if __name__ == "__main__":
    main()
