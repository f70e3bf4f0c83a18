"""Consoles, progress bars, tables, files: what the commands share in showing things."""

import csv
import os
import signal
import sys
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich import filesize
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from bilink._plot import check_matplotlib
from bilink._text import json_text, printable
from bilink.errors import ConfigError, RunError

MINUTE = 60.0

console = Console()
error_console = Console(stderr=True)


def say(text: str, style: str | None = None) -> None:
    """Print plain text, as it is, to standard output."""
    _print(console, text, style)


def complain(text: str, style: str | None = None) -> None:
    """Print plain text, as it is, to standard error."""
    _print(error_console, text, style)


def _print(to: Console, text: str, style: str | None) -> None:
    lines = "\n".join(printable(line) for line in text.split("\n"))
    to.print(lines, style=style, markup=False, highlight=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """Print one JSON object to standard output; NaN becomes null."""
    plain = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    typer.echo(json_text(value, ascii_only=plain))


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    title: str | None = None,
    text: Container[int] = (0,),
) -> Table:
    """A table; the columns at ``text`` are text, the others numbers; None is an empty cell."""
    result = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for i, column in enumerate(columns):
        result.add_column(column, justify="left" if i in text else "right", header_style="dim")
    for row in rows:
        cells = (f"{x:,}" if isinstance(x, int) else "" if x is None else x for x in row)
        result.add_row(*(Text(printable(cell)) for cell in cells))  # names are not markup
    return result


def show_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    most: int | None = None,
    hint: str = "",
    **options: Any,
) -> None:
    """Print a table; of more than ``most`` rows only these, and ``hint`` how to see the others."""
    console.print(table(columns, rows[:most], **options))
    if most is not None and len(rows) > most:
        say(f"… and {len(rows) - most:,} more{hint}", style="dim")


def check_new(path: Path | None, option: str) -> None:
    """Complain, before any work is done, about a file that exists or could not be written."""
    if path is None:
        return
    if path.exists():
        raise ConfigError(f"{path} exists; choose another name for {option}, or remove it")
    if not path.absolute().parent.is_dir():
        raise ConfigError(f"{option}: there is no folder {path.parent}")


def check_out(path: Path | None, endings: Sequence[str]) -> None:
    """Complain, before any work is done, about an --out of another format, or as ``check_new``."""
    from bilink.queries.tables import check_ending

    if path is not None:
        check_ending(path, endings)
        check_new(path, "--out")


def check_picture(path: Path | None) -> None:
    """Complain about a --picture that could not be written, before the work is done."""
    check_new(path, "--picture")
    if path is None:
        return
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ConfigError(f"--picture must end in .png, .svg or .pdf, not {path.name!r}")
    check_matplotlib("a picture")


def write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows with the same keys, which become the header."""
    from bilink._files import replacing

    with replacing(path) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def keep_result(run: Any, found: dict[str, Any]) -> None:
    """Write the result into the run's folder; warn if it cannot be written to."""
    from bilink.runs.folder import RunFolder

    assert run.path is not None
    try:
        RunFolder(run.path).write_metrics(found, run.digest)
    except RunError as error:
        complain(f"warning: the result is not kept: {error}", "yellow")


def metric_cells(metrics: dict[str, float]) -> list[str]:
    """MRR, Hits@1, 3, 10, MR and AMRI as they are printed."""
    rates = [f"{metrics[name]:.3f}" for name in ("mrr", "hits@1", "hits@3", "hits@10")]
    return [*rates, f"{metrics['mr']:,.1f}", f"{metrics['amri']:.3f}"]


METRIC_COLUMNS = ("MRR", "Hits@1", "Hits@3", "Hits@10", "MR", "AMRI")


@contextmanager
def progress_bar(description: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on standard error, if that is a terminal; yields the function that advances it."""
    if not error_console.is_terminal:
        yield lambda n: None
        return
    columns = ("{task.description}", BarColumn(24), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=error_console, transient=True) as bar:
        task = bar.add_task(description, total=total)
        yield lambda n: bar.advance(task, n)


class TrainingBar:
    """Shows the epochs of training; its call is ``on_epoch``, ``within`` is ``on_progress``.

    Where standard error is no terminal, each validation gets a line, and so does each minute of an
    epoch; with ``lines=False``, nothing does.
    """

    def __init__(self, epochs: int, done: int, bar: Progress | None, lines: bool = True):
        self._done, self._bar, self._lines, self._mrr = done, bar, lines, 0.0
        self._next = time.monotonic() + MINUTE
        self._state = "compiling"
        if bar is not None:
            self._task = bar.add_task(
                "", total=epochs, completed=done, state=self._state, epoch=done
            )

    def __call__(self, record: dict[str, Any]) -> None:
        """An epoch is done."""
        self._done, self._next = record["epoch"], time.monotonic() + MINUTE
        if self._bar is None:
            if self._lines and "validation_mrr" in record:
                complain(_state(record))
            return
        if "epochs" in record:  # which differ from model to model
            self._bar.update(self._task, total=record["epochs"])
        self._mrr = record.get("validation_mrr", self._mrr)
        state = _state({**record, "validation_mrr": self._mrr} if self._mrr else record)
        self._state = state.partition(": ")[2]
        self._show(self._done, self._state)

    def within(self, what: str, share: float) -> None:
        """So much of an epoch, or of the validation after it, is done."""
        training = what == "training"
        if self._bar is not None:
            # Validation is no part of an epoch, so that the bar stands still.
            state = f"{share:.0%} of the epoch" if training else f"{what} {share:.0%}"
            self._show(self._done + (share if training else 1.0), state)
        elif self._lines and time.monotonic() >= self._next:
            self._next = time.monotonic() + MINUTE
            complain(f"epoch {self._done + 1}: {what}, {share:.0%}", "dim")

    def _show(self, completed: float, state: str) -> None:
        if self._bar is not None:
            self._bar.update(self._task, completed=completed, state=state, epoch=self._done)


@contextmanager
def training_bar(epochs: int, done: int = 0, lines: bool = True) -> Iterator[TrainingBar]:
    """A bar of epochs with loss, violations, speed and validation."""
    if not error_console.is_terminal:
        yield TrainingBar(epochs, done, None, lines)
        return
    texts = "epoch {task.fields[epoch]}/{task.total}", "{task.fields[state]}"
    columns = (texts[0], BarColumn(20), texts[1], TimeRemainingColumn())
    with Progress(*columns, console=error_console, transient=True) as bar:
        yield TrainingBar(epochs, done, bar)


def _state(record: dict[str, Any]) -> str:
    mrr = f"  valid MRR {record['validation_mrr']:.3f}" if "validation_mrr" in record else ""
    return (
        f"epoch {record['epoch']}: loss {record['loss']:.4f}  violated {record['violated']:.1%}  "
        f"{record['triples_per_second'] / 1e6:.2f} M triples/s{mrr}"
    )


def show_bytes(n: float) -> str:
    """1234567 → 1.2 MB."""
    return filesize.decimal(int(n))


@contextmanager
def stop_at_signal() -> Iterator[Callable[[], bool]]:
    """Let the first Ctrl-C end training soon, with its state kept, and the second at once."""
    asked = False

    def handler(number: int, frame: Any) -> None:
        nonlocal asked
        if asked:
            os._exit(130)  # the files on disk are complete at any moment
        asked = True
        # Not by ``complain``: the signal may have come in the middle of another line.
        os.write(2, b"stopping, and keeping what is done; press Ctrl-C again to stop at once\n")

    before = {s: signal.signal(s, handler) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for number, former in before.items():
            signal.signal(number, former)
