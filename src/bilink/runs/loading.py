"""From a folder to a run."""

from os import PathLike
from pathlib import Path

from bilink._text import shortened
from bilink.errors import RunError
from bilink.runs.combined import read_combined
from bilink.runs.folder import RunFolder
from bilink.runs.paths import read_paths
from bilink.runs.run import Run
from bilink.runs.trained import read_trained


def load(path: str | Path) -> Run:
    """Read a finished run, of a model, of paths or of an ensemble, from its folder.

    Parameters
    ----------
    path
        The folder that ``train``, ``combine`` or ``Run.save`` made.

    Examples
    --------
    >>> run = bilink.load("runs/mine")  # doctest: +SKIP
    """
    if not isinstance(path, str | PathLike):
        raise RunError(f"expected the folder of a run, not {shortened(str(path))}")
    folder = RunFolder(path)
    sections = folder.read_sections()
    if "ensemble" in sections:
        return read_combined(folder)
    return read_paths(folder) if "paths" in sections else read_trained(folder)
