"""The commands that are killed, and the folder that they start from."""

import random
import shutil
from dataclasses import dataclass
from pathlib import Path

_OPTIONS = (
    "--dim 4 --set threads=1 --set epochs={epochs} --set checkpoint_seconds=0 "
    "--set validate_every=2 --set patience=0 --set keep=last"
)
_MARGIN = f"train graph --model transe --preset margin {_OPTIONS}"
_SOFTMAX = f"train graph --model complex --preset softmax {_OPTIONS}"
_PARTS = f"{_MARGIN} --parts 3"
_PATHS = "train graph --model paths --set length=2"
_SEARCH = "search graph --space space.toml --out found"
_SPACE = """\
[search]
method = "random"
trials = 3

[fixed]
model = "distmult"
epochs = 2
threads = 1
checkpoint_seconds = 0

[space]
dim = [2, 3, 4]
learning_rate = { low = 0.01, high = 0.5, log = true }
"""

PREPARATION = (
    f"{_MARGIN.format(epochs=3)} --out margin",
    "evaluate margin",
    "calibrate margin",
    "audit margin --folds 2 --errors 0.4",
    f"{_SOFTMAX.format(epochs=3)} --out softmax",
    "evaluate softmax",
    "calibrate softmax",
    "audit softmax --folds 2 --errors 0.4",
    f"{_PATHS} --out paths",
    "ensemble margin paths --out both",
    "evaluate both",
)


@dataclass(frozen=True)
class Command:
    """A command, what it may change, and how a run that it began is gone on with."""

    name: str
    line: str
    out: str  # the folder that it may change; everything else stays as it is
    run: str  # the run that is then there
    goes_on: bool = False  # with 'bilink resume'
    keeps: bool = False  # the run is there at any moment
    traced: bool = False  # killed at the calls of SQLite
    makes_run: bool = True  # otherwise the run is the one that it reads


def _into(name: str, line: str, out: str = "new", **more: bool) -> Command:
    return Command(name, f"{line} --out {out}", out, out, **more)


COMMANDS = (
    _into("train-margin", _MARGIN.format(epochs=3), goes_on=True),
    _into("train-softmax", _SOFTMAX.format(epochs=3), goes_on=True),
    _into("train-parts", _PARTS.format(epochs=2), goes_on=True),
    _into("train-paths", _PATHS),
    _into("train-force", _MARGIN.format(epochs=2) + " --force", "both", goes_on=True),
    _into("paths-force", _PATHS + " --force", "margin"),
    Command("resume-margin", "resume margin --set epochs=5", "margin", "margin", True, True),
    Command("resume-softmax", "resume softmax --set epochs=5", "softmax", "softmax", True, True),
    _into("ensemble", "ensemble margin softmax paths"),
    _into("ensemble-force", "ensemble softmax paths --force", "margin"),
    Command("search", _SEARCH, "found", "found/best"),
    Command("search-sqlite", _SEARCH, "found", "found/best", traced=True),
    Command(
        "audit",
        "audit margin --folds 2 --errors 0.4 --seed 1",
        "margin/audit",
        "margin",
        keeps=True,
    ),
    _into("update", "update margin --triples new.tsv --epochs 1"),
    _into("update-ensemble", "update both --triples new.tsv"),
    _into("update-force", "update softmax --triples new.tsv --force", "margin"),
    _into("convert", "theory convert margin --to rescal"),
    Command("split", "data split all.tsv --out parts", "parts", "margin", makes_run=False),
    Command("export", "export margin --out vectors", "vectors", "margin", makes_run=False),
    _into("convert-force", "theory convert margin --to rescal --force", "both"),
)


if shutil.which("strace") is None:
    COMMANDS = tuple(command for command in COMMANDS if not command.traced)


def write_inputs(folder: Path) -> None:
    """A small graph with something to learn, new facts, and a space to search."""
    n = 40
    facts = [(f"e{i}", "kind", f"k{i % 4}") for i in range(n)]
    facts += [(f"e{i}", "kind", f"k{(i + 1) % 4}") for i in range(0, n, 5)]  # wrong
    for i in range(n):
        for step in (1, 2, 3):
            near = (i + step) % n
            facts += [(f"e{i}", "before", f"e{near}"), (f"e{near}", "after", f"e{i}")]
    random.Random(0).shuffle(facts)
    (folder / "graph").mkdir()
    for split, part in {"test": facts[:30], "valid": facts[30:80], "train": facts[80:]}.items():
        text = "".join("\t".join(fact) + "\n" for fact in part)
        (folder / "graph" / f"{split}.tsv").write_text(text)
    (folder / "all.tsv").write_text("".join("\t".join(fact) + "\n" for fact in facts))
    (folder / "new.tsv").write_text("new\tbefore\te3\nnew\tkind\tk1\ne1\tnear\te2\n")
    (folder / "space.toml").write_text(_SPACE)
