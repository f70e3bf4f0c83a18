"""Take up tomorrow's facts, and compare with training again.

    python study/update.py --data fb15k-237 --out study/results/update/fb15k-237-complex.json

500 facts are held back: 300 between entities that stay, and 200 of entities that are removed with
all their facts.  A run of the rest is updated with the 500, and compared with one that is trained
from the start with them: by the MRR of other held-out facts of the new entities, and by the
processor time of both.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

import bilink
from bilink.data.index import known_answers
from bilink.data.vocabulary import Vocabulary
from bilink.runs.job import prepare

BETWEEN, OF_NEW = 300, 200
FEWEST, MOST = 6, 30  # facts of an entity that is removed


def hold_back(graph, seed):
    """Training facts that stay, facts of tomorrow, hidden facts of new entities, and the entities.

    Of each new entity, one fact in five is hidden.
    """
    random = np.random.default_rng(seed)
    train = graph.train
    degrees = np.bincount(train[:, [0, 2]].ravel(), minlength=len(graph.entities))
    fitting = random.permutation(np.flatnonzero((degrees >= FEWEST) & (degrees <= MOST)))
    is_new = np.zeros(len(graph.entities), dtype=bool)
    given, hidden, count = [], [], 0
    for entity in fitting:
        if count >= OF_NEW:
            break
        own = train[(train[:, [0, 2]] == entity).any(axis=1)]
        own = random.permutation(own[~is_new[own[:, [0, 2]]].any(axis=1)])
        if len(own) < FEWEST:
            continue
        is_new[entity] = True
        keep = max(1, len(own) * 4 // 5)
        given.append(own[:keep][: OF_NEW - count])
        hidden.append(own[keep:])
        count += len(given[-1])
    rest = train[~is_new[train[:, [0, 2]]].any(axis=1)]
    rest = random.permutation(rest)
    return rest[BETWEEN:], np.concatenate([rest[:BETWEEN], *given]), np.concatenate(hidden), is_new


def names_of(graph, facts):
    """Triples of names."""
    entities, relations = graph.entities.names, graph.relations.names
    return [(entities[h], relations[r], entities[t]) for h, r, t in facts.tolist()]


def mrr(run, graph, facts):
    """The filtered MRR of ``facts``, by name; ranked among all entities of the run."""
    find, relation = run.graph.entities.find, run.graph.relations.find
    rows = [(find(h), relation(r), find(t)) for h, r, t in names_of(graph, facts)]
    test = replace(run.graph, test=np.array(rows, dtype=np.int32))
    known = known_answers(test, ("train", "valid", "test"))
    found = bilink.rank_entities(run.scorer, test, "test", known=known)
    return found.metrics()["mrr"]


def main():
    """Train, update, train again, rank, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="fb15k-237")
    parser.add_argument("--model", default="complex")
    parser.add_argument("--epochs", type=int, default=0, help="of training after the update")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    graph = bilink.load_graph(options.data)
    train, tomorrow, hidden, is_new = hold_back(graph, options.seed)
    new = np.concatenate([np.flatnonzero(~is_new), np.flatnonzero(is_new)])
    place = np.argsort(new)  # old entities first

    def moved(facts):
        return np.stack([place[facts[:, 0]], facts[:, 1], place[facts[:, 2]]], axis=1)

    def part(facts, count):
        names = tuple(graph.entities.names[i] for i in new[:count])
        inside = [f[(f[:, [0, 2]] < count).all(axis=1)] for f in map(moved, (facts, graph.valid))]
        vocabulary = Vocabulary("entity", names)
        none = graph.train[:0]
        return replace(
            graph, entities=vocabulary, train=inside[0], valid=inside[1], test=none, negatives={}
        )

    old, used = int((~is_new).sum()), len(new)
    base = prepare(part(train, old), options.model).run()
    before = time.process_time()
    found = base.update(names_of(graph, tomorrow), epochs=options.epochs, seed=options.seed)
    updating = time.process_time() - before
    before = time.process_time()
    full_graph = part(np.concatenate([train, tomorrow]), used)
    full_graph = replace(full_graph, valid=base.graph.valid)
    again = prepare(full_graph, options.model).run()
    training = time.process_time() - before
    scores = {name: mrr(r, graph, hidden) for name, r in (("updated", found.run), ("again", again))}
    rows = {
        "command": f"python study/update.py --data {options.data} --model {options.model} "
        f"--epochs {options.epochs} --seed {options.seed}",
        **{key: value for key, value in found.to_dict().items() if key not in ("run", "entities")},
        "new entities": len(found.entities),
        "hidden facts of new entities": len(hidden),
        "mrr, updated": scores["updated"],
        "mrr, trained again": scores["again"],
        "share of the mrr": scores["updated"] / scores["again"],
        "processor seconds, update": updating,
        "processor seconds, training again": training,
        "share of the time": updating / training,
    }
    print(json.dumps(rows, indent=1), flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
