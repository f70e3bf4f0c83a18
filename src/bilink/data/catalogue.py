"""Graphs that are known by name: where they come from, and checksums of their files."""

import hashlib
import os
import shutil
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bilink._files import user_cache
from bilink._text import closest
from bilink.data.graph import SPLITS, Split
from bilink.errors import DataError

if TYPE_CHECKING:
    from bilink.data.download import Progress


@dataclass(frozen=True)
class Entry:
    """A graph of the catalogue; sizes count entities and relations over all splits."""

    name: str
    about: str
    entities: int
    relations: int
    triples: tuple[int, int, int]  # train, valid, test
    sha256: tuple[str, str, str] | None = None  # of the uncompressed files, lines ending in LF
    urls: tuple[str, ...] = ()  # archives that hold the splits; the first that works is used
    licence: str = "not stated"


def _tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(x) if isinstance(x, list) else x for key, x in values.items()}


_TEXT = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
ENTRIES: Mapping[str, Entry] = {
    name: Entry(name=name, **_tuples(values)) for name, values in tomllib.loads(_TEXT).items()
}


def entry(name: str) -> Entry:
    """The entry called ``name``, whatever its case."""
    if found := ENTRIES.get(name.casefold()):
        return found
    close = closest(name, list(ENTRIES))
    raise DataError(
        f"{name!r} is neither a file or folder nor a graph of the catalogue"
        + (f"; did you mean {' or '.join(close)}?" if close else f" ({', '.join(ENTRIES)})")
    )


def resolve(name: str) -> Path:
    """The folder of a graph: embedded, in ``$BILINK_DATA``, or in the cache of downloads."""
    known = entry(name)
    if folder := _found(known):
        return folder
    if known.name == "atlas":
        raise DataError("the embedded graph atlas is missing from this installation of bilink")
    if not known.urls:
        raise DataError(
            f"{known.name} cannot be downloaded; put it into a folder of that name and set "
            "BILINK_DATA to the folder that holds it"
        )
    raise DataError(
        f"{known.name} is not on this machine; fetch it with: bilink data get {known.name}"
    )


def is_here(name: str) -> bool:
    """Whether the graph can be loaded without a download."""
    return _found(entry(name)) is not None


def verify(name: str) -> Path:
    """The folder of a graph on this machine, after its checksums were compared."""
    from bilink.data.folders import split_files
    from bilink.data.limits import read_bytes

    known, folder = entry(name), resolve(name)
    if known.sha256 is None:
        return folder
    files = split_files(folder)
    for split, expected in zip(SPLITS, known.sha256, strict=True):
        if split not in files:
            raise DataError(f"{folder}: the {split} split of {known.name} is missing")
        found = hashlib.sha256(read_bytes(files[split]).replace(b"\r\n", b"\n")).hexdigest()
        if found != expected:
            raise DataError(
                f"{files[split]}: this is not the published {split} split of {known.name}: its "
                f"sha256 is {found}, expected {expected}. Remove the folder and fetch it again."
            )
    return folder


def get(name: str, *, progress: "Progress | None" = None) -> Path:
    """The verified folder of a graph, which is downloaded unless it is on this machine."""
    # Imported here, because the network modules of Python take longer to load than all of data.
    from bilink.data.download import extract, fetch, forget

    known = entry(name)
    if is_here(name):
        return verify(name)
    if not known.urls or known.sha256 is None:
        return resolve(name)  # which says what to do instead
    expected = dict(zip(SPLITS, known.sha256, strict=True))
    datasets = user_cache() / "datasets"
    datasets.mkdir(parents=True, exist_ok=True)
    archive = datasets / f"{known.name}.part"
    reasons = []
    for url in known.urls:
        try:
            fetch(url, archive, progress)
            splits = extract(archive, expected)
        except DataError as error:
            reasons.append(str(error))
            continue
        folder = _install(splits, datasets / known.name)
        forget(archive)
        return folder
    raise DataError(f"{known.name} could not be downloaded: " + "; ".join(reasons))


def _install(splits: Mapping[Split, bytes], folder: Path) -> Path:
    """Write all files to a temporary folder, then rename it, so that no graph is incomplete."""
    temporary = Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
    try:
        for split, data in splits.items():
            (temporary / f"{split}.txt").write_bytes(data)
        temporary.chmod(0o755)
        temporary.rename(folder)
    except OSError:
        if not folder.is_dir():  # else another process was faster, with the same bytes
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def _found(known: Entry) -> Path | None:
    places = [user_cache() / "datasets" / known.name]
    if data := os.environ.get("BILINK_DATA"):
        places.insert(0, Path(data) / known.name)
    if known.name == "atlas":
        places = [_embedded_folder(known.name)]
    return next((folder for folder in places if folder.is_dir()), None)


def _embedded_folder(name: str) -> Path:
    return Path(__file__).with_name(name)
