"""Hold entities out of training, fold them in from 80 % of their facts, and rank the rest.

    python study/fold_in.py --data fb15k-237 --model complex --work /tmp/fold_in \
        --out study/results/fold_in/fb15k-237-complex.json

Two groups of entities are held out.  The settings of ``fold_in`` were chosen on the first; the
figures are those of the second.  They are compared with training from the start with the 80 %
among the training facts.  Facts of valid and test that mention an entity of either group are left
out, and so are facts between two of them; filters know them all.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

import bilink
from bilink.data.index import FactIndex
from bilink.data.vocabulary import Vocabulary
from bilink.runs.job import prepare

SIDES = ("head", "tail")
GROUPS = ("chosen on", "reported")
LEAST = 10  # facts of an entity that is held out


def hold_out(graph, size, seed=0):
    """The graph without two groups of entities, and each group's known and hidden facts."""
    random = np.random.default_rng(seed)
    degrees = np.bincount(graph.train[:, [0, 2]].ravel(), minlength=len(graph.entities))
    chosen = random.permutation(np.flatnonzero(degrees >= LEAST))[: 2 * size]
    group = np.full(len(graph.entities), -1)
    group[chosen] = np.arange(len(chosen)) % 2
    parts = {split: graph.split(split) for split in ("train", "valid")}
    ends = {split: group[part[:, [0, 2]]] for split, part in parts.items()}
    kept = {split: parts[split][(ends[split] < 0).all(axis=1)] for split in parts}
    known, hidden = [], []
    for g in range(2):
        facts = parts["train"][(np.sort(ends["train"], axis=1) == (-1, g)).all(axis=1)]
        sides = np.where(group[facts[:, 0]] == g, facts[:, 0], facts[:, 2])
        order = random.permutation(len(facts))
        facts, sides = facts[order], sides[order]
        turn = np.zeros(len(facts), dtype=int)  # the position among the facts of its entity
        for e in np.unique(sides):
            turn[sides == e] = np.arange((sides == e).sum())
        known.append(facts[turn % 5 != 4])
        hidden.append(facts[turn % 5 == 4])
    return kept, known, hidden, np.sort(chosen)


def part_of(graph, train, valid, without=()):
    """A graph of these facts and all entities but some."""
    used = np.setdiff1d(np.arange(len(graph.entities)), without)
    ids = np.full(len(graph.entities), -1)
    ids[used] = np.arange(len(used))

    def renamed(facts):
        return np.stack([ids[facts[:, 0]], facts[:, 1], ids[facts[:, 2]]], axis=1)

    return replace(
        graph,
        entities=Vocabulary("entity", tuple(graph.entities.names[i] for i in used)),
        train=renamed(train),
        valid=renamed(valid),
        test=train[:0],
        negatives={},
    )


def reciprocal_ranks(run, graph, facts):
    """1 / rank of the head and of the tail of ``facts``, which have the ids of ``graph``."""
    place = {name: i for i, name in enumerate(run.graph.entities.names)}
    ids = np.array([place.get(name, -1) for name in graph.entities.names])

    def renamed(triples):
        rows = np.stack([ids[triples[:, 0]], triples[:, 1], ids[triples[:, 2]]], axis=1)
        return rows[(rows >= 0).all(axis=1)].astype(np.int32)

    sizes = len(run.graph.entities), len(run.graph.relations)
    known = FactIndex(renamed(graph.triples), *sizes)
    found = bilink.rank_entities(
        run.scorer, run.graph, "test", triples=renamed(facts), known=known, threads=1
    )
    return np.stack([1 / found.values(side) for side in SIDES])


def compare(graph, base, full, folded, hidden, chosen, valid):
    """The MRR of hidden facts by folding in and by training again, and of what must not change."""
    new = np.stack([np.isin(hidden[:, column], chosen) for column in (0, 2)])
    rows = {"facts": len(hidden)}
    for name, run in (("trained again", full), ("folded in", folded)):
        gains = reciprocal_ranks(run, graph, hidden)
        rows[name] = {
            "mrr": float(gains.mean()),
            "mrr of the new entity": float(gains[new].mean()),
            "mrr of the other end": float(gains[~new].mean()),
        }
    rows["ratio"] = rows["folded in"]["mrr"] / rows["trained again"]["mrr"]
    rows["valid facts of others"] = {
        name: float(reciprocal_ranks(run, graph, valid).mean())
        for name, run in (("before", base), ("folded in", folded), ("trained again", full))
    }
    return rows


def named(graph, facts):
    """Facts by name, as ``Run.update`` takes them."""
    entities, relations = graph.entities.names, graph.relations.names
    return [(entities[h], relations[r], entities[t]) for h, r, t in facts.tolist()]


def seconds_of_training(part, options, epochs):
    """The processor time of so many epochs, from three of them."""
    settings = {"epochs": 3, "threads": 1, "validation_triples": 0}
    job = prepare(part, options.model, options.dim, settings)
    job.run()  # which compiles
    start = time.process_time()
    job.run()
    return (time.process_time() - start) / 3 * epochs


def seconds_for_one(base, graph, known, chosen):
    """The median processor time to fold in one entity, the model being known already."""
    times = []
    for e in chosen[:11]:
        own = known[(known[:, [0, 2]] == e).any(axis=1)]
        start = time.process_time()
        base.update(named(graph, own))
        times.append(time.process_time() - start)
    return float(np.median(times[1:]))  # the first one compiles


def main():
    """Train, fold in, rank, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="fb15k-237")
    parser.add_argument("--model", default="complex")
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--entities", type=int, default=200, help="in each of the two groups")
    parser.add_argument("--work", type=Path, required=True, help="where runs are kept")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    graph = bilink.load_graph(options.data)
    kept, known, hidden, chosen = hold_out(graph, options.entities)
    every = np.concatenate(known)
    parts = {
        "base": part_of(graph, kept["train"], kept["valid"], chosen),
        "full": part_of(graph, np.concatenate([kept["train"], every]), kept["valid"]),
    }
    settings = {"epochs": options.epochs, "threads": options.threads}
    work = options.work / f"{options.data}-{options.model}-{options.dim}"
    work.mkdir(parents=True, exist_ok=True)
    base, full = (
        prepare(part, options.model, options.dim, settings).run_or_read(work / name)
        for name, part in parts.items()
    )
    start = time.process_time()
    folded = base.update(named(graph, every)).run
    seconds = time.process_time() - start
    training = seconds_of_training(parts["full"], options, len(full.history))
    one = seconds_for_one(base, graph, every, chosen)
    rows = {
        "data": options.data,
        "model": options.model,
        "dim": options.dim,
        "epochs": len(full.history),
        "threads": options.threads,
        "entities": len(chosen),
        "facts folded in": len(every),
        "seconds of training": training,
        "seconds to fold in one entity": one,
        "seconds to fold in all": seconds,
        "training over folding in one": training / one,
        **{
            name: compare(graph, base, full, folded, facts, chosen, kept["valid"][:2000])
            for name, facts in zip(GROUPS, hidden, strict=True)
        },
    }
    print(json.dumps(rows, indent=1), flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
