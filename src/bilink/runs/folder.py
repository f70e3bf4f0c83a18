"""The run folder.

    config.toml              what is needed to repeat the run
    graph.safetensors        the three splits, as ids, and the triples that are given as false
    vocabulary.json          the names behind the ids
    history.jsonl            one object per epoch
    checkpoint.safetensors   where training stands; ``bilink resume`` goes on from it
    model.safetensors        the finished model
    metrics.json             what ``bilink evaluate`` and ``bilink classify`` found
    probability.json         what makes probabilities of evidence
    weights.safetensors      of an ensemble, whose members are member-0.safetensors and so on
    audit/                   what ``bilink audit`` found, and the models that it trained

All of it can be read without bilink: JSON, TOML, and safetensors (a JSON header and raw arrays).
Each file is replaced as a whole, so that a crash leaves the last good state.
"""

import json
import re
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

import bilink
from bilink._files import write_error, write_text
from bilink.data.graph import SPLITS, Graph
from bilink.data.loading import load_graph
from bilink.data.vocabulary import Vocabulary
from bilink.errors import BilinkError, ConfigError, RunError
from bilink.models.model import Model
from bilink.models.storage import (
    epochs_of,
    load_model,
    load_tensors,
    save_model,
    save_tensors,
)
from bilink.training.config import Config, read_config

VERSION = 1
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
MEMBER = re.compile(r"member-\d+\.safetensors")
_READING = tuple(signature(load_graph).parameters)  # what a config may say of its data


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """What is needed to repeat a run."""

    data: Mapping[str, Any]  # the arguments of load_graph: the source, and perhaps columns
    fingerprint: str  # of the graph
    model: str
    dim: int
    training: Config  # of the original, where the model was made of another one
    made: Mapping[str, Any] | None = None  # how, where the model was not trained: its certificate

    def to_dict(self) -> dict[str, Any]:
        """As it stands in ``config.toml``."""
        return {
            "data": {**self.data, "fingerprint": self.fingerprint},
            "model": {"name": self.model, "dim": self.dim},
            "training": self.training.to_dict(),
            **({"made": dict(self.made)} if self.made else {}),
        }


