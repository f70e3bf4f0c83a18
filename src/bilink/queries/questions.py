"""Questions and lists of names from files."""

import csv
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bilink.errors import BilinkError, DataError

FIELDS = ("head", "relation", "tail")
_OPEN = ("", "?")  # what stands for the thing that is asked for


@dataclass(frozen=True)
class Question:
    """A line of a file of questions; what is None is asked for."""

    head: str | None
    relation: str | None
    tail: str | None
    where: str = ""  # file and line, for messages

    @property
    def given(self) -> dict[str, str | None]:
        """The three places by name."""
        return {"head": self.head, "relation": self.relation, "tail": self.tail}

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Say in which line an error is."""
        try:
            yield
        except BilinkError as error:
            raise type(error)(f"{self.where}: {error}" if self.where else str(error)) from None


def read_questions(path: str | Path) -> list[Question]:
    """Read a table of head, relation and tail; an empty cell or ``?`` is what is asked for.

    Commas separate the cells of a ``.csv`` file, where double quotes hold a cell together; tabs
    those of any other, where nothing but they means anything, as in files of triples.  A first
    line with the three names, in any order, is a header.
    """
    path = Path(path)
    with _opened(path) as text:
        rows: Iterable[list[str]] = (line.split("\t") for line in _lines(text))
        if path.suffix == ".csv":
            rows = ([cell.strip() for cell in row] for row in csv.reader(_lines(text)))
        order: tuple[str, ...] = FIELDS
        questions = []
        for number, cells in enumerate(rows, start=1):
            if not any(cells):
                continue
            if number == 1 and sorted(cell.lower() for cell in cells) == sorted(FIELDS):
                order = tuple(cell.lower() for cell in cells)
                continue
            if len(cells) > len(order):
                raise DataError(f"{path}:{number}: {len(cells)} cells; head, relation, tail are 3")
            given = dict(zip(order, cells, strict=False))
            head, relation, tail = (_cell(given.get(field, "")) for field in FIELDS)
            questions.append(Question(head, relation, tail, where=f"{path}:{number}"))
    if not questions:
        raise DataError(f"{path} has no questions; write lines of head, relation and tail")
    return questions


def _lines(text: str) -> list[str]:
    """Cut where the readers of triples do: names may hold what else Unicode calls a line's end."""
    return text.replace("\r\n", "\n").split("\n")


def _cell(text: str) -> str | None:
    return None if text in _OPEN else text


def read_names(path: str | Path) -> list[str]:
    """Read one name per line."""
    with _opened(Path(path)) as text:
        names = [line for line in _lines(text) if line.strip()]
    if not names:
        raise DataError(f"{path} has no names; write one per line")
    return names


@contextmanager
def _opened(path: Path) -> Iterator[str]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"there is no file {path}") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from None
    try:
        yield text
    except csv.Error as error:
        raise DataError(f"{path} cannot be read as a table: {error}") from None
