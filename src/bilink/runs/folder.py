"""The run folder.

    config.toml              what is needed to repeat the run
    graph.safetensors        the three splits, as ids, and the triples that are given as false
    vocabulary.json          the names behind the ids
    history.jsonl            one object per epoch
    checkpoint.safetensors   where training stands; ``bilink resume`` goes on from it
    parts/                   the same of a run that is trained in parts (``training.parts``)
    model.safetensors        the finished model
    metrics.json             what ``bilink evaluate`` and ``bilink classify`` found
    probability.json         what makes probabilities of evidence
    weights.safetensors      of an ensemble, whose members are member-0.safetensors and so on
    audit/                   what ``bilink audit`` found, and the models that it trained
    decisions.tsv            what people decided about facts, which nothing replaces
    updates/                 runs that know what was decided, made by ``bilink serve --review``

All of it can be read without bilink: JSON, TOML, and safetensors (a JSON header and raw arrays).
Each file is replaced as a whole, so that a crash leaves the last good state.  Files name what they
belong to: a model its graph (by the graph's fingerprint), metrics, probabilities and doubts their
model (by the digest in its header).  So a crash between two files leaves nothing that misleads:
what belongs to something else is not used.
"""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bilink._documents import converted, read_json, read_json_lines
from bilink._files import append_text, locked, write_error, write_text
from bilink._text import warn
from bilink.data.graph import SPLITS, Graph
from bilink.data.vocabulary import Vocabulary
from bilink.errors import BilinkError, RunError
from bilink.models.model import Model
from bilink.models.storage import (
    check_graph,
    epochs_of,
    load_model_and_digest,
    load_tensors,
    save_model,
    save_tensors,
)
from bilink.runs.config import (
    VERSION,
    RunConfig,
    config_of,
    fingerprint_of,
    read_sections,
    write_sections,
)
from bilink.training.parts import JOURNAL, OURS

GRAPH_FORMAT = "bilink-graph"
NEGATIVES = "_negatives"  # test_negatives stands beside test, where there are any
FILES = (
    "metrics.json",
    "calibration.json",  # of version 0.1.0
    "probability.json",
    "model.safetensors",
    "weights.safetensors",
    "checkpoint.safetensors",
    "history.jsonl",
    "graph.safetensors",
    "vocabulary.json",
    "config.toml",  # what makes a folder a run
)


AUDIT, DOUBTS = "audit", "doubts.json"
PARTS = "parts"
DECISIONS, UPDATES = "decisions.tsv", "updates"
MEMBER = re.compile(r"member-\d+\.safetensors")


def check_folder(folder: Any) -> None:
    """Complain where a path is given in place of a folder."""
    if not isinstance(folder, RunFolder):
        raise RunError(f"write takes a RunFolder; to keep a run in {folder!r}, call run.save")


