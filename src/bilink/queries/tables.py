"""What has rows: as a data frame, as a dictionary for JSON, and as a file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bilink._extras import needs
from bilink._files import replacing, write_text
from bilink._text import html_table, json_text, shortened
from bilink.data.rdf import RDF_ENDINGS, pyoxigraph, rdf_content, write_rdf
from bilink.errors import ConfigError, DataError

TABLES = (".tsv", ".csv", ".parquet", ".json")
_NUMBERS = ("score", "probability", "head probability", "tail probability")
_COUNTS = ("rank", "seen")


class Table:
    """What has rows of the same columns."""

    columns: tuple[str, ...]
    endings: tuple[str, ...] = TABLES  # of the files that it can be written to

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per row."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        raise NotImplementedError

    def to_polars(self) -> Any:
        """As a polars data frame."""
        import polars

        types: dict[str, Any] = dict.fromkeys(_NUMBERS, polars.Float64)
        types |= dict.fromkeys(_COUNTS, polars.Int64) | {"known": polars.Boolean}
        schema = {name: types.get(name, polars.String) for name in self.columns}
        return polars.DataFrame(self.rows(), schema=schema)

    def to_pandas(self) -> Any:
        """As a pandas data frame, where pandas is installed."""
        with needs("pandas", extra="pandas", purpose="a pandas data frame"):
            import pandas
        return pandas.DataFrame(self.rows(), columns=list(self.columns))

    def _repr_html_(self) -> str:
        return html_table(self.columns, [list(row.values()) for row in self.rows()])

    def write(self, path: str | Path) -> None:
        """Write a file, in the format that its name ends in: one of ``endings``."""
        path = Path(path)
        match check_ending(path, self.endings):
            case ".json":
                write_text(path, json_text(self.to_dict()) + "\n")
            case ".nt" | ".ttl":
                write_rdf(path, self._predictions())
            case ending:
                self._write_table(path, ending)

    def content(self, ending: str) -> bytes:
        """What ``write`` would put into a file with this ending: .tsv, .csv, .nt or .json."""
        match ending:
            case ".json":
                return (json_text(self.to_dict(), ascii_only=True) + "\n").encode()
            case ".nt":
                return rdf_content(self._predictions(), ending)
        try:
            frame = self.to_polars()
        except UnicodeEncodeError as error:
            raise DataError(f"a name is not valid Unicode: {error.object!r}") from None
        if ending == ".tsv":
            _check_tsv(frame)
            return frame.write_csv(separator="\t", quote_style="never").encode()
        return frame.write_csv().encode()

    def _predictions(self) -> list[tuple[Any, ...]]:
        keys = ("head", "relation", "tail", "probability")
        return [tuple(row[key] for key in keys) for row in self.rows()]

    def _write_table(self, path: Path, ending: str) -> None:
        frame = self.to_polars()
        if ending == ".tsv":
            _check_tsv(frame)
        with replacing(path) as temporary:
            if ending == ".parquet":
                frame.write_parquet(temporary)
            elif ending == ".csv":
                frame.write_csv(temporary)
            else:  # where quotes mean nothing
                frame.write_csv(temporary, separator="\t", quote_style="never")


def check_ending(path: Path, endings: Sequence[str]) -> str:
    """The ending of a file that can be written; else an error that says what can be."""
    ending = path.suffix.casefold()
    if ending not in endings:
        some = f"{', '.join(endings[:-1])} or {endings[-1]}"
        raise ConfigError(f"{path}: the name of the file must end in {some}")
    if ending in RDF_ENDINGS:
        pyoxigraph(f"writing {path.name}")
    return ending


def _check_tsv(frame: Any) -> None:
    import polars

    for column in frame.select(polars.col(polars.String)):
        bad = column.drop_nulls().str.contains(r"[\t\n\r]")
        if bad.any():
            name = column.drop_nulls()[int(bad.arg_max() or 0)]
            raise DataError(
                f"{shortened(name)} cannot be written to a .tsv file, since it contains a tab or "
                "a line end; choose .csv, .parquet or .json"
            )