class RunFolder:
    """Reads and writes the files of one run."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.checkpoint = self.path / "checkpoint.safetensors"
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
        strangers = {name for name in present - set(FILES) - {AUDIT} if not MEMBER.fullmatch(name)}
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
        self.remove(*(path.name for path in self.path.iterdir() if MEMBER.fullmatch(path.name)))
        self.remove(*reversed(FILES))  # the config first: half a run is none
        self._write_graph(graph)

    def _remove_audit(self) -> None:
        """Remove the models of an audit, and nothing that anyone else may have put beside them."""
        folder = self.path / AUDIT
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
        try:
            import fcntl
        except ImportError:  # not on Windows
            yield
            return
        try:
            file = open(self.path / ".lock", "w")  # noqa: SIM115
        except OSError as error:
            raise write_error(self.path, error) from error
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise RunError(f"another process is training in {self.path}") from None
            self.remove(*(path.name for path in self.path.glob(".*.tmp")))  # left by a crash
            yield

    # -- config, graph, model --------------------------------------------------------------------

    def write_config(self, config: RunConfig) -> None:
        """Replace the config, for example when a run is made longer."""
        self.write_sections(**config.to_dict())

    def write_sections(self, **sections: Any) -> None:
        """Write ``config.toml``, which makes the folder a run."""
        versions = {"version": VERSION, "bilink": bilink.__version__}
        write_text(self.path / "config.toml", tomli_w.dumps({**versions, **sections}))

    def read_sections(self) -> dict[str, Any]:
        """All of ``config.toml``; only its version is checked."""
        self.check()
        return _read_sections(self.path / "config.toml")

    def read_config(self) -> RunConfig:
        """The run's config, checked."""
        self.check()
        return read_config_file(self.path / "config.toml")

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
        try:
            names = json.loads(path.read_text(encoding="utf-8"))
            return Graph(
                name=header["name"],
                entities=Vocabulary("entity", tuple(names["entities"]), names["entity_labels"]),
                relations=Vocabulary(
                    "relation", tuple(names["relations"]), names["relation_labels"]
                ),
                **{split: splits[split] for split in SPLITS},
                negatives={s: splits[s + NEGATIVES] for s in SPLITS if s + NEGATIVES in splits},
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError, BilinkError) as error:
            raise RunError(f"{path} cannot be read or does not fit its graph: {error}") from None

    def write_model(self, model: Model, epochs: int | None = None) -> None:
        """Write the finished model, and after how many epochs it was finished."""
        save_model(model, self.model, epochs)

    @property
    def is_finished(self) -> bool:
        """Whether there is a model of the last epoch; not so in the midst of a longer run."""
        if not self.model.exists():
            return False
        epochs = epochs_of(self.model)
        return epochs is None or epochs >= len(self.read_history())

    def read_model(self) -> Model:
        """The finished model."""
        if not self.model.exists():
            raise RunError(
                f"the run at {self.path} is not finished; go on with 'bilink resume {self.path}'"
            )
        return load_model(self.model)

    # -- history and metrics ---------------------------------------------------------------------

    def read_history(self) -> list[dict[str, Any]]:
        """The records of all epochs; a line cut short by a crash is left out."""
        if not self._history.exists():
            return []
        records: list[dict[str, Any]] = []
        for line in self._history.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                break
            if not isinstance(record, dict) or record.get("epoch") != len(records) + 1:
                break
            records.append(record)
        return records

    def cut_history(self, epochs: int) -> None:
        """Drop what was recorded after the checkpoint that training goes on from."""
        kept = [record for record in self.read_history() if record["epoch"] <= epochs]
        write_text(self._history, "".join(json.dumps(record) + "\n" for record in kept))

    def append_history(self, record: dict[str, Any]) -> None:
        """Add the record of one epoch."""
        try:
            with open(self._history, "a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
        except OSError as error:
            raise write_error(self._history, error) from error

    def write_metrics(self, metrics: dict[str, Any]) -> None:
        """Keep what an evaluation found, by its ``protocol``; the same one replaces the last."""
        found = {**self._read_json("metrics.json"), metrics["protocol"]: metrics}
        write_text(self.path / "metrics.json", json.dumps(found, indent=1) + "\n")

    def read_probability(self) -> dict[str, Any]:
        """What was learnt about probabilities; nothing where that cannot be read."""
        return self._read_json("probability.json")

    def write_probability(self, found: dict[str, Any]) -> None:
        """Keep what was learnt about probabilities."""
        write_text(self.path / "probability.json", json.dumps(found) + "\n")

    def read_doubts(self, graph: Graph) -> list[dict[str, Any]] | None:
        """The facts that the last audit found doubtful, if it was of this graph."""
        found = self._read_json(f"{AUDIT}/{DOUBTS}")
        doubts = found.get("doubts")
        fits = found.get("graph") == graph.fingerprint and isinstance(doubts, list)
        return doubts if fits else None

    def _read_json(self, name: str) -> dict[str, Any]:
        """The object in a file that can be made again; an empty one where there is none."""
        try:
            found = json.loads((self.path / name).read_text(encoding="utf-8"))
        except (ValueError, RecursionError, OSError):
            return {}
        return found if isinstance(found, dict) else {}


def read_config_file(path: Path) -> RunConfig:
    """The config of a trained run in a ``config.toml``, checked."""
    data = _read_sections(path)
    if "ensemble" in data or "paths" in data:
        kind = "an ensemble, which was fitted" if "ensemble" in data else "rules, which were mined"
        raise RunError(f"{path} is of {kind} and not trained")
    try:
        source = dict(data["data"])
        fingerprint = source.pop("fingerprint")
        if not isinstance(source["source"], str) or set(source) - set(_READING):
            raise TypeError("a proper description of its data")
        name, dim = data["model"]["name"], data["model"]["dim"]
        if not isinstance(name, str) or type(dim) is not int:
            raise TypeError("a proper model")
        return RunConfig(
            data=source,
            fingerprint=fingerprint,
            model=name,
            dim=dim,
            training=read_config(data["training"]),
            made=data.get("made"),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunError(f"{path} lacks {error}; it is damaged or of another program") from None
    except ConfigError as error:
        raise RunError(f"{path}: {error}") from None


def _read_sections(path: Path) -> dict[str, Any]:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        if data["version"] != VERSION:
            raise RunError(
                f"{path} has version {data['version']} of the run format; this bilink reads "
                f"version {VERSION}. Upgrade bilink, or train the run again."
            )
        return data
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise RunError(f"{path} cannot be read: {error}") from None
    except KeyError as error:
        raise RunError(f"{path} lacks {error}; it is damaged or of another program") from None
