r"""What people decided about facts: a file beside the run, to which lines are only ever added.

``decisions.tsv`` is a table that people and spreadsheets can read.  Its first line names the graph,
its second the columns; then there is one line per decision, and the last one about a fact holds.
To take a decision back is another line, which names the one that it ``undoes``.  Cells are escaped
so that any name comes back as it was: the backslash and what is not printable, as ``\\``, ``\t``,
``\n``, ``\r`` or the ``\uXXXX`` of Unicode; and what begins like a formula or a quotation gets an
apostrophe before it, so that a spreadsheet takes it for text.

Lines are written whole, under a lock, and are on the disk before anyone is told so.  A line that a
crash cut short is passed over.
"""

import os
import re
import stat
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from bilink._files import locked, open_unlinked, sync_folder, write_error
from bilink._text import counted, shortened
from bilink.data.files import read_triples
from bilink.errors import ConfigError, DataError, RunError
from bilink.queries.tables import Table, check_ending
from bilink.runs.folder import DECISIONS, RunFolder

if TYPE_CHECKING:
    from bilink.runs.run import Run

Decided = Literal["accept", "reject", "unsure"]
DECIDED: tuple[Decided, ...] = get_args(Decided)
Triple = tuple[str, str, str]
LONGEST_REASON = 1_000  # characters
JUDGED = 500  # decisions at once whose probability is noted
VERSION = 1
NONE = "none"  # stands in the file where a decision is taken back
KINDS = ("new", "doubt", "known")
_MOST = 2**30  # bytes of the file
_LAST = 256  # bytes that are compared before what was added is read
_WITH_HINTS = 5  # unknown names of an import that are compared with known ones
_COLUMNS = (
    "time",
    "decision",
    "head",
    "relation",
    "tail",
    "probability",
    "reason",
    "by",
    "undoes",
    "kind",  # last, since no kind begins like another: a line cut short is never taken for whole
)
_HEADER = re.compile(r"# bilink decisions (\d{1,9}), graph ([0-9a-f]{1,64})")
_FORMULA = tuple("=+-@＝＋－＠'\"")  # wide ones are formulas in East Asia


@dataclass(frozen=True)
class Decision:
    """A line of the file: what was decided about a fact; nothing where it was taken back."""

    id: int  # the number of the line, from 1
    head: str
    relation: str
    tail: str
    decision: Decided | None
    probability: float | None = None  # at that moment
    reason: str = ""
    time: str = ""  # ISO 8601, UTC
    by: str = ""  # from where it came: python, page, import
    kind: str = "new"  # "known" if the graph holds the fact, "doubt" if an audit doubts it
    undoes: int | None = None  # the line that is taken back

    @property
    def triple(self) -> Triple:
        """Head, relation and tail."""
        return self.head, self.relation, self.tail


@dataclass(frozen=True)
class Wish:
    """What is to be decided; None takes a decision back."""

    head: str
    relation: str
    tail: str
    decision: Decided | None
    reason: str = ""


@dataclass(frozen=True)
class Imported:
    """What became of the rows of a file."""

    added: int
    known: int  # decided so before, or in the graph and accepted
    unknown: list[str]  # a sentence for each row that is about nothing that the graph knows


# -- the file --------------------------------------------------------------------------------------


