"""Folders of triples: which file is which split, and where the labels are."""

import re
from pathlib import Path
from typing import Any

from bilink.data.files import TripleTable, read_triples
from bilink.data.graph import SPLITS, Split
from bilink.data.numbered import is_libkge, is_openke, read_libkge, read_openke
from bilink.data.text import read_pairs
from bilink.errors import DataError

SPLIT_FILE = re.compile(
    r"(?:freebase_mtr100_mte100-|wordnet-mlj12-)?(train|valid|validation|val|dev|test)(\.[^.]+)?(\.gz)?"
)
NOT_TRIPLES = (".json", ".yaml", ".yml", ".toml", ".md", ".log", ".pkl", ".pckl", ".npy", ".part")
Labels = dict[str, str]
Folder = tuple[list[TripleTable | None], Labels, Labels]


def read_folder(folder: Path, **options: Any) -> Folder:
    """The tables train, valid and test of ``folder``, and labels of entities and relations."""
    labels = read_labels(folder, "entity"), read_labels(folder, "relation")
    if is_libkge(folder):  # before plain files: such a folder often has train.txt as well
        tables, *strings = read_libkge(folder)
        return tables, labels[0] or strings[0], labels[1] or strings[1]
    files = split_files(folder)
    if "train" in files:
        tables = [read_triples(files[s], **options) if s in files else None for s in SPLITS]
        return tables, *labels
    if is_openke(folder):
        return read_openke(folder), *labels
    raise DataError(
        f"{folder}: there is no file train.txt in this folder (.tsv, .csv, .parquet, .nt and .ttl, "
        "and any of them with .gz, are fine too)"
    )


def split_of(file_name: str) -> Split | None:
    """The split that a file's name announces."""
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


def read_labels(folder: Path, kind: str) -> Labels:
    """The labels of ``entity_labels.tsv`` or ``relation_labels.tsv``: name, tab, label."""
    for path in (folder / f"{kind}_labels.tsv", folder / f"{kind}_labels.tsv.gz"):
        if path.is_file():
            return dict(read_pairs(path))
    return {}
