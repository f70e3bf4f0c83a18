"""Models on disk: one safetensors file of two arrays, with what they mean in its header."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from bilink._files import replacing
from bilink.errors import BilinkError, RunError
from bilink.models.model import Model
from bilink.models.registry import family as find_family

FORMAT = "bilink-model"
VERSION = 1
_TYPES = {"<f4": "F32", "<f8": "F64", "<i4": "I32", "<i8": "I64"}


def save_model(model: Model, path: Path, epochs: int | None = None) -> None:
    """Write ``model`` to ``path``, whole or not at all; ``epochs`` are those of its training."""
    entities, relations = model.family.export(model.entities, model.relations)
    header = {
        "format": FORMAT,
        "version": str(VERSION),
        "model": model.family.name,
        "dim": str(model.dim),
    }
    if epochs is not None:
        header["epochs"] = str(epochs)
    tensors = {"entities": entities, "relations": relations.astype(entities.dtype)}
    save_tensors(tensors, header, path)


def epochs_of(path: Path) -> int | None:
    """After how many epochs a model was finished; None where its file does not say so."""
    _, header = load_tensors(path, FORMAT, VERSION, names=())
    found = header.get("epochs", "")
    return int(found) if found.isdecimal() else None


def load_model(path: Path) -> Model:
    """Read a model written by ``save_model``."""
    tensors, header = load_tensors(path, FORMAT, VERSION)
    try:
        family, dim = find_family(header["model"]), int(header["dim"])
        entities, relations = family.restore(tensors["entities"], tensors["relations"])
        return Model(family, dim, entities, relations)
    except (KeyError, ValueError) as error:
        raise RunError(f"{path} is damaged: its header lacks or garbles {error}") from None
    except BilinkError as error:
        raise RunError(f"{path}: {error}") from None


def save_tensors(tensors: dict[str, np.ndarray], header: dict[str, str], path: Path) -> None:
    """Write arrays and a header of strings, whole or not at all.

    The format is safetensors': a length, a JSON header, the bytes.  Its own writer copies every
    array first; this one does not, because checkpoints are made while memory is at its fullest.
    """
    description: dict[str, Any] = {"__metadata__": header}
    end = 0
    for name, array in tensors.items():
        start, end = end, end + array.nbytes
        description[name] = {
            "dtype": _TYPES[array.dtype.str],
            "shape": list(array.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(description).encode()
    text += b" " * (-len(text) % 8)
    with replacing(path) as temporary, open(temporary, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in tensors.values():
            file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def load_tensors(
    path: Path, kind: str, version: int, names: Sequence[str] | None = None
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Read arrays and header, and check that the file is of this ``kind`` and ``version``.

    ``names`` are the arrays to read, or all.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            _check_header(path, header, kind, version)
            names = file.keys() if names is None else names
            return {name: file.get_tensor(name) for name in names}, header
    except FileNotFoundError:
        raise RunError(f"{path} does not exist") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise RunError(
            f"{path} cannot be read ({error}); it is damaged or no file of bilink's"
        ) from None


def _check_header(path: Path, header: dict[str, str], kind: str, version: int) -> None:
    if header.get("format") != kind:
        raise RunError(f"{path} is a {header.get('format') or 'foreign'} file, not a {kind}")
    if header.get("version") != str(version):
        raise RunError(
            f"{path} has version {header.get('version')} of the format {kind}; this bilink reads "
            f"version {version}. Upgrade bilink, or train the run again."
        )
