"""What must hold after a kill, and after what was killed has been gone on with."""

import hashlib
import json
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from shutil import copy
from typing import Any

import numpy as np

import bilink
from bilink.errors import BilinkError
from bilink.paths.model import PathModel
from bilink.runs.audit import kept_doubts
from bilink.runs.folder import RunFolder

_TIMES = ("seconds", "triples_per_second", "validation_seconds")
# Their timings differ; what they say is compared by ``examine`` or in ``report.json``.
_NOT_COMPARED = ("metrics.json", "trials.db", "report.md", "trials.png")

State = dict[str, Any]


def examine(path: Path) -> State:
    """What a user finds at ``path``: a run and what is known of it, or a sentence."""
    try:
        run = bilink.load(path)
        calibration = run.calibration
        return {
            "model": _digest(run),
            "metrics": without_times(RunFolder(path).read_metrics(run.digest)) or None,
            "probability": calibration and calibration.to_dict(),
            "doubts": kept_doubts(run),
        }
    except BilinkError as error:
        return {"error": str(error)}


def _digest(run: Any) -> str:
    """A digest of all parameters."""
    digest = hashlib.sha256()
    for _, model in sorted({**run.models, **run.path_models}.items()):
        if isinstance(model, PathModel):
            arrays = [model.rules.paths, *model.weights.values()]
        else:
            arrays = [model.entities, model.relations]
        for array in arrays:
            digest.update(np.ascontiguousarray(array).tobytes())
    for array in getattr(run.scorer, "weights", {}).values():
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def without_times(value: Any) -> Any:
    """The same JSON without how long it took."""
    if isinstance(value, dict):
        kept = {key: part for key, part in value.items() if key not in _TIMES}
        return {key: without_times(part) for key, part in kept.items()}
    return [without_times(part) for part in value] if isinstance(value, list) else value


def contents(folder: Path) -> dict[str, Any]:
    """What the files of a folder hold, as far as it is the same each time; locks are left out."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_dir() or path.name.endswith("lock") or path.name in _NOT_COMPARED:
            continue
        if path.suffix == ".jsonl":
            lines = path.read_text().splitlines()
            found[name] = [_record(line) for line in lines]
        elif path.name == "report.json":
            found[name] = without_times(json.loads(path.read_text()))
        else:
            found[name] = path.read_bytes()
    return found


def _record(line: str) -> Any:
    try:
        return without_times(json.loads(line))
    except ValueError:  # a line that a kill cut short
        return line


def changed(before: dict[str, Any], after: dict[str, Any], out: str = "\0") -> list[str]:
    """Files that are not the same, but for those in ``out``."""
    names = sorted(before.keys() | after.keys())
    others = [name for name in names if not name.startswith(f"{out}/")]
    return [name for name in others if before.get(name) != after.get(name)]


def stale(state: State, right: list[State]) -> Iterator[str]:
    """What does not belong to the model that is loaded, by states that are right."""
    same = [one for one in right if one.get("model") == state["model"]]
    if not same:
        yield "the model is neither the former one nor the new one"
        return
    for part in ("metrics", "probability", "doubts"):
        if state[part] is not None and all(state[part] != one[part] for one in same):
            yield f"{part} of another model"


def ended_trials(folder: Path) -> dict[int, str]:
    """The outcomes of a search's trials that have ended, as its database has them now."""
    with tempfile.TemporaryDirectory() as other:  # reading may roll back what was not committed
        for path in folder.glob("trials.db*"):
            copy(path, other)
        if not (Path(other) / "trials.db").exists():
            return {}
        with sqlite3.connect(Path(other) / "trials.db") as database:
            tables = {name for (name,) in database.execute("select name from sqlite_master")}
            if not {"trials", "trial_user_attributes"} <= tables:
                return {}
            rows = database.execute(
                "select number, value_json from trials join trial_user_attributes using (trial_id)"
                " where key = 'outcome' and state in ('COMPLETE', 'PRUNED', 'FAIL')"
            )
            return dict(rows.fetchall())
