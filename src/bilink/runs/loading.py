"""From a folder to a run."""

from pathlib import Path

from bilink.runs.combined import read_combined
from bilink.runs.folder import RunFolder
from bilink.runs.run import Run
from bilink.runs.trained import read_trained


def load(path: str | Path) -> Run:
    """Read a finished run, of a model or of an ensemble, from its folder."""
    folder = RunFolder(path)
    read = read_combined if "ensemble" in folder.read_sections() else read_trained
    return read(folder)
