"""Make the run folders of tests/fixtures/format-1 and rules-1, and the answers that they give.

Those of format-1 were made by version 0.1.0, those of rules-1 when paths were new.  They are not
made again: they show that old runs stay readable and answer as they did.  `python
tests/make_fixtures.py FOLDER [paths]` makes a set of the present version, for the day on which the
format changes.
"""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np

import bilink
from bilink.data.graph import Graph
from bilink.data.vocabulary import Vocabulary
from bilink.models.registry import family
from bilink.runs.folder import RunFolder
from bilink.runs.made import construct_run, convert_run

MODELS = {
    "rescal": 3,
    "distmult": 4,
    "complex": 3,
    "hole": 6,
    "transe": 4,
    "transe-l1": 4,
    "rotate": 3,
    "cp": 3,
    "simple": 3,
    "quate": 2,
    "analogy": 4,
    "complex-reciprocal": 3,
    "hole-reciprocal": 5,
}
MARGIN = {"loss": "margin", "epochs": 6, "threads": 1, "learning_rate": 0.1}
SOFTMAX = {"loss": "softmax", "epochs": 4, "threads": 1, "batch_size": 16, "negatives": 0}
SAMPLED = {**SOFTMAX, "negatives": 8, "queries": "weighted"}


def small_graph() -> Graph:
    """Thirty people in five families: parents, children, spouses, and where they live."""
    random = np.random.default_rng(0)
    names = [f"{family}{i}" for family in "abcde" for i in range(6)]
    facts = []
    for f in range(5):
        p = 6 * f
        facts += [(p, 0, p + 1), (p + 1, 0, p)]  # married
        for child in range(2, 6):
            for parent in (0, 1):
                facts += [(p + parent, 1, p + child), (p + child, 2, p + parent)]
        facts += [(p + i, 3, 30 + f % 3) for i in range(6)]
    facts += [(6 * f + 2, 0, 6 * ((f + 1) % 5) + 3) for f in range(5)]
    triples = random.permutation(np.array(facts, dtype=np.int32))
    cuts = np.split(triples, [int(0.7 * len(triples)), int(0.85 * len(triples))])
    return Graph(
        "families",
        Vocabulary("entity", (*names, "Rome", "Oslo", "Lima"), {"a0": "Ada", "a1": "Abel"}),
        Vocabulary("relation", ("married", "parent", "child", "lives")),
        *cuts,
    )


def answers_of(run: bilink.Run) -> dict:
    """What a run says, in names and numbers."""
    questions = {
        "tail": {"head": "a0", "relation": "parent", "k": 4},
        "head": {"relation": "lives", "tail": "Rome", "k": 4},
        "relation": {"head": "b0", "tail": "b1", "k": 4},
        "pair": {"relation": "married", "k": 4},
    }
    triples = [("a0", "parent", "a2"), ("Rome", "lives", "Rome"), ("e5", "child", "e0")]
    ranking = run.evaluate("test")
    return {
        "queries": {
            name: [
                (a.head, a.relation, a.tail, a.score, a.probability, a.known)
                for a in run.query(**question, any_entity=True)
            ]
            for name, question in questions.items()
        },
        "scores": run.score(triples).tolist(),
        "mrr": ranking.metrics()["mrr"],
        "accuracy": run.classify("test").to_dict()["accuracy"],
    }


def make_runs(folder: Path) -> dict:
    """All kinds of runs, calibrated and evaluated."""
    graph, made = small_graph(), {}
    for name, dim in MODELS.items():
        options = MARGIN if name == "transe-l1" else SAMPLED
        bilink.train(graph, name, dim, out=folder / name, options={**options, "seed": 3})
    members = [bilink.load(folder / name) for name in ("complex", "transe", "rescal")]
    bilink.combine(members, out=folder / "ensemble")
    bilink.combine(members, out=folder / "ensemble-platt", method="platt")
    convert_run(folder / "transe", "rescal", folder / "converted")
    construct_run(graph, "complex", folder / "constructed")
    members[0].update([("Zoe", "married", "a2"), ("Zoe", "lives", "Oslo")], out=folder / "folded")
    for path in sorted(folder.iterdir()):
        made[path.name] = finished(path)
    stopped = []
    bilink.train(
        graph,
        "distmult",
        4,
        out=folder / "stopped",
        options={**SAMPLED, "seed": 3},
        on_epoch=stopped.append,
        should_stop=lambda: len(stopped) >= 2,
    )
    (folder / "stopped" / ".lock").unlink(missing_ok=True)
    return made


