"""From a folder to a run."""

from pathlib import Path

from bilink.runs.folder import RunFolder
from bilink.runs.run import Run
from bilink.runs.trained import read_trained


def load(path: str | Path) -> Run:
    """Read a finished run from its folder."""
    return read_trained(RunFolder(path))
