"""One file of triples, in any of the formats that bilink reads."""

from collections.abc import Iterable, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from bilink._text import counted, shortened, warn
from bilink.data.limits import check_bytes
from bilink.data.rdf import RDF_ENDINGS, read_rdf
from bilink.data.text import (
    SPACE,
    TRUTH,
    TextTable,
    columns_by_letter,
    columns_by_name,
    detect,
    line_at,
    read_text,
)
from bilink.errors import DataError

NAMES = ("head", "relation", "tail")
NONE = pl.DataFrame(schema=dict.fromkeys(NAMES, pl.String))
_PARQUET = ("parquet", "pq")
LARGE = 1 << 25  # bytes from which a text is large
_CELL = 16  # bytes of a cell of a data frame, however often its text is repeated


@dataclass(frozen=True)
class TripleTable:
    """The triples of one file as names, in file order."""

    frame: pl.DataFrame  # string columns head, relation, tail
    labels: np.ndarray | None = None  # int8, +1 true and -1 false, where the file says so

    def __len__(self) -> int:
        return self.frame.height

    def labelled(self, label: int) -> pl.DataFrame:
        """The triples with this label; without labels all are true."""
        if self.labels is None:
            return self.frame if label > 0 else self.frame.clear()
        return self.frame.filter(self.labels == label)


@dataclass(frozen=True, eq=False)
class CodedTable:
    """The triples of one large text as numbers, all of them true, and the names of the numbers."""

    triples: np.ndarray  # int32
    entities: list[str]
    relations: list[str]

    def __len__(self) -> int:
        return len(self.triples)

    def labelled(self, label: int) -> "CodedTable | pl.DataFrame":
        """The triples with this label."""
        return self if label > 0 else NONE


def read_triples(
    path: str | Path,
    *,
    columns: str | None = None,
    separator: str | None = None,
    header: bool | None = None,
) -> TripleTable:
    """Read a TSV, CSV, space separated, Parquet, N-Triples or Turtle file, packed by gzip or not.

    What is not given is detected.  ``columns`` is the order of the columns as letters ("htr", with
    "_" for a column to pass over); ``separator`` is "tab", "comma", "semicolon", "space" or one
    character; ``header`` says whether the first line holds names of columns.
    """
    path, kind = Path(path), _kind(path)
    if kind in _PARQUET:
        return _read_parquet(path, columns)
    if f".{kind}" in RDF_ENDINGS:
        return TripleTable(read_rdf(path, f".{kind}", NAMES))
    return _read_table(path, read_text(path), columns, separator, header)


def read_table(
    path: str | Path,
    *,
    columns: str | None = None,
    separator: str | None = None,
    header: bool | None = None,
) -> TripleTable | CodedTable:
    """As ``read_triples``, but the names of a large text are numbered while it is read."""
    path = Path(path)
    if _kind(path) in _PARQUET or f".{_kind(path)}" in RDF_ENDINGS:
        return read_triples(path, columns=columns)
    data = read_text(path)
    if len(data) >= LARGE:
        from bilink.data.coding import code  # which needs a compiler

        layout = detect(data, columns, separator, header)
        coded = code(data, layout, path) if layout is not None else None
        if coded is not None:
            return CodedTable(*coded)
    return _read_table(path, data, columns, separator, header)


def _kind(path: str | Path) -> str:
    return Path(path).name.casefold().removesuffix(".gz").rpartition(".")[2]


def _read_table(
    path: Path, data: bytes, columns: str | None, separator: str | None, header: bool | None
) -> TripleTable:
    layout = detect(data, columns, separator, header)
    if layout is None:
        start = len(data) - len(data.lstrip(b"\n"))
        line = slice(start, data.index(b"\n", start))
        raise DataError(
            f"{path}:{line_at(data, start)}: expected head, relation and tail separated by tabs, "
            f"commas, semicolons or spaces, found {shortened(data[line].decode(), 120)}. "
            "If another character separates them, pass it as --separator."
        )
    table = TextTable(data, layout, path)
    frame = pl.DataFrame(
        [table.column(i, name) for i, name in zip(layout.order, NAMES, strict=True)]
    )
    spaced = ((x.str.starts_with(" ") | x.str.ends_with(" ")).any() for x in frame)
    if not table.regular or any(spaced):
        _check_names(table, frame)
    if layout.truth is None:
        return TripleTable(frame)
    labels, bad = _truth(table.column(layout.truth, "label"))
    if bad is not None:
        place, label = table.field(bad, layout.truth)
        raise DataError(f"{place}: the label of a triple must be 1 or -1, not {label!r}")
    return TripleTable(frame, labels)


