"""What some runs can do and others cannot: each use of it in one place."""

from typing import Any

import numpy as np

from bilink.errors import ConfigError
from bilink.runs.run import Run


def new_facts(run: Run, k: int) -> Any:
    """The most probable new facts over all relations."""
    if not hasattr(run, "new_facts"):
        raise ConfigError("this run cannot look through all relations; name one")
    return run.new_facts(k)


def explanation(run: Run, head: str, relation: str, tail: str) -> dict[str, Any]:
    """Why an answer has its place."""
    if not hasattr(run, "explain"):
        raise ConfigError("this run cannot explain its answers")
    return run.explain(head, relation, tail).to_dict()


def calibration(run: Run) -> Any | None:
    """What turns scores into probabilities, or None."""
    return getattr(run, "calibration", None)


def probabilities(run: Run, triples: np.ndarray, scores: np.ndarray) -> list[float | None]:
    """The probability of each triple, or None where the run is not calibrated."""
    return [None] * len(triples)


def reliability(run: Run, relation: int) -> dict[str, Any] | None:
    """How often what is said to be probable is true, for one relation."""
    return None


def audit(run: Run) -> list[dict[str, Any]] | None:
    """The facts of the graph by doubt, as ``bilink audit`` left them, or None."""
    return None
