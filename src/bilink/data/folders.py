"""Folders of triples: which file is which split, where the labels are, and folders of indexes.

LibKGE and OpenKE write triples as indexes and the names in other files.  The indexes are turned
back into names, so that a graph is the same graph whatever files it is from.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from bilink._files import UNFINISHED
from bilink._text import shortened, warn
from bilink.data.files import NAMES, CodedTable, TripleTable, read_table
from bilink.data.graph import SPLITS, Split
from bilink.data.text import Layout, TextTable, read_pairs, read_text
from bilink.errors import DataError

SPLIT_FILE = re.compile(
    r"(?:freebase_mtr100_mte100-|wordnet-mlj12-)?(train|valid|validation|val|dev|test)(\.[^.]+)?(\.gz)?"
)
NOT_TRIPLES = (".json", ".yaml", ".yml", ".toml", ".md", ".log", ".pkl", ".pckl", ".npy", ".part")
Labels = dict[str, str]
Folder = tuple[Sequence[TripleTable | CodedTable | None], Labels, Labels]
Names = dict[str, np.ndarray]  # by kind, the names in the order of their indexes
KINDS = ("entity", "relation")
_DIGITS = 20  # more are no index; Python refuses to convert some thousands of them


def read_folder(folder: Path, **options: Any) -> Folder:
    """The tables train, valid and test of ``folder``, and labels of entities and relations."""
    if (folder / UNFINISHED).exists():
        raise DataError(f"{folder}: not all of its files were written; make the folder again")
    labels = _read_labels(folder, "entity"), _read_labels(folder, "relation")
    if (folder / "train.del").exists():  # as of LibKGE, which often has train.txt as well
        tables, *strings = _read_libkge(folder)
        return tables, labels[0] or strings[0], labels[1] or strings[1]
    files = split_files(folder)
    if "train" in files:
        tables = [read_table(files[s], **options) if s in files else None for s in SPLITS]
        return tables, *labels
    if all((folder / f"{file}2id.txt").exists() for file in ("train", *KINDS)):
        return _read_openke(folder), *labels
    raise DataError(
        f"{folder}: there is no file train.txt in this folder (.tsv, .csv, .parquet, .nt and .ttl, "
        "and any of them with .gz, are fine too)"
    )


def split_of(file_name: str) -> Split | None:
    """The split that a file's name stands for; None for another file."""
    match = SPLIT_FILE.fullmatch(file_name.casefold())
    if match is None or match[2] in NOT_TRIPLES:
        return None
    return "valid" if match[1] in ("val", "dev", "validation") else match[1]  # type: ignore[return-value]


def split_files(folder: Path) -> dict[str, Path]:
    """The file of each split that ``folder`` has; two for one split are an error."""
    files: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        split = split_of(path.name)
        if split is None or not path.is_file():
            continue
        if split in files:
            raise DataError(
                f"{folder}: both {files[split].name} and {path.name} could be the {split} split; "
                "move one of them away"
            )
        files[split] = path
    return files


def _read_labels(folder: Path, kind: str) -> Labels:
    """The labels of ``entity_labels.tsv`` or ``relation_labels.tsv``: name, tab, label."""
    for path in (folder / f"{kind}_labels.tsv", folder / f"{kind}_labels.tsv.gz"):
        if path.is_file():
            return dict(read_pairs(path))
    return {}


def _read_libkge(folder: Path) -> Folder:
    """Triples of indexes (head, relation, tail); names and labels are lines "index, tab, name"."""
    names, labels = {}, {}
    for kind in KINDS:
        path = folder / f"{kind}_ids.del"
        if not path.exists():
            raise DataError(
                f"{folder}: train.del holds indexes, as LibKGE writes them, but {path.name} with "
                "the names is missing; add it, or rename train.del to train.tsv if it holds names"
            )
        names[kind] = _by_index(read_pairs(path), path)
        strings = folder / f"{kind}_strings.del"
        pairs = read_pairs(strings) if strings.exists() else []
        known = {str(i): name for i, name in enumerate(names[kind])}
        labels[kind] = {known[i]: label for i, label in pairs if i in known}
    tables = [_table(folder / f"{s}.del", names, (0, 1, 2), first_line=False) for s in SPLITS]
    return tables, labels["entity"], labels["relation"]


def _read_openke(folder: Path) -> list[TripleTable | None]:
    """Triples of indexes (head, tail, relation); names are lines "name, index"; counts first."""
    names = {}
    for kind in KINDS:
        path = folder / f"{kind}2id.txt"
        text = _after_count(read_text(path), path).decode()
        lines = [line.rstrip() for line in text.split("\n")]
        pairs = [line.rpartition("\t" if "\t" in line else " ") for line in lines if line]
        names[kind] = _by_index([(index, name.rstrip()) for name, _, index in pairs], path)
    return [_table(folder / f"{s}2id.txt", names, (0, 2, 1), first_line=True) for s in SPLITS]


def _by_index(pairs: list[tuple[str, str]], path: Path) -> np.ndarray:
    """Names in the order of their indexes, which must be 0..n-1, each once."""
    names = np.empty(len(pairs), dtype=object)
    for index, name in pairs:
        known = index.isdecimal() and len(index) < _DIGITS and int(index) < len(pairs)
        if not known or names[int(index)] is not None:
            raise DataError(
                f"{path}: the index {shortened(index)} of {shortened(name)} is not one of 0 to "
                f"{len(pairs) - 1}, each used once"
            )
        names[int(index)] = name
    if len(set(names)) < len(names) or "" in names:
        raise DataError(f"{path}: a name is empty or occurs twice")
    return names


def _table(
    path: Path, names: Names, order: tuple[int, int, int], *, first_line: bool
) -> TripleTable | None:
    """The triples of a file of indexes, as names; None where there are none."""
    if not path.exists():
        return None
    data = re.sub(rb"[ \t]+\n", b"\n", read_text(path))
    if first_line:  # made blank, so that errors name the right line
        data = b"\n" + _after_count(data, path)
    if not data.strip():
        return None
    separator = "\t" if b"\t" in data else " "
    table = TextTable(data, Layout(separator, 3, False, order), path)
    series = []
    for name, i in zip(NAMES, order, strict=True):
        kind = "relation" if name == "relation" else "entity"
        ids = table.column(i, name).cast(pl.Int64, strict=False).fill_null(-1).to_numpy()
        wrong = (ids < 0) | (ids >= len(names[kind]))
        if wrong.any():
            place, index = table.field(int(wrong.argmax()), i)
            raise DataError(f"{place}: there is no {kind} with the index {shortened(index)}")
        series.append(pl.Series(name, names[kind].tolist(), dtype=pl.String).gather(ids))
    return TripleTable(pl.DataFrame(series))


def _after_count(data: bytes, path: Path) -> bytes:
    """The lines after the first, which must be a number and should be the number of the others."""
    count, _, rest = data.partition(b"\n")
    if not count.strip().isdigit():
        raise DataError(
            f"{path}:1: the first line of an OpenKE file is the number of lines that follow, "
            f"found {shortened(count.decode())}; add it"
        )
    lines = len([line for line in rest.split(b"\n") if line.strip()])
    if len(count) >= _DIGITS or int(count) != lines:
        said = shortened(count.decode())
        warn(f"{path}: the first line says {said}, but {lines:,} lines follow")
    return rest
