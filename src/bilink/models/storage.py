"""Models on disk: one safetensors file of two arrays, with what they mean in its header."""

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from bilink._documents import check_regular
from bilink._files import open_unlinked, replacing
from bilink.errors import BilinkError, RunError
from bilink.models.model import Model
from bilink.models.registry import family as find_family

FORMAT = "bilink-model"
VERSION = 1
NOT_FINITE = "it has parameters that are not finite, so its scores would mean nothing"
_TYPES = {"<f4": "F32", "<f8": "F64", "<i4": "I32", "<i8": "I64"}
MAPPED = 2**28  # bytes of a model's file from which on its arrays stay in the file
_DIGITS = 10  # of a number of epochs, at most


def save_model(
    model: Model, path: Path, epochs: int | None = None, *, graph: str | None = None
) -> str:
    """Write ``model`` to ``path``, whole or not at all; return its digest.

    ``epochs`` are those of its training, ``graph`` is the fingerprint of its graph.
    """
    if not model.is_finite():
        raise RunError(f"{path} is not written: {NOT_FINITE}")
    entities, relations = model.family.export(model.entities, model.relations)
    header = {
        "format": FORMAT,
        "version": str(VERSION),
        "model": model.family.name,
        "dim": str(model.dim),
    }
    if epochs is not None:
        header["epochs"] = str(epochs)
    if graph is not None:
        header["graph"] = graph
    tensors = {"entities": entities, "relations": relations.astype(entities.dtype)}
    return save_with_digest(tensors, header, path)


def epochs_of(path: Path) -> int | None:
    """After how many epochs a model was finished; None where its file does not say so."""
    _, header = load_tensors(path, FORMAT, VERSION, names=())
    found = header.get("epochs", "")
    return int(found) if found.isdecimal() and len(found) < _DIGITS else None


def load_model(path: Path, graph: str | None = None) -> Model:
    """Read a model written by ``save_model``; with ``graph``, an error if it is of another one."""
    return load_model_and_digest(path, graph)[0]


def load_model_and_digest(
    path: Path, graph: str | None = None, *, in_file: bool = False
) -> tuple[Model, str | None]:
    """As ``load_model``, and the digest, which files of early versions do not have.

    With ``in_file``, the arrays stay in the file, as those of large models do.
    """
    large = path.exists() and path.stat().st_size > MAPPED
    read = map_tensors if in_file or large else load_tensors
    tensors, header = read(path, FORMAT, VERSION, graph=graph)
    try:
        family, dim = find_family(header["model"]), int(header["dim"])
        entities, relations = family.restore(tensors["entities"], tensors["relations"])
        model = Model(family, dim, entities, relations)
    except (KeyError, ValueError, TypeError) as error:
        raise RunError(f"{path} is damaged: its header lacks or garbles {error}") from None
    except BilinkError as error:
        raise RunError(f"{path}: {error}") from None
    if not model.is_finite():
        raise RunError(f"{path} is damaged: {NOT_FINITE}")
    return model, header.get("digest")


def save_with_digest(tensors: dict[str, np.ndarray], header: dict[str, str], path: Path) -> str:
    """As ``save_tensors``, with a digest of all of it in the header, which is returned.

    What was found about a model, such as its probabilities, names it by this digest.
    """
    found = digest_of(header)
    for name, array in sorted(tensors.items()):
        found.update(f"{name} {array.dtype.str} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    digest = found.hexdigest()[:16]
    save_tensors(tensors, {**header, "digest": digest}, path)
    return digest


def digest_of(values: Mapping[str, Any]) -> "hashlib._Hash":
    """A hash of plain values, the same in whatever order they stand."""
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode())


def save_tensors(tensors: dict[str, np.ndarray], header: dict[str, str], path: Path) -> None:
    """Write arrays and a header of strings, whole or not at all."""
    with replacing(path) as temporary, TensorFile(shapes_of(tensors), header, temporary) as file:
        for name, array in tensors.items():
            file.write(name, array)


def shapes_of(tensors: Mapping[str, np.ndarray]) -> "Shapes":
    """The types and shapes of arrays."""
    return {name: (array.dtype, array.shape) for name, array in tensors.items()}


