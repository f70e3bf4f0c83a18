"""Is the support that ``run.explain`` gives to facts real?  Train again without them, and see.

    python study/explanations.py --data nations --out study/results/explanations/nations.json

For some answers of the test split that the model ranks well, three things are left out of training,
with several seeds each: the facts with most support together, as many random facts about the same
entities or relation, and single facts with some support.  The effect is the fall of the answer's
score, in standard deviations of the scores of all candidates.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

import bilink

GOOD = 0.1  # of the entities; answers that rank no lower are explained


def trained(graph, options):
    """A model for each seed."""
    training = {"epochs": options.epochs, "threads": 1, "validation_triples": 0}
    return [
        bilink.train(graph, options.model, options.dim, seed=seed, **training)
        for seed in range(options.seeds)
    ]


def standardised(run, triple):
    """The score of a triple among those of all tails, in their standard deviations."""
    h, r, t = triple
    n = len(run.graph.entities)
    scores = run.scorer.score(np.stack([np.full(n, h), np.full(n, r), np.arange(n)], axis=1))
    return float((scores[t] - scores.mean()) / scores.std())


def fall(graph, without, triple, before, options):
    """By how much the answer falls, on average over the seeds, when rows of training are gone."""
    keep = np.ones(len(graph.train), dtype=bool)
    keep[without] = False
    runs = trained(replace(graph, train=graph.train[keep]), options)
    return float(
        np.mean([b - standardised(run, triple) for b, run in zip(before, runs, strict=True)])
    )


def support_of(run, triple, rows):
    """Rows of training with positive support for a triple, and the support, most first."""
    entities, relations = run.graph.entities.names, run.graph.relations.names
    h, r, t = triple
    found = run.explain(entities[h], relations[r], entities[t], k=len(rows)).support
    return [(rows[support.fact], support.value) for support in found]


def explained(graph, triple, runs, rows, options, random):
    """What removing facts does to one answer."""
    before = [standardised(run, triple) for run in runs]
    sums = {}
    for run in runs:
        for row, value in support_of(run, triple, rows):
            sums[row] = sums.get(row, 0.0) + value / len(runs)
    order = sorted(sums, key=sums.get, reverse=True)
    if len(order) < 2 * options.together:
        return None
    train, (h, r, t) = graph.train, triple
    near = np.flatnonzero(
        np.isin(train[:, 0], (h, t)) | np.isin(train[:, 2], (h, t)) | (train[:, 1] == r)
    )
    chance = random.choice(near, options.together, replace=False)
    singles = random.choice(order, min(options.singles, len(order)), replace=False)
    falls = [fall(graph, [row], triple, before, options) for row in singles.tolist()]
    return {
        "triple": [graph.entities.names[h], graph.relations.names[r], graph.entities.names[t]],
        "most supported": fall(graph, order[: options.together], triple, before, options),
        "random": fall(graph, chance, triple, before, options),
        "correlation": float(spearmanr([sums[row] for row in singles.tolist()], falls)[0]),
    }


def main():
    """Print and write a row for each answer, and the means."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="nations")
    parser.add_argument("--model", default="complex")
    parser.add_argument("--dim", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--answers", type=int, default=12)
    parser.add_argument("--together", type=int, default=5, help="facts that are left out at once")
    parser.add_argument("--singles", type=int, default=10, help="facts that are left out alone")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    graph, random = bilink.load_graph(options.data), np.random.default_rng(0)
    runs = trained(graph, options)
    entity, relation = graph.entities.label, graph.relations.label
    facts = [(entity(h), relation(r), entity(t)) for h, r, t in graph.train.tolist()]
    rows = {fact: i for i, fact in enumerate(facts)}
    assert len(rows) == len(graph.train), "two entities have one label"
    ranks = np.mean([run.evaluate("test").ranks["tail"].values() for run in runs], axis=0)
    good = random.permutation(np.flatnonzero(ranks <= GOOD * len(graph.entities)))
    found = []
    for i in good.tolist():
        row = explained(graph, graph.test[i].tolist(), runs, rows, options, random)
        if row is not None:
            print(row, flush=True)
            found.append(row)
        if len(found) == options.answers:
            break
    keys = ("most supported", "random", "correlation")
    means = {key: float(np.nanmean([row[key] for row in found])) for key in keys}
    better = float(np.mean([row["most supported"] > row["random"] for row in found]))
    settings = {key: value for key, value in vars(options).items() if key != "out"}
    result = {**settings, "mean": means, "most supported falls further": better, "explained": found}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    print(means, better)


if __name__ == "__main__":
    main()
