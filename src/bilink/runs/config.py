"""The settings of a run: ``config.toml``, checked."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import tomli_w

import bilink
from bilink._documents import converted, read_toml
from bilink._files import write_text
from bilink.data.graph import FRACTIONS
from bilink.errors import ConfigError, RunError
from bilink.models.storage import digest_of
from bilink.training.config import Config, read_config

VERSION = 1


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


class _Data(msgspec.Struct, forbid_unknown_fields=True):
    """The section ``data`` of a config: the arguments of ``load_graph``, and a fingerprint."""

    source: str
    fingerprint: str
    columns: str | None = None
    separator: str | None = None
    header: bool | None = None
    seed: int = 0
    fractions: tuple[float, float, float] = FRACTIONS
    name: str | None = None


@dataclass(frozen=True)
class _ModelSection:
    name: str
    dim: int


@dataclass(frozen=True)
class _TrainedSections:
    """What stands in the ``config.toml`` of a trained run."""

    data: dict[str, Any]
    model: _ModelSection
    training: dict[str, Any]
    made: dict[str, Any] | None = None


@dataclass(frozen=True)
class _Fingerprint:
    fingerprint: str


@dataclass(frozen=True)
class _WithGraph:
    """The part of ``config.toml`` that names the graph of the run."""

    data: _Fingerprint


def write_sections(path: Path, sections: Mapping[str, Any]) -> None:
    """Write a ``config.toml``, with a digest by which a later edit is noticed."""
    first = {"version": VERSION, "bilink": bilink.__version__, "digest": _digest(sections)}
    write_text(path, tomli_w.dumps({**first, **sections}))


def read_sections(path: Path) -> dict[str, Any]:
    """All of a ``config.toml``, if it is as it was written."""
    sections = _read_sections(path)
    if sections.pop("digest", None) not in (None, _digest(sections)):  # once, there was none
        raise RunError(
            f"{path} was edited, but the run was made with other settings: undo the edit. "
            f"Settings of a run in progress are changed with 'bilink resume {path.parent} "
            "--set key=value', those of a new run with 'bilink train --config FILE'."
        )
    return sections


def read_config_file(path: Path) -> RunConfig:
    """The config of a trained run in a ``config.toml``, which somebody may have edited."""
    return config_of(_read_sections(path), path)


def config_of(sections: dict[str, Any], path: Path) -> RunConfig:
    """The config of a trained run in the sections of ``path``."""
    if "ensemble" in sections or "paths" in sections:
        ensemble = "ensemble" in sections
        kind = "an ensemble, which was fitted" if ensemble else "rules, which were mined"
        raise RunError(f"{path} is of {kind} and not trained")
    found = converted(sections, _TrainedSections, str(path))
    source = read_source(found.data, path)
    try:
        training = read_config(found.training)
    except ConfigError as error:
        raise RunError(f"{path}: {error}") from None
    return RunConfig(
        data=source,
        fingerprint=found.data["fingerprint"],
        model=found.model.name,
        dim=found.model.dim,
        training=training,
        made=found.made,
    )


def fingerprint_of(sections: dict[str, Any], path: Path) -> str:
    """The fingerprint of the graph in the sections of ``path``, of any kind of run."""
    return converted(sections, _WithGraph, str(path)).data.fingerprint


def read_source(data: Any, path: Path) -> dict[str, Any]:
    """The arguments of ``load_graph`` in the section ``data`` of a config."""
    converted(data, _Data, f"{path}: [data]")
    return {key: value for key, value in data.items() if key != "fingerprint"}


def _read_sections(path: Path) -> dict[str, Any]:
    data = read_toml(path, dict[str, Any])
    version = converted(data.get("version"), int, f"{path}: version")
    if version != VERSION:
        raise RunError(
            f"{path} has version {version} of the run format; this bilink reads version {VERSION}. "
            "Upgrade bilink, or train the run again."
        )
    return data


def _digest(sections: Mapping[str, Any]) -> str:
    """A digest of what a run was made with; where its data lay makes no difference."""
    plain = {key: value for key, value in sections.items() if key not in ("version", "bilink")}
    data = plain.pop("data", None)
    fingerprint = data.get("fingerprint") if isinstance(data, dict) else None
    return digest_of({**plain, "fingerprint": fingerprint}).hexdigest()[:16]
