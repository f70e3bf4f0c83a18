"""Texts of triples: from the bytes of a file to columns of strings.

Rules that hold for every text format: UTF-8; a byte order mark, CRLF line ends and blank lines are
accepted silently; nothing else is stripped, so a space at the edge of a field belongs to the name.
Double quotes mean something only where commas or semicolons separate the fields.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from bilink._text import counted, shortened
from bilink.data.limits import check_fields, read_bytes
from bilink.errors import ConfigError, DataError

NEWLINE, QUOTE, SPACE = 10, 34, 32
SEPARATORS = {"tab": "\t", "comma": ",", "semicolon": ";", "space": " "}
QUOTING = (",", ";")  # separators beside which double quotes mean something
BOM = b"\xef\xbb\xbf"

SAMPLE_LINES = 100
SAMPLE_BYTES = 1 << 20
TRUTH = {"1": 1, "+1": 1, "-1": -1}  # the fourth column of WN11 and FB13

HEADS = ("head", "h", "subject", "subj", "s", "source", "src", "from")
RELATIONS = (
    *("relation", "rel", "r", "predicate", "pred", "p", "property", "relationship"),
    *("edge", "edge_type", "link", "interaction", "type"),
)
TAILS = ("tail", "t", "object", "obj", "o", "target", "dst", "dest", "destination", "to")
ROLES = {
    folded: role
    for role, names in (("h", HEADS), ("r", RELATIONS), ("t", TAILS))
    for name in names
    for folded in (name, f"{name}_id")
}


def read_text(path: Path) -> bytes:
    """The content of a text file: valid UTF-8, lines ending in LF, the last one too."""
    data = read_bytes(path)
    _refuse_other_encodings(data, path)
    data = data.removeprefix(BOM)
    if not data.strip():
        raise DataError(f"{path}: the file is empty")
    if b"\r\n" in data:
        data = data.replace(b"\r\n", b"\n")
    return data if data.endswith(b"\n") else data.removesuffix(b"\r") + b"\n"


def _refuse_other_encodings(data: bytes, path: Path) -> None:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(
            f"{path}: the file is UTF-16; convert it with: iconv -f UTF-16 -t UTF-8 {path.name}"
        )
    if (at := data.find(b"\0")) >= 0:
        raise DataError(
            f"{path}:{line_at(data, at)}: found a NUL byte, so this is a binary file, not a text "
            "of triples. Readable are TSV, CSV, Parquet, N-Triples and Turtle files."
        )
    if data.isascii():
        return
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}:{line_at(data, error.start)}: byte 0x{data[error.start]:02x} is not valid "
            "UTF-8. Convert the file, for example from Latin-1 with: "
            f"iconv -f LATIN1 -t UTF-8 {path.name}"
        ) from None


def line_at(data: bytes, offset: int) -> int:
    """The line number, from 1, of the byte at ``offset``."""
    return data.count(b"\n", 0, offset) + 1


def read_pairs(path: Path) -> list[tuple[str, str]]:
    """The two columns of a small file, split at the first tab."""
    pairs = []
    text = read_text(path)
    check_fields(path, text, 4 * text.count(b"\n"))  # as Python's own strings
    for number, line in enumerate(text.decode().split("\n"), start=1):
        if not line:
            continue
        first, tab, second = line.partition("\t")
        if not (tab and first):
            raise DataError(f"{path}:{number}: expected two columns separated by a tab: {line!r}")
        pairs.append((first, second))
    return pairs


@dataclass(frozen=True)
class Layout:
    """What is needed to read one table."""

    separator: str
    width: int
    header: bool
    order: tuple[int, int, int]  # the positions of head, relation and tail
    truth: int | None = None  # the position of the ±1 column
    share: float = 1.0  # of the sampled lines that have this width


def detect(
    data: bytes, columns: str | None, separator: str | None, header: bool | None
) -> Layout | None:
    """The layout of ``data`` from its first lines and from what the caller knows.

    None where no separator gives any line the right number of fields.
    """
    lines = data[:SAMPLE_BYTES].decode(errors="ignore").split("\n")
    if len(data) > SAMPLE_BYTES:
        lines.pop()  # it may be cut
    lines = [line for line in lines if line][:SAMPLE_LINES]
    candidates = [separator_character(separator)] if separator else list(SEPARATORS.values())
    tabbed = any("\t" in line for line in lines)
    if tabbed and not separator:
        candidates.remove(" ")  # beside tabs, spaces belong to the names
    layouts = [_layout(lines, character, columns, header) for character in candidates]
    best = max(layouts, key=lambda layout: layout.share)  # the first of the best
    return best if best.share or separator or tabbed else None


def _layout(lines: list[str], separator: str, columns: str | None, header: bool | None) -> Layout:
    rows = _split(lines, separator)
    named = columns_by_name(rows[0]) if rows and header is not False else None
    body = rows[1:] if named or header else rows
    order = columns_by_letter(columns) if columns else named or (0, 1, 2)
    width = len(columns) if columns else len(rows[0]) if named else 3
    truth = None
    if named and not columns:
        for i, name in enumerate(map(_fold, rows[0])):
            values = {row[i] for row in body if len(row) > i}
            if name in ("label", "truth", "y") and values and values <= TRUTH.keys():
                truth = i
                break
    elif sum(len(row) == width + 1 and row[-1] in TRUTH for row in body) * 2 > len(body):
        truth, width = width, width + 1
    share = sum(len(row) == width for row in rows) / len(rows) if rows else 0.0
    return Layout(separator, width, bool(named or header), order, truth, share)


def _split(lines: list[str], separator: str) -> list[list[str]]:
    if separator not in QUOTING:
        return [line.split(separator) for line in lines]
    try:
        return [row for row in csv.reader((f"{x}\n" for x in lines), delimiter=separator) if row]
    except csv.Error:  # a field of more than 128 KiB, surely not this separator
        return []


def columns_by_name(names: Sequence[str]) -> tuple[int, int, int] | None:
    """Positions of head, relation and tail in a header, or None where the names are not known."""
    folded = [_fold(name) for name in names]
    letters = "".join(ROLES.get(name, "_") for name in folded)
    if "r" not in letters and len(names) == 3 and "label" in folded:
        at = folded.index("label")
        letters = f"{letters[:at]}r{letters[at + 1 :]}"
    return _places(letters)


def columns_by_letter(columns: str) -> tuple[int, int, int]:
    """Positions of head, relation and tail from letters: "htr"; "_" is a column to pass over."""
    if places := _places(columns):
        return places
    raise ConfigError(
        f"columns must name h, r and t once each, with _ for a column to pass over, "
        f'for example "hrt" or "htr_", not {columns!r}'
    )


def _places(letters: str) -> tuple[int, int, int] | None:
    """The positions of h, r and t, if each of them is there once, and nothing else but _."""
    if sorted(letters.replace("_", "")) != ["h", "r", "t"]:
        return None
    return letters.index("h"), letters.index("r"), letters.index("t")


def separator_character(separator: str) -> str:
    """The character of a separator given by its name ("tab") or as itself."""
    character = SEPARATORS.get(separator, "\t" if separator == "\\t" else separator)
    if len(character) != 1 or not character.isascii() or character in '"\n\r':
        raise ConfigError(
            f"separator must be {', '.join(SEPARATORS)} or one ASCII character, not {separator!r}"
        )
    return character


def _fold(name: str) -> str:
    return name.strip().lstrip(":").casefold().replace(" ", "_")


class Fields(NamedTuple):
    """Where the fields of a text start and end; blank lines are left out."""

    starts: np.ndarray  # (rows, width) offsets
    ends: np.ndarray
    blanks: np.ndarray  # offsets of the newlines of blank lines


class TextTable:
    """The columns of a text, as strings.

    Polars makes the strings.  It neither says where a field is nor refuses stray quotes, so NumPy
    cuts the text as well, but only where that is asked for, where there are quotes, or where the
    text is not regular.  If each line is a row, no field is empty, and there are no more separators
    than this takes, then polars has found what NumPy would find.
    """

    def __init__(self, data: bytes, layout: Layout, path: Path):
        self.data, self.layout, self.path = data, layout, path
        self._quoted = layout.separator in QUOTING and b'"' in data
        check_fields(path, data, data.count(b"\n") + data.count(layout.separator.encode()))
        columns = None if self._quoted else _columns(data, layout)
        self.regular = (
            columns is not None
            and columns.height == data.count(b"\n")
            and columns.height * (layout.width - 1) == data.count(layout.separator.encode())
            and not any(column.has_nulls() for column in columns)
        )
        if not self.regular:
            if len(self.fields.blanks):
                data = np.delete(np.frombuffer(data, np.uint8), self.fields.blanks).tobytes()
            columns = _columns(data, layout)
        if columns is None or (not self.regular and columns.height != len(self.fields.starts)):
            raise DataError(f"{path}: the text cannot be read as a table")
        self.columns = columns.slice(int(layout.header))

    def column(self, i: int, name: str) -> pl.Series:
        """Column ``i`` under another name."""
        return self.columns.to_series(i).alias(name)

    def place(self, offset: int) -> str:
        """The file and line of a byte, as errors name them."""
        return f"{self.path}:{line_at(self.data, offset)}"

    def field(self, row: int, column: int) -> tuple[str, str]:
        """The place of a field in the text, and what it holds there; the header is no row."""
        at = row + self.layout.header, column
        start, end = int(self.fields.starts[at]), int(self.fields.ends[at])
        return self.place(start), self.data[start:end].decode()

    @cached_property
    def fields(self) -> Fields:
        """Where the fields are; those of the header are the first row.

        A line with another number of fields than the table has columns is an error.
        """
        width = self.layout.width
        raw = np.frombuffer(self.data, dtype=np.uint8)
        edges = raw == NEWLINE
        edges |= raw == ord(self.layout.separator)
        if self._quoted:
            edges &= ~self._inside_quotes(raw, edges)
        ends = np.flatnonzero(edges)
        del edges
        starts = np.empty_like(ends)
        starts[0], starts[1:] = 0, ends[:-1] + 1
        last = np.flatnonzero(raw[ends] == NEWLINE)  # the field that closes each line
        widths = np.diff(last, prepend=-1)
        blank = (widths == 1) & (starts[last] == ends[last])
        bad = np.flatnonzero((widths != width) & ~blank)
        if len(bad):
            row = bad[0]
            line = slice(starts[last[row] - widths[row] + 1], ends[last[row]])
            raise self._wrong_width(line, int(widths[row]), len(bad) - 1)
        blanks = ends[last[blank]]
        if len(blanks):
            starts, ends = np.delete(starts, last[blank]), np.delete(ends, last[blank])
        return Fields(starts.reshape(-1, width), ends.reshape(-1, width), blanks)

    def _wrong_width(self, line: slice, found: int, more: int) -> DataError:
        separator, width = self.layout.separator, self.layout.width
        expected = "head, relation and tail" if width == 3 else f"{width} columns"
        named = {"\t": "tabs", ",": "commas", ";": "semicolons", " ": "spaces"}
        if found > width:
            remedy = "If there are more columns, name them, for example --columns hrt_"
        elif separator == "\t":
            remedy = "If the columns are separated by spaces, pass --separator space"
        else:
            remedy = "If the columns are separated by something else, pass it as --separator"
        return DataError(
            f"{self.place(line.start)}: expected {expected} separated by "
            f"{named.get(separator, repr(separator))}, found {counted(found, 'field')}: "
            f"{shortened(self.data[line].decode(), 120)}"
            + (f" (and {counted(more, 'more line')} like it)" if more else "")
            + f". {remedy}."
        )

    def _inside_quotes(self, raw: np.ndarray, edges: np.ndarray) -> np.ndarray:
        """Which bytes stand inside double quotes; a doubled quote leaves and enters again.

        A quote must open at the start of a field and close at its end: a stray one would silently
        swallow the separators after it.
        """
        inside = np.bitwise_xor.accumulate((raw == QUOTE).view(np.uint8)).view(bool)
        quotes = np.flatnonzero(raw == QUOTE)
        opens = inside[quotes]
        before, after = quotes - 1, np.minimum(quotes + 1, len(raw) - 1)
        starts_field = (quotes == 0) | edges[before] | (raw[before] == QUOTE)
        ends_field = edges[after] | (raw[after] == QUOTE)
        stray = np.flatnonzero(~np.where(opens, starts_field, ends_field))
        if len(stray) or inside[-1]:
            at = int(quotes[stray[0]] if len(stray) else quotes[opens][-1])
            raise DataError(
                f"{self.place(at)}: a double quote stands inside a field or is never closed. "
                'Write the field in double quotes and each quote in it twice: "a ""b"" c".'
            )
        return inside


def _columns(data: bytes, layout: Layout) -> pl.DataFrame | None:
    """All columns as strings; a given schema keeps polars from seeing numbers or nulls."""
    if data.startswith(BOM):  # a part of the first name; polars would take it for a mark
        data = BOM + data
    try:
        return pl.read_csv(
            data,
            has_header=False,
            separator=layout.separator,
            quote_char='"' if layout.separator in QUOTING else None,
            schema={f"column_{i}": pl.String for i in range(layout.width)},
        )
    except pl.exceptions.PolarsError:
        return None
