"""Answers as a small table."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bilink._extras import needs
from bilink._files import replacing
from bilink._text import printable
from bilink.errors import ConfigError


@dataclass(frozen=True)
class Answer:
    """One candidate answer."""

    head: str
    relation: str
    tail: str
    label: str  # of what was asked for, to show to people
    score: float  # higher is more likely; comparable within one question only
    probability: float | None  # None while the scores are not calibrated
    rank: int
    known: bool  # whether the graph holds this triple already


COLUMNS = tuple(Answer.__dataclass_fields__)


class Table:
    """What has rows can be a data frame, a file, or a dictionary for JSON."""

    columns: tuple[str, ...] = COLUMNS

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per answer."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """As ``bilink query --json`` prints it."""
        return {"answers": self.rows()}

    def to_polars(self) -> Any:
        """As a polars data frame."""
        import polars

        numbers: dict[str, Any] = {"score": polars.Float64, "probability": polars.Float64}
        types = {**numbers, "rank": polars.Int64, "known": polars.Boolean}
        schema = {name: types.get(name, polars.String) for name in self.columns}
        return polars.DataFrame(self.rows(), schema=schema)

    def to_pandas(self) -> Any:
        """As a pandas data frame, where pandas is installed."""
        with needs("pandas", extra="pandas", purpose="a pandas data frame"):
            import pandas
        return pandas.DataFrame(self.rows(), columns=list(self.columns))

    def to_csv(self, path: str | Path) -> None:
        """Write the rows, with a header, to a file."""
        with (
            replacing(Path(path)) as temporary,
            open(temporary, "w", newline="", encoding="utf-8") as file,
        ):
            writer = csv.DictWriter(file, fieldnames=self.columns)
            writer.writeheader()
            writer.writerows(self.rows())


class Answers(Table):
    """The answers to one question, best first.  Printed, they are a table."""

    def __init__(self, question: str, answers: list[Answer]):
        self.question = question
        self._answers = answers

    def __len__(self) -> int:
        return len(self._answers)

    def __iter__(self) -> Iterator[Answer]:
        return iter(self._answers)

    def __getitem__(self, i: int) -> Answer:
        return self._answers[i]

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per answer."""
        return [asdict(answer) for answer in self._answers]

    def __repr__(self) -> str:
        labels = [printable(answer.label) for answer in self._answers]
        width = max(map(len, labels), default=0)
        lines = [self.question]
        for answer, label in zip(self._answers, labels, strict=True):
            mark = "known" if answer.known else "new"
            chance = "" if answer.probability is None else f"  {answer.probability:>6.1%}"
            lines.append(
                f"{answer.rank:>4}  {label:<{width}}  {answer.score:>9.3f}{chance}  {mark}"
            )
        return "\n".join(lines)


class AnswerSets(Table):
    """The answers to several questions; as a table, with the question in the first column."""

    columns = ("question", *COLUMNS)

    def __init__(self, sets: Sequence[Answers]):
        self._sets = list(sets)

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


def check_count(k: int) -> None:
    """Complain where no answers are asked for."""
    if k < 1:
        raise ConfigError(f"k must be at least 1, not {k}")
