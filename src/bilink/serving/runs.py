"""The runs of a server: one or several, and what they say to the same question."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bilink.errors import ConfigError, DataError
from bilink.runs.run import Run
from bilink.serving.explorer import Decisions, Explorer
from bilink.serving.failures import UnknownName
from bilink.serving.pools import Background

COMPARED = 100  # answers of each run behind its best that are ranked, too

Row = dict[str, Any]
Names = tuple[str, str, str]  # of a triple


class Runs:
    """Explorers by number, in the order in which they came; the first answers unless told."""

    def __init__(
        self,
        runs: Sequence[Run],
        *,
        decisions: Decisions | None = None,
        last_use: Callable[[], float] = lambda: 0.0,
    ):
        self.background = Background(last_use)
        self._decisions = decisions
        self._explorers: dict[str, Explorer] = {}
        self._names: dict[str, str] = {}
        for run in runs:
            self.add(run)
        if not runs:
            raise ConfigError("give at least one run to serve")

    def add(self, run: Run, name: str | None = None) -> str:
        """Answer for one more run, also while the server runs; its number."""
        explorer = Explorer(run, background=self.background, decisions=self._decisions)
        number = str(len(self._explorers))
        path = getattr(run, "path", None)
        self._names[number] = self._unused(name or (path.name if path else "run"))
        self._explorers[number] = explorer
        explorer.prepare()
        return number

    def add_update(self, run: Run) -> str:
        """Answer for an update of the first run, too; its number."""
        assert run.path is not None
        return self.add(run, f"{self._names['0']}, update {run.path.name}")

    def open(self) -> None:
        """Prepare what takes long, as ``add`` does, after ``close``."""
        for explorer in self._explorers.values():
            explorer.closing.clear()

    def close(self) -> None:
        """End long searches, and prepare nothing more."""
        for explorer in self._explorers.values():
            explorer.closing.set()
        self.background.close()

    def __iter__(self) -> Iterator[tuple[str, Explorer]]:
        return iter(list(self._explorers.items()))

    def __len__(self) -> int:
        return len(self._explorers)

    def __getitem__(self, number: str | None) -> Explorer:
        if number is None:
            return self._explorers["0"]
        if number not in self._explorers:
            rows = [{"name": each, "label": name} for each, name in self._names.items()]
            numbers = ", ".join(self._explorers)
            sentence = f"unknown run {number[:60]!r}; the runs here are {numbers}"
            raise UnknownName(sentence, "unknown-run", rows)
        return self._explorers[number]

    def info(self, number: str | None = None, review: bool = False) -> Row:
        """One run and its graph in a few words, and which others there are."""
        explorer = self[number]
        rows = []
        for each, other in self:
            row = {"id": each, "name": self._names[each]}
            found = other.info()
            for key in ("run", "entities", "relations", "facts", "calibrated", "audited"):
                row[key] = found[key]
            rows.append(row)
        counts = explorer.decisions.counts()
        return {**explorer.info(), "runs": rows, "review": review, "decisions": counts}

    def compare(
        self, head: str | None, relation: str | None, tail: str | None, k: int, **options: Any
    ) -> Row:
        """What each run answers to a question; where they disagree most comes first.

        The rows are the best ``k`` of each run.  A run has no answer where it does not know a name.
        """
        found: dict[str, dict[Names, Row]] = {}
        union: dict[Names, None] = {}
        unknown: Exception | None = None
        for number, explorer in self:
            try:
                answers = explorer.ask(head, relation, tail, k=k, **options)
                if answers["more"]:
                    behind = {"k": COMPARED, "offset": k, **options}
                    behind = explorer.ask(head, relation, tail, **behind)
                    answers["answers"] += behind["answers"]
            except DataError as error:
                unknown = unknown or error
                continue
            rows = {_names(row): row for row in answers["answers"]}
            found[number] = rows
            union.update(dict.fromkeys(list(rows)[:k]))
        if unknown is not None and not found:
            raise unknown
        triples = list(union)
        columns = {number: self._column(number, found[number], triples) for number in found}
        compared = [
            self._compared(names, {number: columns[number][i] for number in columns})
            for i, names in enumerate(triples)
        ]
        compared.sort(key=lambda row: -row["disagreement"])
        return {"runs": [number for number, _ in self], "rows": compared, "note": self._note()}

    def _column(
        self, number: str, ranked: dict[Names, Row], triples: list[Names]
    ) -> list[Row | None]:
        """What one run says of each of the triples, with its row of ``Explorer.score``."""
        scores = self[number].score(triples)["scores"]
        return [
            None
            if "error" in row
            else {**row, "rank": ranked[names]["rank"] if names in ranked else None}
            for names, row in zip(triples, scores, strict=True)
        ]

    def _compared(self, names: Names, column: dict[str, Row | None]) -> Row:
        rows = {number: row for number, row in column.items() if row is not None}
        first = next(iter(rows.values()))
        keys = ("rank", "probability", "score")
        answers = {number: {key: row[key] for key in keys} for number, row in rows.items()}
        return {
            **{key: first[key] for key in first if key not in keys},
            "known": any(row["known"] for row in rows.values()),
            "answers": {number: answers.get(number) for number, _ in self},
            "disagreement": _disagreement(list(answers.values())),
        }

    def _note(self) -> str | None:
        graphs = {explorer.graph.fingerprint for _, explorer in self}
        if len(graphs) < 2:
            return None
        return (
            "These runs were trained on different graphs: what one knows may be new to another, "
            "and a name may mean something else."
        )

    def _unused(self, name: str) -> str:
        taken, found, count = set(self._names.values()), name, 1
        while found in taken:
            count += 1
            found = f"{name} ({count})"
        return found


def _names(row: Row) -> Names:
    return row["head"], row["relation"], row["tail"]


def _disagreement(answers: list[Row]) -> float:
    """How far the runs are apart: in probability, or without it in 1/rank."""
    if all(answer["probability"] is not None for answer in answers):
        values = [answer["probability"] for answer in answers]
    else:
        values = [1 / answer["rank"] if answer["rank"] else 0.0 for answer in answers]
    return max(values) - min(values)