Shapes = Mapping[str, tuple[np.dtype, tuple[int, ...]]]


class TensorFile:
    """A new file of arrays of known shapes, whose rows are written in any order.

    The format is safetensors': a length, a JSON header, the bytes.  Its own writer copies every
    array first; this one does not, because files are made while memory is at its fullest.
    """

    def __init__(self, shapes: Shapes, header: dict[str, str], path: Path):
        description: dict[str, Any] = {"__metadata__": header}
        self._starts, end = {}, 0
        for name, (dtype, shape) in shapes.items():
            size = dtype.itemsize * math.prod(shape)
            description[name] = {
                "dtype": _TYPES[dtype.str],
                "shape": list(shape),
                "data_offsets": [end, end + size],
            }
            self._starts[name], end = end, end + size
        text = json.dumps(description).encode()
        text += b" " * (-len(text) % 8)
        self._first = 8 + len(text)
        self._file = os.fdopen(open_unlinked(path, os.O_WRONLY | os.O_TRUNC), "wb")
        self._file.write(len(text).to_bytes(8, "little") + text)

    def write(self, name: str, rows: np.ndarray, row: int = 0) -> None:
        """Put ``rows`` into an array, from its row number ``row`` on."""
        rows = np.ascontiguousarray(rows)
        if rows.size:
            place = self._first + self._starts[name] + row * rows[:1].nbytes
            if self._file.tell() != place:
                self._file.seek(place)
            self._file.write(rows.reshape(-1).view(np.uint8).data)

    def __enter__(self) -> "TensorFile":
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()


def load_tensors(
    path: Path,
    kind: str,
    version: int,
    names: Sequence[str] | None = None,
    graph: str | None = None,
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Read arrays and header, and check that the file is of this ``kind`` and ``version``.

    ``names`` are the arrays to read, or all.  With ``graph``, a fingerprint, a file that names
    another graph is refused.
    """
    if not path.exists():
        raise RunError(f"{path} does not exist")
    check_regular(path)
    try:
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            _check_header(path, header, kind, version)
            check_graph(path, header.get("graph"), graph)
            names = file.keys() if names is None else names
            for name in names:
                if file.get_slice(name).get_dtype() not in _TYPES.values():
                    raise ValueError(f"{name} has numbers of a kind that bilink does not write")
            return {name: file.get_tensor(name) for name in names}, header
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        raise RunError(
            f"{path} cannot be read ({error}); it is damaged or no file of bilink's"
        ) from None


def map_tensors(
    path: Path, kind: str, version: int, graph: str | None = None
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """As ``load_tensors``, but arrays stay in the file: what is looked at is read."""
    _, header = load_tensors(path, kind, version, names=(), graph=graph)
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        description = json.loads(file.read(length))  # which was checked
    types = {name: dtype for dtype, name in _TYPES.items()}
    found = {}
    for name, about in description.items():
        if name == "__metadata__":
            continue
        if about["dtype"] not in types:
            raise RunError(f"{path} is damaged: {name} has numbers of an unknown kind")
        how = np.dtype(types[about["dtype"]]), tuple(about["shape"])
        if math.prod(how[1]):
            offset = 8 + length + about["data_offsets"][0]
            found[name] = np.asarray(np.memmap(path, how[0], "r", offset, how[1]))
        else:
            found[name] = np.empty(how[1], how[0])
    return found, header


def check_graph(path: Path, found: str | None, graph: str | None) -> None:
    """Refuse a file of another graph; those of early versions do not say of which they are."""
    if found is not None and graph is not None and found != graph:
        raise RunError(f"{path} belongs to another graph: its fingerprint is {found}, not {graph}")


def _check_header(path: Path, header: dict[str, str], kind: str, version: int) -> None:
    if header.get("format") != kind:
        raise RunError(f"{path} is a {header.get('format') or 'foreign'} file, not a {kind}")
    if header.get("version") != str(version):
        raise RunError(
            f"{path} has version {header.get('version')} of the format {kind}; this bilink reads "
            f"version {version}. Upgrade bilink, or train the run again."
        )
