"""Questions from files, and answers as small tables."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

from bilink._text import html_table, printable, shortened
from bilink.data.limits import most_bytes
from bilink.data.rdf import RDF_ENDINGS
from bilink.errors import BilinkError, ConfigError, DataError
from bilink.queries.fitting import LeftOut, left_out_note
from bilink.queries.tables import TABLES, Table


@dataclass(frozen=True)
class Answer:
    """One candidate answer."""

    head: str
    relation: str
    tail: str
    label: str  # of what was asked for, to show to people
    score: float  # higher is more likely; comparable within one question only
    probability: float | None  # None where none were learnt, and for training facts
    rank: int
    known: bool  # whether the graph holds this triple already


COLUMNS = tuple(Answer.__dataclass_fields__)
ENDINGS = (*TABLES, *RDF_ENDINGS)


class Answers(Table):
    """The answers to one question, best first.  Printed, they are a table."""

    columns = COLUMNS
    endings = ENDINGS

    def __init__(
        self,
        question: str,
        answers: list[Answer],
        missing: float | None = None,
        left_out: Sequence[LeftOut] = (),
        more: bool = False,
    ):
        self.question = question
        self.missing = missing  # the share of facts thought missing; None without probabilities
        self.left_out = tuple(left_out)  # candidates that make no sense, without probabilities
        self.more = more  # whether there are answers behind these, where that was looked at
        self._answers = answers

    def to_dict(self) -> dict[str, Any]:
        """As ``bilink query --json`` prints it."""
        left_out = [asdict(part) for part in self.left_out]
        return {"answers": self.rows(), "missing": self.missing, "left_out": left_out}

    def __len__(self) -> int:
        return len(self._answers)

    def __iter__(self) -> Iterator[Answer]:
        return iter(self._answers)

    def __getitem__(self, i: int) -> Answer:
        return self._answers[i]

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per answer."""
        return [asdict(answer) for answer in self._answers]

    def _repr_html_(self) -> str:
        some = any(answer.probability is not None for answer in self._answers)
        columns = ("", "answer", "score", *(["probability"] if some else []), "")
        rows = []
        for a in self._answers:
            chance = "" if a.probability is None else f"{a.probability:.1%}"
            mark = "known" if a.known else "new"
            rows.append([a.rank, a.label, f"{a.score:.3f}", *([chance] if some else []), mark])
        return html_table(columns, rows, title=self.question, note=" ".join(self._notes()))

    def _notes(self) -> list[str]:
        """What is to be known about the answers, below them."""
        notes = []
        if self.missing is not None and any(a.probability is not None for a in self._answers):
            notes.append(probability_note(self.missing))
        if self.left_out:
            notes.append(f"({left_out_note(self.left_out, 'any_entity=True')})")
        return notes

    def __repr__(self) -> str:
        labels = [printable(answer.label) for answer in self._answers]
        width = max(map(len, labels), default=0)
        lines = [self.question]
        some = any(answer.probability is not None for answer in self._answers)
        for answer, label in zip(self._answers, labels, strict=True):
            mark = "known" if answer.known else "new"
            chance = "" if answer.probability is None else f"{answer.probability:.1%}"
            chance = f"  {chance:>6}" if some else ""
            lines.append(
                f"{answer.rank:>4}  {label:<{width}}  {answer.score:>9.3f}{chance}  {mark}"
            )
        return "\n".join([*lines, *self._notes()])


def probability_note(missing: float) -> str:
    """What probabilities are for, in a line below them."""
    return f"(probabilities: if {missing:.0%} of all facts are missing)"


class AnswerSets(Table):
    """The answers to several questions; as a table, with the question in the first column."""

    columns = ("question", *COLUMNS)
    endings = ENDINGS

    def __init__(self, sets: Sequence[Answers]):
        self._sets = list(sets)

    def to_dict(self) -> dict[str, Any]:
        """As ``bilink query --json`` prints it."""
        return {
            "answers": self.rows(),
            "missing": self._sets[0].missing if self._sets else None,
            "left_out": [
                {"question": each.question, **asdict(part)}
                for each in self._sets
                for part in each.left_out
            ],
        }

    def __len__(self) -> int:
        return len(self._sets)

    def __iter__(self) -> Iterator[Answers]:
        return iter(self._sets)

    def __getitem__(self, i: int) -> Answers:
        return self._sets[i]

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per answer, with its question."""
        return [{"question": each.question, **row} for each in self._sets for row in each.rows()]

    def __repr__(self) -> str:
        return "\n\n".join(map(repr, self._sets))

    def _repr_html_(self) -> str:
        return "".join(each._repr_html_() for each in self._sets)


def check_count(k: int) -> None:
    """Complain where no answers are asked for."""
    if not isinstance(k, Integral):
        raise ConfigError(f"k must be a whole number, not {k!r}")
    if k < 1:
        raise ConfigError(f"k must be at least 1, not {k}")


# -- questions ----------------------------------------------------------------------------------

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


def as_questions(questions: Any) -> list[Question]:
    """Questions as they are, or made of (head, relation, tail) with None or ``?`` in them."""
    if isinstance(questions, str) or not isinstance(questions, Iterable):
        raise DataError(
            f"expected a list of questions, not {shortened(str(questions))}; "
            "bilink.read_questions reads a file of them"
        )
    made = []
    for question in questions:
        if isinstance(question, Question):
            made.append(question)
            continue
        if not isinstance(question, Sequence) or isinstance(question, str) or len(question) != 3:
            raise DataError(
                "a question is (head, relation, tail) with None for what is asked, "
                f"not {shortened(str(question))}"
            )
        head, relation, tail = (None if cell in _OPEN else cell for cell in question)
        made.append(Question(head, relation, tail))
    return made


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
    most = most_bytes()
    try:
        with path.open("rb") as file:  # perhaps a pipe
            content = file.read(most + 1)
        if len(content) > most:
            raise DataError(f"{path} has more than {most:,} bytes; split it into smaller files")
        text = content.decode("utf-8-sig")
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