class DecisionLog:
    """Reads and writes one file of decisions; several threads and processes may do so at once."""

    def __init__(self, path: Path, fingerprint: str):
        self.path, self._fingerprint = path, fingerprint
        self._thread = threading.RLock()
        self._forget()

    def _forget(self) -> None:
        self._file: tuple[int, int] | None = None  # which one was read
        self._offset = 0  # up to where
        self._last = b""  # what stood there, by which a file that was edited is known
        self._lines = 0
        self._changes: dict[int, Decision] = {}  # that were not taken back, in their order
        self._of: dict[Triple, list[int]] = {}  # ids of these by fact

    @property
    def exists(self) -> bool:
        """Whether there is such a file, or anything else of its name."""
        return os.path.lexists(self.path)

    @property
    def size(self) -> int:
        """How much of the file has been read, which grows with each change."""
        return self._offset

    def refresh(self) -> None:
        """Read what has been added since."""
        with self._thread:
            try:
                handle = _open(self.path)
            except FileNotFoundError:
                self._forget()
                return
            except OSError as error:
                raise _read_error(self.path, error) from None
            with open(handle, "rb") as file:
                state = os.fstat(handle)
                here = state.st_dev, state.st_ino
                if state.st_size > _MOST:
                    raise RunError(f"{self.path} has more than {_MOST:,} bytes; move it away")
                if here != self._file or state.st_size < self._offset:
                    self._forget()
                elif state.st_size > self._offset:
                    file.seek(self._offset - len(self._last))
                    if file.read(len(self._last)) != self._last:
                        self._forget()
                if state.st_size > self._offset:
                    file.seek(self._offset)
                    self._take(file.read(state.st_size - self._offset))
                self._file = here

    def _take(self, data: bytes) -> None:
        """Read whole lines; what follows the last of them may still be growing."""
        if not self._offset:
            parts = data.split(b"\n", 2)
            if len(parts) < 3:
                self._check_torn(data)
                return
            self._check_header(parts[0])
            self._offset += len(data) - len(parts[2])
            data = parts[2]
        data = data[: data.rfind(b"\n") + 1]
        self._offset += len(data)
        self._last = data[-_LAST:] or self._last
        for line in data.decode("utf-8", "replace").split("\n")[:-1]:
            self._lines += 1
            entry = _parsed(line.removesuffix("\r"), self._lines)
            if entry is not None:
                self._apply(entry)

    def _head(self) -> bytes:
        first = f"# bilink decisions {VERSION}, graph {self._fingerprint}"
        return f"{first}\n{chr(9).join(_COLUMNS)}\n".encode()

    def _check_torn(self, data: bytes) -> None:
        if not self._head().startswith(data):
            raise RunError(f"{self.path} is no file of decisions; move it away")

    def _check_header(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").strip('\r\t "')
        found = _HEADER.match(text)
        if found is None:
            raise RunError(f"{self.path} is no file of decisions; move it away")
        if int(found[1]) > VERSION:
            raise RunError(f"{self.path} was written by a newer bilink; upgrade this one")
        if found[2] != self._fingerprint:
            raise RunError(
                f"{self.path} is about another graph ({found[2]}, not {self._fingerprint}); "
                "move it away, or import its facts into decisions about this one"
            )

    def _apply(self, entry: Decision) -> None:
        if entry.undoes is None:
            self._changes[entry.id] = entry
            self._of.setdefault(entry.triple, []).append(entry.id)
            return
        undone = self._changes.pop(entry.undoes, None)
        if undone is not None:
            self._of[undone.triple].remove(undone.id)

    # -- what holds --------------------------------------------------------------------------------

    def of(self, triple: Triple) -> Decision | None:
        """The decision that holds for a fact."""
        with self._thread:
            ids = self._of.get(triple)
            found = self._changes[ids[-1]] if ids else None
        return None if found is None or found.decision is None else found

    def holding(self) -> list[Decision]:
        """Every decision that holds, the oldest first."""
        with self._thread:
            found = [self.of(triple) for triple in self._of]
        return sorted((entry for entry in found if entry is not None), key=lambda each: each.id)

    # -- adding ------------------------------------------------------------------------------------

    def add(self, entries: Sequence[Decision]) -> None:
        """Add decisions, but for those that hold already; they get time and number."""
        self._write(lambda: [each for each in entries if not self._holds(each)])

    def _holds(self, entry: Decision) -> bool:
        now = self.of(entry.triple)
        if now is None or entry.decision is None:
            return now is None and entry.decision is None
        return (now.decision, now.reason) == (entry.decision, entry.reason or now.reason)

    def undo(self) -> Triple:
        """Take back the last change that was not taken back; which fact it was about."""
        undone: list[Decision] = []

        def last() -> list[Decision]:
            if not self._changes:
                raise ConfigError("there is no decision to take back")
            entry = self._changes[next(reversed(self._changes))]
            undone.append(entry)
            ids = self._of[entry.triple]
            before = self._changes[ids[-2]].decision if len(ids) > 1 else None
            return [replace(entry, decision=before, reason="", undoes=entry.id)]

        self._write(last)
        return undone[0].triple

    def _write(self, make: Callable[[], list[Decision]]) -> None:
        """Add lines by one write, and wait until they are on the disk."""
        with self._thread, locked(self.path.with_name(".decisions.lock"), wait=True):
            self.refresh()
            entries = make()
            if not entries:
                return
            now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            text = "".join(_line(replace(entry, time=now)) for entry in entries)
            is_new = not self.exists
            try:
                handle = open_unlinked(self.path, os.O_RDWR | os.O_APPEND)
                try:
                    self._append(handle, text.encode())
                finally:
                    os.close(handle)
                if is_new:
                    sync_folder(self.path.parent)
            except OSError as error:
                raise write_error(self.path, error) from error
            self.refresh()

    def _append(self, handle: int, data: bytes) -> None:
        size = os.fstat(handle).st_size
        if not self._offset:  # nothing, or a piece of the head that a crash left
            os.ftruncate(handle, 0)
            size, data = 0, self._head() + data
        elif size > self._offset:  # a piece of a line
            data = b"\n" + data
        if os.write(handle, data) < len(data):
            os.ftruncate(handle, size)  # no half lines where there is no space
            raise OSError(28, "No space left on device")
        os.fsync(handle)


def _open(path: Path) -> int:
    """Open a regular file to read it, and no link to another."""
    no_links = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    handle = os.open(path, os.O_RDONLY | no_links)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError("it is no regular file")
    return handle


def _read_error(path: Path, error: OSError) -> RunError:
    if path.is_symlink():
        return RunError(f"{path} is a link to another file, which is not read; remove the link")
    return RunError(f"{path} cannot be read: {error.strerror or error}")


def _line(entry: Decision) -> str:
    cells = (
        entry.time,
        entry.decision or NONE,
        *map(_escaped, entry.triple),
        "" if entry.probability is None else repr(float(entry.probability)),
        _escaped(entry.reason),
        _escaped(entry.by),
        "" if entry.undoes is None else str(entry.undoes),
        entry.kind,
    )
    return "\t".join(cells) + "\n"


def _parsed(line: str, number: int) -> Decision | None:
    """The decision of a line; None for one that is damaged or was cut short."""
    cells = line.split("\t")
    if len(cells) != len(_COLUMNS):
        return None
    time, decision, head, relation, tail, probability, reason, by, undoes, kind = cells
    if decision not in (*DECIDED, NONE) or kind not in KINDS:
        return None
    try:
        return Decision(
            id=number,
            head=_unescaped(head),
            relation=_unescaped(relation),
            tail=_unescaped(tail),
            decision=None if decision == NONE else decision,  # type: ignore[arg-type]
            probability=_chance(probability),
            reason=_unescaped(reason),
            time=time,
            by=_unescaped(by),
            kind=kind,
            undoes=int(undoes) if undoes else None,
        )
    except (ValueError, OverflowError):
        return None


def _chance(text: str) -> float | None:
    if not text:
        return None
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError("it is no probability")
    return value


_SHORT = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\\": "\\\\"}
_LONG = {short: char for char, short in _SHORT.items()}
_ESCAPE = re.compile(r"\\(?:u[0-9a-f]{4}|U[0-9a-f]{8}|.|$)")


def _escaped(text: str) -> str:
    def escape(char: str) -> str:
        if char in _SHORT:
            return _SHORT[char]
        if char.isprintable():
            return char
        return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"

    if not text.isprintable() or "\\" in text:
        text = "".join(map(escape, text))
    return f"'{text}" if text.startswith(_FORMULA) else text


def _unescaped(text: str) -> str:
    def unescape(found: re.Match[str]) -> str:
        part = found[0]
        if len(part) > 2:
            return chr(int(part[2:], 16))
        if part not in _LONG:
            raise ValueError(f"{part} means nothing")
        return _LONG[part]

    return _ESCAPE.sub(unescape, text.removeprefix("'"))


# -- of a run --------------------------------------------------------------------------------------


class Decisions(Sequence[Decision]):
    """What was decided about facts of a run, the oldest first; kept in its folder.

    Names go in and come out.  Each of the methods that decide returns the decisions as they are
    kept.

    Examples
    --------
    >>> run.decisions.accept("Austria", "borders", "Liechtenstein")  # doctest: +SKIP
    >>> run.decisions.undo()  # doctest: +SKIP
    >>> run.decisions.export("accepted.tsv")  # doctest: +SKIP
    """

    def __init__(self, run: "Run"):
        if run.path is None:
            raise RunError(
                "decisions are kept in the folder of a run, and this run has none; make it with out"
            )
        self._run, self._graph = run, run.graph
        self.log = DecisionLog(run.path / DECISIONS, run.graph.fingerprint)

    # -- reading -----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.all())

    def __getitem__(self, i: Any) -> Any:
        return self.all()[i]

    def __iter__(self) -> Iterator[Decision]:
        return iter(self.all())

    def __repr__(self) -> str:
        counts = ", ".join(f"{count:,} {name}" for name, count in self.counts().items())
        return f"Decisions({counts} of {self._graph.name!r})"

    def all(self, decision: Decided | None = None) -> list[Decision]:
        """The decisions that hold, all or those of one kind, the oldest first."""
        if decision is not None:
            checked(decision)
        self.log.refresh()
        found = self.log.holding()
        return [each for each in found if decision in (None, each.decision)]

    def counts(self) -> dict[str, int]:
        """How many facts were accepted, rejected and left open."""
        found = Counter(each.decision for each in self.all())
        return {name: found[name] for name in DECIDED}

    def of(self, triples: Iterable[Triple]) -> list[Decided | None]:
        """What was decided about each triple of names."""
        self.log.refresh()
        found = (self.log.of((h, r, t)) for h, r, t in triples)
        return [None if each is None else each.decision for each in found]

    def triples(self, decision: Decided) -> list[Triple]:
        """The facts that were decided so."""
        return [each.triple for each in self.all(decision)]

    # -- deciding ----------------------------------------------------------------------------------

    def accept(self, head: str, relation: str, tail: str, reason: str = "") -> Decision | None:
        """Hold a fact for true."""
        return self.decide([Wish(head, relation, tail, "accept", reason)])[0]

    def reject(self, head: str, relation: str, tail: str, reason: str = "") -> Decision | None:
        """Hold a fact for false."""
        return self.decide([Wish(head, relation, tail, "reject", reason)])[0]

    def unsure(self, head: str, relation: str, tail: str, reason: str = "") -> Decision | None:
        """Note that a fact was looked at, and could not be decided."""
        return self.decide([Wish(head, relation, tail, "unsure", reason)])[0]

    def take_back(self, head: str, relation: str, tail: str) -> None:
        """Make a fact undecided again."""
        self.decide([Wish(head, relation, tail, None)])

    def decide(self, wishes: Sequence[Wish], by: str = "python") -> list[Decision | None]:
        """Decide several facts at once; what now holds for each."""
        for wish in wishes:
            if wish.decision is not None:
                checked(wish.decision)
        find, relations = self._graph.entities.find, self._graph.relations.find
        rows = [(find(each.head), relations(each.relation), find(each.tail)) for each in wishes]
        ids = np.array(rows, dtype=np.int64).reshape(-1, 3)
        self.log.add(self._entries(wishes, ids, by))
        return [self.log.of(triple) for triple in self._names(ids)]

    def undo(self) -> tuple[Triple, Decision | None]:
        """Take back the last change; which fact it was about, and what holds for it now."""
        triple = self.log.undo()
        return triple, self.log.of(triple)

    def _names(self, ids: np.ndarray) -> list[Triple]:
        entities, relations = self._graph.entities.names, self._graph.relations.names
        return [(entities[h], relations[r], entities[t]) for h, r, t in ids.tolist()]

    def _entries(self, wishes: Sequence[Wish], ids: np.ndarray, by: str) -> list[Decision]:
        chances: list[float | None] = [None] * len(ids)
        if len(ids) <= JUDGED:
            chances = self._run.chances(ids)
        known = self._run.known.holds(ids)
        doubts = self._doubts() if known.any() else {}
        entries = []
        for i, triple in enumerate(self._names(ids)):
            kind = "new" if not known[i] else "doubt" if triple in doubts else "known"
            chance = doubts[triple] if kind == "doubt" else chances[i]
            reason = " ".join(wishes[i].reason.split())[:LONGEST_REASON]
            decision = wishes[i].decision
            entries.append(Decision(0, *triple, decision, chance, reason, by=by, kind=kind))
        return entries

    def _doubts(self) -> Mapping[Triple, float | None]:
        assert self._run.path is not None
        found = RunFolder(self._run.path).read_doubts(self._graph, self._run.digest) or []
        return {(row["head"], row["relation"], row["tail"]): row["probability"] for row in found}

    # -- files -------------------------------------------------------------------------------------

    def export(self, path: str | Path, decision: Decided | None = "accept") -> int:
        """Write the facts that were decided so, or all, to a file; returns how many.

        The name ends in .tsv, .csv, .parquet, .json, .nt or .ttl.  The column ``label`` of a table
        is 1 for what was accepted and -1 for what was rejected, as files of triples have it.
        """
        table = self.table(decision)
        table.check(check_ending(Path(path), table.endings))
        table.write(path)
        return len(table.rows())

    def table(self, decision: Decided | None = "accept") -> "DecisionTable":
        """The facts that were decided so, or all, as a table."""
        return DecisionTable(self.all(decision), decision)

    def import_(self, path: str | Path, decision: Decided = "accept") -> Imported:
        """Decide the triples of a file so; a label of 1 or -1 accepts or rejects its triple."""
        checked(decision)
        table = read_triples(path)
        rows = table.frame.rows()
        labels = [None] * len(rows) if table.labels is None else table.labels.tolist()
        named: dict[Any, Decided] = {1: "accept", -1: "reject"}
        wishes = [
            Wish(head, relation, tail, named.get(label, decision))
            for (head, relation, tail), label in zip(rows, labels, strict=True)
        ]
        return self.take(wishes, by="import")

    def import_text(self, text: str, decision: Decided = "accept") -> Imported:
        """The same for lines of head, relation, tail and perhaps a decision, between tabs."""
        return self.take(read_wishes(text, decision), by="import")

    def take(self, wishes: Sequence[Wish], by: str) -> Imported:
        """Decide what is about known names, and say what is not."""
        good: list[Wish] = []
        rows: list[tuple[int, int, int]] = []
        unknown: list[str] = []
        for wish in wishes:
            try:
                rows.append(self._find(wish, len(unknown) < _WITH_HINTS))
                good.append(wish)
            except DataError as error:
                unknown.append(str(error))
        ids = np.array(rows, dtype=np.int64).reshape(-1, 3)
        held, before = self._run.known.holds(ids), self.of(self._names(ids))
        wanted = [
            i
            for i, wish in enumerate(good)
            if before[i] != wish.decision and not (wish.decision == "accept" and held[i])
        ]
        self.log.add(self._entries([good[i] for i in wanted], ids[wanted], by))
        return Imported(len(wanted), len(good) - len(wanted), unknown)

    def _find(self, wish: Wish, hints: bool) -> tuple[int, int, int]:
        """The ids of a fact; an unknown name gets hints, which take long to find, or does not."""
        entities, relations = self._graph.entities, self._graph.relations
        parts = ((entities, wish.head), (relations, wish.relation), (entities, wish.tail))
        for names, name in parts:
            if not hints and name not in names:
                raise DataError(f"unknown {names.kind} {shortened(name)}")
        h, r, t = (names.find(name) for names, name in parts)
        return h, r, t


def checked(decision: str) -> Decided:
    """The decision, if it is one."""
    if decision not in DECIDED:
        raise ConfigError(f"a decision is {', '.join(DECIDED)}, not {shortened(str(decision))}")
    return decision


def read_wishes(text: str, decision: Decided = "accept") -> list[Wish]:
    """Lines of head, relation, tail and perhaps a decision or a label of ±1, between tabs.

    A first line that names these columns is a header, of a file that was exported.
    """
    named: dict[str, Decided] = {"": decision, "1": "accept", "+1": "accept", "-1": "reject"}
    named |= {each: each for each in DECIDED}
    column, wishes = 3, []
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        cells = line.removesuffix("\r").split("\t")
        if cells == [""]:
            continue
        folded = [cell.casefold() for cell in cells]
        if number == 1 and folded[:3] == ["head", "relation", "tail"]:
            marks = [i for i, cell in enumerate(folded) if cell in ("decision", "label")]
            column = marks[0] if marks else len(cells)
            continue
        if len(cells) < 3 or not all(cells[:3]):
            raise DataError(f"line {number}: expected head, relation and tail between tabs")
        mark = cells[column] if len(cells) > column else ""
        if mark not in named:
            raise DataError(
                f"line {number}: a decision is {', '.join(DECIDED)}, 1 or -1, not {shortened(mark)}"
            )
        wishes.append(Wish(cells[0], cells[1], cells[2], named[mark]))
    return wishes


_EXPORTED = ("head", "relation", "tail", "label", "probability", "reason", "time")
_IN_JSON = ("head", "relation", "tail", "decision", "probability", "reason", "time", "kind")


class DecisionTable(Table):
    """Facts that were decided, as a table."""

    columns: tuple[str, ...] = _EXPORTED
    endings = (".tsv", ".csv", ".parquet", ".json", ".nt", ".ttl")

    def __init__(self, decisions: Sequence[Decision], decision: Decided | None):
        self._decisions, self._decision = decisions, decision
        if decision in (None, "unsure"):  # a label would not tell
            self.columns = tuple("decision" if c == "label" else c for c in self.columns)

    def check(self, ending: str) -> None:
        """Refuse to state as facts what was not accepted."""
        if ending in (".nt", ".ttl") and self._decision != "accept":
            raise ConfigError(
                f"a {ending} file states facts, so only accepted ones can be written to it; choose "
                ".tsv, .csv or .json"
            )

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per fact."""
        labels = {"accept": "1", "reject": "-1"}
        rows = []
        for each in self._decisions:
            row = {name: getattr(each, name, "") for name in self.columns}
            if "label" in row:
                row["label"] = labels.get(each.decision or "", "")
            rows.append(row)
        return rows

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "decisions": [
                {name: getattr(each, name) for name in _IN_JSON} for each in self._decisions
            ]
        }


def import_sentences(found: Imported) -> list[str]:
    """For people: every row is accounted for."""
    lines = [f"{counted(found.added, 'decision')} added, {found.known:,} known already"]
    lines += found.unknown[:5]
    if len(found.unknown) > 5:
        lines.append(f"and {len(found.unknown) - 5:,} more with unknown names")
    return lines
