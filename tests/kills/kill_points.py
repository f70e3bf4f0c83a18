"""Write events: the calls by which a process changes files, each of which can be its last."""

import builtins
import io
import os
import re
import signal
from pathlib import Path
from typing import Any

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_ON_PATHS = (
    "replace",
    "rename",
    "unlink",
    "remove",
    "mkdir",
    "rmdir",
    "truncate",
    "link",
    "symlink",
)
_ON_HANDLES = ("fsync", "fdatasync", "ftruncate")


class KillPoint:
    """Counts the write events of this process below ``folder``; the one of number ``at`` kills it.

    It is killed before the event.  A write is two events: before it, and after half of its bytes.
    """

    def __init__(self, folder: Path, at: int | None = None):
        self.events: list[str] = []
        self._folder, self._at = f"{folder}{os.sep}", at
        self._open, self._os_open, self._os_write = io.open, os.open, os.write

    def install(self) -> None:
        """From now on, watch this process."""
        builtins.open = io.open = self._watched_open  # type: ignore[assignment]
        os.open, os.write = self._watched_os_open, self._watched_os_write  # type: ignore[assignment]
        for name in (*_ON_PATHS, *_ON_HANDLES):
            setattr(os, name, self._watched(name, getattr(os, name)))

    def watch_databases(self) -> None:
        """Statements and commits of SQLAlchemy are events too: SQLite writes its files itself."""
        from sqlalchemy import event
        from sqlalchemy.engine import Engine

        @event.listens_for(Engine, "before_cursor_execute")
        def execute(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
            if not statement.lstrip().upper().startswith(("SELECT", "PRAGMA")):
                self._note(f"database {' '.join(statement.split()[:3])}")

        @event.listens_for(Engine, "commit")
        def commit(connection: Any) -> None:
            self._note("database commit")

    def _note(self, event: str) -> None:
        self.events.append(event)
        if len(self.events) == self._at:
            os.kill(os.getpid(), signal.SIGKILL)

    def _below(self, path: Any, dir_fd: int | None = None) -> str | None:
        """The path below the folder, without the numbers of processes, or None."""
        if isinstance(path, int):
            path = os.readlink(f"/proc/self/fd/{path}")
        elif dir_fd is not None:
            path = os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), os.fspath(path))
        path = os.path.abspath(os.fsdecode(path))
        if not path.startswith(self._folder):
            return None
        return re.sub(r"\.[0-9a-f]+\.tmp", ".tmp", path[len(self._folder) :])

    def _watched(self, name: str, function: Any) -> Any:
        def call(path: Any, *arguments: Any, **options: Any) -> Any:
            if below := self._below(path, options.get("dir_fd")):
                self._note(f"{name} {below}")
            return function(path, *arguments, **options)

        return call

    def _watched_os_open(self, path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        if flags & _WRITING and (below := self._below(path, options.get("dir_fd"))):
            self._note(f"open {below}")
        return self._os_open(path, flags, *arguments, **options)

    def _watched_os_write(self, handle: int, data: Any) -> int:
        if below := self._below(handle):
            self._write(below, handle, memoryview(data).cast("B"))
        return self._os_write(handle, data)

    def _write(self, below: str, handle: int, data: memoryview) -> None:
        self._note(f"write {below}")
        if len(data) > 1:
            if len(self.events) + 1 == self._at:
                self._os_write(handle, data[: len(data) // 2])
            self._note(f"half-write {below}")

    def _watched_open(
        self,
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Any = None,
    ) -> Any:
        below = None if set(mode).isdisjoint("wax+") else self._below(file)
        if below is None:
            return self._open(file, mode, buffering, encoding, errors, newline, closefd, opener)
        if not isinstance(file, int):
            self._note(f"open {below}")
        raw = _Raw(file, mode.replace("b", "").replace("t", ""), closefd, opener)
        raw.point, raw.below = self, below
        buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline)


class _Raw(io.FileIO):
    point: KillPoint
    below: str

    def write(self, data: Any) -> int | None:  # type: ignore[override]
        self.point._write(self.below, self.fileno(), memoryview(data).cast("B"))
        return super().write(data)