def _check_names(table: TextTable, frame: pl.DataFrame) -> None:
    """Refuse empty names, and warn of spaces at their edges, which are easily a mistake."""
    raw, layout = np.frombuffer(table.data, dtype=np.uint8), table.layout
    spaced, first = 0, len(raw)
    for column, name in zip(layout.order, NAMES, strict=True):
        starts = table.fields.starts[layout.header :, column]
        ends = table.fields.ends[layout.header :, column]
        empty = _missing(frame[name])
        if n := int(empty.sum()):
            more = f" ({counted(n, 'line')} in all)" if n > 1 else ""
            raise DataError(
                f"{table.place(int(starts[empty.argmax()]))}: the {name} is empty; give it a name "
                f"or remove the line{more}"
            )
        edge = (raw[starts] == SPACE) | (raw[ends - 1] == SPACE)
        if edge.any():
            spaced, first = spaced + int(edge.sum()), min(first, int(starts[edge.argmax()]))
    if spaced:
        warn(
            f"{table.place(first)}: {counted(spaced, 'name')} with a space at the start or the "
            "end; the space is kept as a part of the name"
        )


def _truth(values: pl.Series) -> tuple[np.ndarray, int | None]:
    """±1 as int8, and the first row that is neither."""
    labels = values.replace_strict(TRUTH, default=0, return_dtype=pl.Int8).fill_null(0).to_numpy()
    return labels, None if labels.all() else int((labels == 0).argmax())


def _read_parquet(path: Path, columns: str | None) -> TripleTable:
    if path.is_dir() or not path.exists():
        raise DataError(f"{path}: {'a folder, not a file' if path.exists() else 'no such file'}")
    try:
        scan = pl.scan_parquet(path, glob=False)
        width = len(scan.collect_schema())
        check_bytes(path, _CELL * width * scan.select(pl.len()).collect().item())
        table = scan.collect()
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as Parquet: {error}") from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of Rust's, which is no Exception
            raise
        raise DataError(f"{path}: cannot be read as Parquet: the file is damaged") from None
    return table_of_frame(table, str(path), columns)


def table_of_frame(table: pl.DataFrame, where: str, columns: str | None = None) -> TripleTable:
    """The triples of a data frame; columns by letters, by known names, or the first three."""
    order = columns_by_letter(columns) if columns else columns_by_name(table.columns) or (0, 1, 2)
    if table.width <= max(order):
        raise DataError(
            f"{where}: expected columns head, relation and tail, found {', '.join(table.columns)}"
        )
    if not table.height:
        raise DataError(f"{where}: there are no triples in it")
    frame = pl.DataFrame(
        [_names(table.to_series(i), name, where) for name, i in zip(NAMES, order, strict=True)]
    )
    for i, column in enumerate(table.columns):
        if column.casefold() == "label" and i not in order:
            values = table.to_series(i)
            if values.dtype.is_numeric():
                values = values.cast(pl.Float64).round().cast(pl.Int64, strict=False)
            labels, bad = _truth(values.cast(pl.String, strict=False))
            if bad is not None:
                raise DataError(
                    f"{where}: row {bad + 1}: the label must be 1 or -1, "
                    f"not {table.to_series(i)[bad]!r}; rename or drop the column {column!r}"
                )
            return TripleTable(frame, labels)
    return TripleTable(frame)


def table_in_memory(part: Any, where: str, columns: str | None) -> TripleTable | None:
    """The triples of an iterable, an array or a data frame; None where there are none."""
    if isinstance(part, pl.DataFrame):
        frame = part
    elif hasattr(part, "columns"):  # pandas, which bilink does not import
        frame = pl.DataFrame({str(c): _strings(part[c], where) for c in part.columns})
    else:
        rows = part.tolist() if isinstance(part, np.ndarray) else list(part)
        for i, row in enumerate(rows):
            if isinstance(row, str) or not isinstance(row, Sized) or len(row) != 3:
                raise DataError(f"{where}: row {i + 1}: expected head, relation, tail: {row!r}")
        fields = zip(*rows, strict=True) if rows else ((), (), ())
        frame = pl.DataFrame({n: _strings(c, where) for n, c in zip(NAMES, fields, strict=True)})
    return table_of_frame(frame, where, columns) if frame.height else None


def _strings(values: Iterable[Any], where: str) -> Any:
    values = list(values)
    for i, value in enumerate(values):
        if not isinstance(value, str):
            raise DataError(
                f"{where}: row {i + 1}: names must be strings, not {value!r}; "
                "write str(…) around them"
            )
    try:
        return pl.Series(values, dtype=pl.String)
    except UnicodeEncodeError as error:
        raise DataError(f"{where}: a name is not valid Unicode: {error.object!r}") from None


def _names(series: pl.Series, name: str, where: str) -> pl.Series:
    """A column as strings, none of them missing."""
    try:
        names = series.cast(pl.String).alias(name)
    except pl.exceptions.PolarsError:
        raise DataError(
            f"{where}: column {series.name!r} holds {series.dtype}, not names"
        ) from None
    missing = _missing(names)
    if missing.any():
        raise DataError(f"{where}: row {int(missing.argmax()) + 1}: the {name} is missing or empty")
    return names


def _missing(names: pl.Series) -> np.ndarray:
    """Which names are null or empty."""
    return (names.fill_null("") == "").to_numpy()
