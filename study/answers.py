"""How true are the answers that a user is shown?  Promised against true, on facts that were hidden.

    python study/answers.py --data atlas,umls,kinship,nations

A fifth of all facts is hidden.  A run is made of the rest, by default as ``bilink train`` makes it,
and asked for the 100 most probable new facts, and about 200 of the hidden facts from both sides.
Facts that are true but not in the data count as wrong.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np

import bilink

MISSING = 0.2
SHOWN = 5  # answers to a question
BINS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.01)


def hide(graph, seed):
    """The graph without a fifth of its facts, split again 80/10/10; and the hidden facts."""
    random = np.random.default_rng(seed)
    facts = random.permutation(np.unique(graph.triples, axis=0))
    cut = int(MISSING * len(facts))
    hidden, shown = facts[:cut], facts[cut:]
    train, valid, test = np.split(shown, [int(0.8 * len(shown)), int(0.9 * len(shown))])
    part = replace(graph, train=train, valid=valid, test=test, negatives={})
    known = np.zeros(len(graph.entities), dtype=bool)
    known[shown[:, [0, 2]]] = True
    names, relations = graph.entities.names, graph.relations.names
    found = [(h, r, t) for h, r, t in hidden.tolist() if known[h] and known[t]]
    return part, [(names[h], relations[r], names[t]) for h, r, t in found]


def judge(run, hidden, seed):
    """What was promised, and what is true."""
    true, random = set(hidden), np.random.default_rng(seed)
    new = run.new_facts(100, missing=MISSING)
    right = [(a.head, a.relation, a.tail) in true for a in new]
    said, true_or_not, ranks = [], [], []
    for i in random.permutation(len(hidden))[:200]:
        head, relation, tail = hidden[i]
        for question in ({"head": head}, {"tail": tail}):
            for a in run.query(relation=relation, **question, new=True, k=SHOWN, missing=MISSING):
                said.append(a.probability)
                true_or_not.append((a.head, a.relation, a.tail) in true)
                ranks.append(a.rank)
    said, true_or_not, first = np.array(said), np.array(true_or_not), np.array(ranks) == 1
    return {
        "new facts": {
            "shown": len(new),
            "true": sum(right),
            "promised": round(sum(a.probability for a in new), 1),
            "relations": len({a.relation for a in new}),
        },
        "answers": compared(said[first], true_or_not[first]),
        "answers 2 to 5": compared(said[~first], true_or_not[~first]),
    }


def compared(said, right):
    """What was promised and what is true, of all answers and by their probability."""
    place = np.digitize(said, BINS) - 1
    return {
        "asked": len(right),
        "true": round(float(right.mean()), 3),
        "promised": round(float(said.mean()), 3),
        "bins (number, promised, true)": [
            [
                int((place == i).sum()),
                round(float(said[place == i].mean()), 2),
                round(float(right[place == i].mean()), 2),
            ]
            for i in range(len(BINS) - 1)
            if (place == i).any()
        ],
    }


def main():
    """Write a file for each graph."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="atlas,umls,kinship,nations")
    parser.add_argument("--model", default="complex")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("study/results/answers"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.data.split(","):
        graph, hidden = hide(bilink.load_graph(name), options.seed)
        found = judge(bilink.train(graph, options.model), hidden, options.seed)
        command = f"python study/answers.py --data {name} --model {options.model}"
        about = {"command": f"{command} --seed {options.seed}", "hidden": len(hidden)}
        print(name, json.dumps(found), flush=True)
        text = json.dumps({**about, **found}, indent=1) + "\n"
        (options.out / f"{name}-{options.model}.json").write_text(text)


if __name__ == "__main__":
    main()
