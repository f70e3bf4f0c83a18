"""The target questions: files of questions and of names, asked of a run."""

from functools import cache
from pathlib import Path

from harness import SEEDS, Target, read_seeds

import bilink
from bilink.queries.answers import read_names, read_questions

MOST = 200  # questions of a file that are asked: thousands of them take minutes, as they should


@cache
def _loaded() -> bilink.Run:
    return bilink.load(SEEDS / "run_folders" / "trained")


def run(path: Path) -> None:
    """Ask the questions; names limit the answers."""
    if path.name == "names.txt":
        _loaded().query(head="e1", relation="r", only=read_names(path))
    else:
        _loaded().query_all(read_questions(path)[:MOST], k=3).to_dict()


TARGET = Target("questions", read_seeds(SEEDS / "questions"), run, (b"?", b"e1", b"e2\tr\t", b"r"))