class RunFolder:
    """Reads and writes the files of one run."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._config = self.path / "config.toml"
        self.checkpoint = self.path / "checkpoint.safetensors"
        self.parts = self.path / PARTS
        self.model = self.path / "model.safetensors"
        self.weights = self.path / "weights.safetensors"
        self._history = self.path / "history.jsonl"

    def member(self, i: int) -> Path:
        """Where an ensemble keeps its i-th model."""
        return self.path / f"member-{i}.safetensors"

    # -- making and checking ---------------------------------------------------------------------

    @contextmanager
    def created(self, force: bool = False) -> Iterator[None]:
        """Make and lock the folder; one that holds anything is refused without ``force``.

        A former run in it stays until ``begin``, so that work that fails before costs nothing.
        """
        if self.path.is_file():
            raise RunError(f"{self.path} is a file; choose another name for the run")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            present = {path.name for path in self.path.iterdir() if path.name[0] != "."}
        except OSError as error:
            raise write_error(self.path, error) from error
        if present and not force:
            raise RunError(
                f"{self.path} exists; choose another --out, go on with "
                f"'bilink resume {self.path}', or overwrite it with --force"
            )
        if kept := present & {DECISIONS, UPDATES}:
            raise RunError(
                f"{self.path} holds {sorted(kept)[0]!r}, the work of people, which is not "
                "overwritten; choose another --out, or move it away"
            )
        strangers = {
            name for name in present - {*FILES, AUDIT, PARTS} if not MEMBER.fullmatch(name)
        }
        inside = (path.name for path in self.parts.glob("*"))
        strangers |= {f"{PARTS}/{name}" for name in inside if not OURS.fullmatch(name)}
        if strangers:
            raise RunError(
                f"{self.path} holds {sorted(strangers)[0]!r}, which is no file of a run; "
                "choose another --out"
            )
        with self.locked():
            yield

    def begin(self, graph: Graph) -> None:
        """Remove what a former run left, and keep the graph of the new one."""
        self._remove_audit()
        self.remove_parts()
        self.remove(*reversed(FILES))  # the config first: half a run is none
        self.remove(*(path.name for path in self.path.iterdir() if MEMBER.fullmatch(path.name)))
        self._write_graph(graph)

    @property
    def is_begun(self) -> bool:
        """Whether there is a state that training goes on from."""
        return self.checkpoint.exists() or (self.parts / JOURNAL).exists()

    def make_parts(self) -> None:
        """Make the folder for parts."""
        self._check_no_link(self.parts)
        try:
            self.parts.mkdir(exist_ok=True)
        except OSError as error:
            raise write_error(self.parts, error) from error

    def remove_parts(self, *names: str) -> None:
        """Remove files of training in parts, or all of them and their folder."""
        self._check_no_link(self.parts)
        try:
            for path in [self.parts / name for name in names] or self.parts.glob("*"):
                if OURS.fullmatch(path.name):
                    path.unlink(missing_ok=True)
            if self.parts.is_dir() and not names:
                self.parts.rmdir()
        except OSError as error:
            raise write_error(self.parts, error) from error

    def _check_no_link(self, folder: Path) -> None:
        if folder.is_symlink():
            raise RunError(f"{folder} is a link to another folder, which is not touched; remove it")

    def _remove_audit(self) -> None:
        """Remove the models of an audit, and nothing that anyone else may have put beside them."""
        folder = self.path / AUDIT
        self._check_no_link(folder)
        try:
            for part in folder.glob("fold-*"):
                shutil.rmtree(part)
            if folder.is_dir():
                self.remove(f"{AUDIT}/{DOUBTS}")
                folder.rmdir()
        except OSError as error:
            raise write_error(folder, error) from error

    def remove(self, *names: str) -> None:
        """Remove files that no longer hold."""
        try:
            for name in names:
                (self.path / name).unlink(missing_ok=True)
        except OSError as error:
            raise write_error(self.path, error) from error

    @property
    def exists(self) -> bool:
        """Whether there is a run, finished or not."""
        return (self.path / "config.toml").exists()

    def check(self) -> None:
        """Complain about a folder that is no run."""
        if not self.path.exists():
            raise RunError(f"there is no run at {self.path}")
        if not self.exists:
            raise RunError(f"{self.path} is no run folder: it has no config.toml")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep a second process from training in the same folder; a dead one holds no lock."""
        with locked(self.path / ".lock", wait=False) as free:
            if not free:
                raise RunError(f"another process is training in {self.path}")
            self.remove_rests()
            yield

    def remove_rests(self) -> None:
        """Remove what a crash has left of files that were being written."""
        rests = [*self.path.glob(".*.tmp"), *self.parts.glob(".*.tmp")]
        self.remove(*(str(path.relative_to(self.path)) for path in rests))

    # -- config, graph, model --------------------------------------------------------------------

    def write_config(self, config: RunConfig) -> None:
        """Replace the config, for example when a run is made longer."""
        self.write_sections(**config.to_dict())

    def write_sections(self, **sections: Any) -> None:
        """Write ``config.toml``, which makes the folder a run."""
        write_sections(self._config, sections)

    def read_sections(self) -> dict[str, Any]:
        """All of ``config.toml``, if it is as it was written."""
        self.check()
        return read_sections(self._config)

    def read_config(self) -> RunConfig:
        """The config of a trained run, checked."""
        return config_of(self.read_sections(), self._config)

    def _write_graph(self, graph: Graph) -> None:
        header = {"format": GRAPH_FORMAT, "version": str(VERSION), "name": graph.name}
        tensors: dict[str, np.ndarray] = {split: graph.split(split) for split in SPLITS}
        tensors |= {f"{split}{NEGATIVES}": part for split, part in graph.negatives.items()}
        save_tensors(tensors, header, self.path / "graph.safetensors")
        names = {
            "entities": graph.entities.names,
            "relations": graph.relations.names,
            "entity_labels": dict(graph.entities.labels),
            "relation_labels": dict(graph.relations.labels),
        }
        write_text(self.path / "vocabulary.json", json.dumps(names, ensure_ascii=True))

    def read_graph(self) -> Graph:
        """The graph that the run was trained on."""
        path = self.path / "vocabulary.json"
        splits, header = load_tensors(self.path / "graph.safetensors", GRAPH_FORMAT, VERSION)
        names = read_json(path, _Names)
        try:
            graph = Graph(
                name=header["name"],
                entities=Vocabulary("entity", tuple(names.entities), names.entity_labels),
                relations=Vocabulary("relation", tuple(names.relations), names.relation_labels),
                **{split: splits[split] for split in SPLITS},
                negatives={s: splits[s + NEGATIVES] for s in SPLITS if s + NEGATIVES in splits},
            )
        except (ValueError, KeyError, TypeError, BilinkError) as error:
            raise RunError(f"{path} does not fit its graph: {error}") from None
        named = fingerprint_of(self.read_sections(), self._config)
        check_graph(self.path / "graph.safetensors", graph.fingerprint, named)
        return graph

    def write_model(self, model: Model, graph: Graph, epochs: int | None = None) -> str:
        """Write the finished model, and after how many epochs it was; returns its digest."""
        return save_model(model, self.model, epochs, graph=graph.fingerprint)

    @property
    def is_finished(self) -> bool:
        """Whether there is a model of the last epoch; not so in the midst of a longer run."""
        if not self.model.exists():
            return False
        epochs = epochs_of(self.model)
        return epochs is None or epochs >= len(self.read_history())

    def read_model(self, graph: Graph, *, in_file: bool = False) -> tuple[Model, str | None]:
        """The finished model and its digest; with ``in_file``, its arrays stay there."""
        if not self.model.exists():
            raise RunError(
                f"the run at {self.path} is not finished; go on with 'bilink resume {self.path}'"
            )
        return load_model_and_digest(self.model, graph.fingerprint, in_file=in_file)

    # -- history, and what was found about the model ----------------------------------------------

    def read_history(self) -> list[dict[str, Any]]:
        """The records of all epochs; a line cut short by a crash is left out."""
        if not self._history.exists():
            return []
        records: list[dict[str, Any]] = []
        for record in read_json_lines(self._history, dict[str, int | float | str | None]):
            if record.get("epoch") != len(records) + 1:
                break
            records.append(record)
        return records

    def cut_history(self, epochs: int) -> None:
        """Drop what was recorded after the checkpoint that training goes on from."""
        kept = [record for record in self.read_history() if record["epoch"] <= epochs]
        write_text(self._history, "".join(json.dumps(record) + "\n" for record in kept))

    def append_history(self, record: dict[str, Any]) -> None:
        """Add the record of one epoch."""
        append_text(self._history, json.dumps(record) + "\n")

    def write_metrics(self, metrics: dict[str, Any], model: str | None) -> None:
        """Keep what an evaluation of the model of this digest found, by its ``protocol``.

        The same protocol replaces the last; results of another model are dropped.
        """
        with locked(self.path / ".metrics.lock", wait=True):  # others may evaluate as well
            found = {**self.read_metrics(model), metrics["protocol"]: {**metrics, "model": model}}
            write_text(self.path / "metrics.json", json.dumps(found, indent=1) + "\n")

    def read_metrics(self, model: str | None) -> dict[str, dict[str, Any]]:
        """What evaluations of the model of this digest found, by protocol."""
        path = self.path / "metrics.json"
        if not path.exists():
            return {}
        try:
            kept = read_json(path, dict[str, dict[str, Any]])
        except RunError as error:
            warn(f"{error}. It is not used; make it again with: bilink evaluate {self.path}")
            return {}
        own = {key: value for key, value in kept.items() if value.get("model") == model}
        if len(own) < len(kept):
            warn(f"{path} has results of another model, which are not used")
        return own

    def write_probability(self, found: dict[str, Any], model: str | None) -> None:
        """Keep what was learnt about probabilities of the model of this digest."""
        text = json.dumps({**found, "model": model}, allow_nan=False)
        write_text(self.path / "probability.json", text + "\n")

    def read_probability(self, model: str | None) -> dict[str, Any] | None:
        """What was learnt about probabilities of the model of this digest, if anything."""
        remedy = f"bilink calibrate {self.path}"
        return self._read_finding("probability.json", dict[str, Any], model, remedy)

    def write_doubts(self, found: dict[str, Any], model: str | None) -> None:
        """Keep what an audit found about the model of this digest; the folder is the audit's."""
        text = json.dumps({**found, "model": model}, indent=1, allow_nan=False)
        write_text(self.path / DOUBTS, text + "\n")

    def read_doubts(self, graph: Graph, model: str | None) -> list[dict[str, Any]] | None:
        """The facts that the last audit found doubtful, if it was of this graph and model."""
        remedy = f"bilink audit {self.path}"
        found = self._read_finding(f"{AUDIT}/{DOUBTS}", _Doubts, model, remedy)
        return found["doubts"] if found and found["graph"] == graph.fingerprint else None

    def _read_finding(
        self, name: str, kind: Any, model: str | None, remedy: str
    ) -> dict[str, Any] | None:
        """The object in a file about a model; with a warning, nothing if it is about another."""
        path = self.path / name
        if not path.exists():
            return None
        try:
            found = read_json(path, dict[str, Any])
            converted(found, kind, str(path))
        except RunError as error:
            warn(f"{error}. It is not used; make it again with: {remedy}")
            return None
        if found.pop("model", None) != model:
            warn(f"{path} belongs to another model and is not used; make it again with: {remedy}")
            return None
        return found


@dataclass(frozen=True)
class _Names:
    """What stands in ``vocabulary.json``."""

    entities: list[str]
    relations: list[str]
    entity_labels: dict[str, str]
    relation_labels: dict[str, str]


@dataclass(frozen=True)
class _Suggestion:
    name: str
    label: str
    probability: float | None = None


@dataclass(frozen=True)
class _Doubt:
    head: str
    relation: str
    tail: str
    head_label: str
    relation_label: str
    tail_label: str
    probability: float | None = None
    score: float | None = None
    side: str | None = None
    suggestion: _Suggestion | None = None


@dataclass(frozen=True)
class _Doubts:
    """The part of ``doubts.json`` that is shown."""

    graph: str
    doubts: list[_Doubt]
