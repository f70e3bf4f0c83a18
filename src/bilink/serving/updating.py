"""The update of a run with what was decided, beside the server that goes on answering."""

import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from bilink._files import write_error
from bilink.errors import BilinkError, ConfigError, RunError
from bilink.runs.changes import compare_runs
from bilink.runs.folder import UPDATES
from bilink.runs.run import Run
from bilink.runs.update import Update, update_run
from bilink.serving.failures import Refused

INSIDE = "Something went wrong inside bilink; its console says what."


class Updater:
    """Makes one updated run at a time, in ``updates/N`` in the folder of a run.

    ``on_updated`` takes the new run in and returns its id.
    """

    def __init__(self, run: Run, on_updated: Callable[[Run], str | None]):
        self._run, self._on_updated = run, on_updated
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._state = _state("idle")

    def state(self) -> dict[str, Any]:
        """How far the update is, and what it changed."""
        with self._lock:
            return dict(self._state)

    def start(self, epochs: int = 0) -> dict[str, Any]:
        """Begin an update; refused while one is running, or where nothing was decided."""
        decisions = self._run.decisions
        accepted, rejected = (decisions.triples(how) for how in ("accept", "reject"))
        if not accepted and not rejected:
            raise ConfigError("nothing was accepted or rejected yet; decide about some facts first")
        with self._lock:
            if self._state["state"] == "running":
                raise Refused(
                    "An update is running already; ask again when it has ended.", "busy", 409
                )
            self._state = _state("running", step="The update begins.")
        work = threading.Thread(
            target=self._work, args=(accepted, rejected, epochs), name="bilink-update", daemon=True
        )
        work.start()
        return self.state()

    def close(self) -> None:
        """End training after the present epoch."""
        self._stop.set()

    def _tell(self, step: str, progress: float | None = None) -> None:
        with self._lock:
            self._state = {**self._state, "step": step, "progress": progress}

    def _work(self, accepted: list[Any], rejected: list[Any], epochs: int) -> None:
        try:
            found = self._update(accepted, rejected, epochs)
            self._tell("Comparing the runs.")
            changes = compare_runs(self._run, found.run, [*rejected, *accepted]).to_dict()
            changes["counts"] = {
                "accepted": found.facts,
                "rejected": found.rejected,
                "new_entities": len(found.entities),
            }
            name = self._on_updated(found.run)
            ended = _state("done", "The updated run is ready.", progress=1.0)
            ended |= {"run": name, "changes": changes}
        except BilinkError as error:
            ended = {**_state("failed", "The update failed."), "error": str(error)}
        except Exception:
            traceback.print_exc()
            ended = {**_state("failed", "The update failed."), "error": INSIDE}
        with self._lock:
            self._state = ended

    def _update(self, accepted: list[Any], rejected: list[Any], epochs: int) -> Update:
        assert self._run.path is not None
        self._tell("Updating the graph, the embeddings and the rules.")
        done = len(getattr(self._run, "history", ()))

        def tell(record: dict[str, Any]) -> None:
            now = record["epoch"] - done
            self._tell(f"Training: epoch {now:,} of {epochs:,} is done.", now / epochs)

        path = _new_folder(self._run.path / UPDATES)
        try:
            return update_run(
                self._run,
                accepted,
                rejected=rejected,
                epochs=epochs,
                out=path,
                on_epoch=tell if epochs else None,
                should_stop=self._stop.is_set,
            )
        except BaseException:
            with suppress(OSError):  # one that holds nothing is not worth keeping
                (path / ".lock").unlink(missing_ok=True)
                path.rmdir()
            raise


def _state(state: str, step: str = "", progress: float | None = None) -> dict[str, Any]:
    return {
        "state": state,
        "step": step,
        "progress": progress,
        "error": None,
        "run": None,
        "changes": None,
    }


def _new_folder(parent: Path) -> Path:
    """A new folder with the next number."""
    if parent.is_symlink():
        raise RunError(f"{parent} is a link to another folder, which is not touched; remove it")
    try:
        parent.mkdir(exist_ok=True)
        while True:
            taken = [int(p.name) for p in parent.iterdir() if p.name.isascii() and p.name.isdigit()]
            path = parent / str(max(taken, default=0) + 1)
            with suppress(FileExistsError):  # of another server
                path.mkdir()
                return path
    except OSError as error:
        raise write_error(parent, error) from error