def make_path_runs(folder: Path) -> dict:
    """Runs that hold rules: paths alone, in an ensemble, and with what flows along them."""
    graph = small_graph()
    options = {**SAMPLED, "seed": 3}
    paths = bilink.train(graph, "paths", out=folder / "paths")
    bilink.combine([bilink.train(graph, "complex", 3, options=options), paths], out=folder / "both")
    bilink.train(graph, "ptranse", 4, options=options, out=folder / "ptranse")
    return {path.name: finished(path) for path in sorted(folder.iterdir())}


def finished(path: Path) -> dict:
    """Calibrate and evaluate a run, and leave in its folder what is to stay; what it says."""
    run = bilink.load(path)
    run.calibrate()
    RunFolder(path).write_metrics(run.evaluate("test").to_dict())
    (path / ".lock").unlink(missing_ok=True)
    (path / "checkpoint.safetensors").unlink(missing_ok=True)
    return answers_of(bilink.load(path))


def _settings_of_then(model: str, options: dict) -> dict:
    """What presets said of softmax training when the hashes were made."""
    if options["loss"] != "softmax":
        return options
    then = {"init_scale": 1e-3, "learning_rate": 0.1, "decay": 1.0}
    if not family(model).form.is_distance:
        then |= {"learning_rate": 0.3, "decay": 0.95 if options["negatives"] else 0.97}
        then |= {f"regularization.{rows}": 0.02 for rows in ("entity", "relation")}
        then |= {"regularization.kind": "n3"}
    return {**then, **options}


def trained_parameters() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Of each model and engine, with one thread: the parameters after a few epochs."""
    graph, found = small_graph(), {}
    engines = {
        "margin": MARGIN,
        "margin-adversarial": {
            **MARGIN,
            "negatives": 3,
            "corrupt": "both",
            "plausible": 0.5,
            "constraint": "ball",
            "regularization.entity": 0.01,
        },
        "softmax": SOFTMAX,
        "softmax-n3": {
            **SOFTMAX,
            "regularization.kind": "n3",
            "regularization.entity": 0.01,
            "regularization.relation": 0.01,
            "dropout.entity": 0.1,
            "queries": "weighted",
        },
        "sampled": {**SAMPLED, "optimizer": "adam", "learning_rate": 0.01},
        "rounded": {**SOFTMAX, "rounding": 0.05},
    }
    for name, dim in MODELS.items():
        for engine, options in engines.items():
            if name == "transe-l1" and options["loss"] == "softmax":
                continue
            options = {**_settings_of_then(name, options), "seed": 5, "keep": "last"}
            run = bilink.train(graph, name, dim, options=options)
            found[f"{name} {engine}"] = run.model.entities, run.model.relations
    return found


def digest(arrays: tuple[np.ndarray, ...]) -> str:
    """A hash of the bits."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True)
    if sys.argv[2:] == ["paths"]:
        write(folder / "answers.json", make_path_runs(folder / "runs"))
        return
    parameters = trained_parameters()
    hashes = {name: digest(arrays) for name, arrays in parameters.items()}
    norms = {
        name: [float(np.linalg.norm(a)) for a in arrays] for name, arrays in parameters.items()
    }
    answers = make_runs(folder / "runs")
    for name, content in (("answers", answers), ("hashes", hashes), ("norms", norms)):
        write(folder / f"{name}.json", content)


def write(path: Path, content: dict) -> None:
    """As JSON."""
    path.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
