"""Text files as bytes: unpacked, checked, and cut into fields without a Python loop.

Rules that hold for every text format: UTF-8; a byte order mark, CRLF line ends and blank lines are
accepted silently; nothing else is stripped, so a space at the edge of a field belongs to the name.
Double quotes mean something only where commas or semicolons separate the fields.
"""

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bilink._text import counted
from bilink.errors import DataError

NEWLINE, QUOTE, SPACE = 10, 34, 32
SEPARATORS = {"tab": "\t", "comma": ",", "semicolon": ";", "space": " "}
QUOTING = (",", ";")
GZIP_MAGIC = b"\x1f\x8b"
BOM = b"\xef\xbb\xbf"


def read_bytes(path: Path) -> bytes:
    """The content of ``path``, unpacked where it is a gzip file (whatever its name)."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise DataError(f"{path}: this is a folder, not a file of triples") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
    if not data.startswith(GZIP_MAGIC):
        if path.suffix == ".gz" and data:
            raise DataError(f"{path}: the name says gzip but the content is not; rename the file")
        return data
    try:
        return gzip.decompress(data)
    except (EOFError, OSError, zlib.error) as error:
        raise DataError(
            f"{path}: the gzip file is corrupt or cut short ({error}); fetch or make it again"
        ) from None


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


@dataclass(frozen=True)
class Fields:
    """Where the fields of a text of ``width`` columns start and end; blank lines are left out."""

    starts: np.ndarray  # (rows, width) offsets
    ends: np.ndarray
    blanks: np.ndarray  # offsets of the newlines of blank lines


def cut(data: bytes, separator: str, width: int, path: Path) -> Fields:
    """Cut ``data`` into fields; a line with another number of them is an error that names it."""
    raw = np.frombuffer(data, dtype=np.uint8)
    edges = raw == NEWLINE
    edges |= raw == ord(separator)
    if separator in QUOTING and b'"' in data:
        edges &= ~_inside_quotes(data, raw, edges, path)
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
        raise _wrong_width(data, line, separator, width, int(widths[row]), len(bad) - 1, path)
    blanks = ends[last[blank]]
    if len(blanks):
        starts, ends = np.delete(starts, last[blank]), np.delete(ends, last[blank])
    return Fields(starts.reshape(-1, width), ends.reshape(-1, width), blanks)


def _wrong_width(
    data: bytes, line: slice, separator: str, width: int, found: int, more: int, path: Path
) -> DataError:
    expected = "head, relation and tail" if width == 3 else f"{width} columns"
    named = {"\t": "tabs", ",": "commas", ";": "semicolons", " ": "spaces"}
    if found > width:
        remedy = "If there are more columns, name them, for example --columns hrt_"
    elif separator == "\t":
        remedy = "If the columns are separated by spaces, pass --separator space"
    else:
        remedy = "If the columns are separated by something else, pass it as --separator"
    return DataError(
        f"{path}:{line_at(data, line.start)}: expected {expected} separated by "
        f"{named.get(separator, repr(separator))}, found {counted(found, 'field')}: "
        f"{excerpt(data, line)}"
        + (f" (and {counted(more, 'more line')} like it)" if more else "")
        + f". {remedy}."
    )


def excerpt(data: bytes, line: slice, width: int = 120) -> str:
    """The bytes of ``line`` in quotes, cut where they are long."""
    text = data[line].decode(errors="replace")
    return repr(text if len(text) <= width else text[: width - 1] + "…")


def _inside_quotes(data: bytes, raw: np.ndarray, edges: np.ndarray, path: Path) -> np.ndarray:
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
            f"{path}:{line_at(data, at)}: a double quote stands inside a field or is never closed. "
            'Write the field in double quotes and each quote in it twice: "a ""b"" c".'
        )
    return inside


def read_pairs(path: Path) -> list[tuple[str, str]]:
    """The two columns of a small file, split at the first tab."""
    pairs = []
    for number, line in enumerate(read_text(path).decode().split("\n"), start=1):
        if not line:
            continue
        first, tab, second = line.partition("\t")
        if not (tab and first):
            raise DataError(f"{path}:{number}: expected two columns separated by a tab: {line!r}")
        pairs.append((first, second))
    return pairs
