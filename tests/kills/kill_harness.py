"""Kills commands at their write events, and looks at what is left."""

import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

# A process with threads cannot be forked safely.
for _name in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
    os.environ[f"{_name}_NUM_THREADS"] = "1"
os.environ["POLARS_MAX_THREADS"] = "1"

from kill_checks import changed, contents, ended_trials, examine, stale  # noqa: E402
from kill_commands import COMMANDS, PREPARATION, Command, write_inputs  # noqa: E402
from kill_points import KillPoint  # noqa: E402

import bilink.cli  # noqa: E402
import bilink.distributed.executor  # noqa: E402
from bilink.runs.folder import RunFolder  # noqa: E402
from bilink.training import loop  # noqa: E402

sys.path.append(str(Path(__file__).parent.parent))
from here import Here  # noqa: E402

_IDLE = ("jemalloc", "polars-ooc")  # threads of libraries that wait for work which never comes
_CALLS = ("openat", "pwrite64", "write", "ftruncate", "fsync", "fdatasync", "unlink")
LIMIT = 120  # seconds after which a command hangs
TWICE = 0.2  # the share of recoveries that are killed as well


@dataclass(frozen=True)
class Ended:
    """A process that has ended."""

    code: int  # negative: the signal
    text: str  # what it printed
    value: Any  # what its function returned
    seconds: float


@dataclass(frozen=True)
class Undisturbed:
    """A command that was not killed: its write events, and the folder before and after it."""

    events: list[str]
    seconds: float
    before: dict[str, Any]
    after: dict[str, Any]
    right: list[dict[str, Any]]  # what the run may be: the former one and the new one


@dataclass(frozen=True)
class Point:
    """Where a command is killed: at a write event, or after some time."""

    event: int | None = None
    seconds: float | None = None

    def describe(self, events: list[str]) -> str:
        """For people."""
        if self.seconds is not None:
            return f"after {self.seconds:.3f} s"
        assert self.event is not None
        return f"event {self.event} ({events[self.event - 1]})"


class Harness:
    """Runs commands in copies of one folder, each in a fork of this process."""

    def __init__(self, work: Path, seed: int = 0):
        self.work, self.seed = work.resolve(), seed
        self.base, self.copy = self.work / "base", self.work / "copy"
        self._undisturbed: dict[str, Undisturbed] = {}
        self._calls: list[str] = []
        loop.CHECKPOINT_SHARE = 0  # a checkpoint after each epoch, however long it takes
        bilink.distributed.executor.executor_for = lambda *arguments: Here()
        self.base.mkdir()
        write_inputs(self.base)
        for line in PREPARATION:
            _done(self.run(line, self.base))
        self._warm_up()

    # -- processes -------------------------------------------------------------------------------

    def _warm_up(self) -> None:
        """Load into this process what commands need, so that its forks have it at once."""
        graph = RunFolder(self.base / "margin").read_graph()
        reading = ("bilink.data.loading.load_graph", "bilink.runs.job.load_graph")
        with ExitStack() as stack:  # polars, which reads the files of a graph, starts threads
            for name in reading:
                stack.enter_context(mock.patch(name, return_value=graph))
            for command in COMMANDS:
                self._start_afresh()
                with (
                    chdir(self.copy),
                    redirect_stdout(io.StringIO()),
                    redirect_stderr(io.StringIO()),
                ):
                    if command.line.startswith("update"):
                        bilink.load(command.line.split()[1]).update([("new", "kind", "k1")])
                    elif code := _main(command.line):
                        raise RuntimeError(f"bilink {command.line} ended with {code}")
        threads = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
        if busy := [name for name in threads[1:] if not name.startswith(_IDLE)]:
            raise RuntimeError(f"this process has threads, so it cannot be forked: {busy}")

    def run(
        self, line: str, folder: Path, point: Point | None = None, traced: bool = False
    ) -> Ended:
        """``bilink`` with the arguments in ``line``; its value are its write events.

        With ``traced``, they are what SQLite asks of the system, and not what Python does.
        """
        point = point or Point()

        def command() -> list[str]:
            watched = KillPoint(folder, None if traced else point.event)
            watched.install()
            if line.startswith("search"):
                watched.watch_databases()
            if code := _main(line):
                raise SystemExit(code)
            return watched.events

        if not traced:
            return self._forked(command, folder, point.seconds)
        tracer = partial(self._trace, folder / "found" / "trials.db", point.event)
        ended = self._forked(command, folder, point.seconds, tracer)
        return replace(ended, value=self._traced_calls())

    def _trace(self, database: Path, event: int | None, child: int) -> subprocess.Popen[bytes]:
        """Follow the calls of a process that change a database, up to the one that kills it."""
        journal = database.with_name(f"{database.name}-journal")
        command = ["strace", "-qq", "-p", str(child), "-o", str(self.work / "calls")]
        command += ["-P", str(database), "-P", str(journal), "-e", f"trace={','.join(_CALLS)}"]
        if event is not None:
            call, number = self._calls[event - 1].split()[:2]
            command += ["-e", f"inject={call}:signal=KILL:when={number}"]
        tracer = subprocess.Popen(command)
        while "TracerPid:\t0" in Path(f"/proc/{child}/status").read_text():
            if tracer.poll() is not None:
                raise RuntimeError("strace is not allowed to follow a process here")
            time.sleep(0.001)
        return tracer

    def _traced_calls(self) -> list[str]:
        """The calls that were followed, each with its number among those of its name."""
        counts: Counter[str] = Counter()
        calls = []
        for line in (self.work / "calls").read_text().splitlines():
            name = line.partition("(")[0]
            if name in _CALLS:
                counts[name] += 1
                calls.append(f"{name} {counts[name]}")
        return calls

    def _forked(
        self,
        function: Callable[[], Any],
        folder: Path,
        seconds: float | None = None,
        tracer: Callable[[int], subprocess.Popen[bytes]] | None = None,
    ) -> Ended:
        """Call ``function`` in a fork of this process, killed after ``seconds``."""
        text, value = self.work / "text", self.work / "value"
        value.unlink(missing_ok=True)
        ready, go = os.pipe()
        started = time.perf_counter()
        if (child := os.fork()) == 0:
            signal.alarm(LIMIT)
            os.chdir(folder)
            output = os.open(text, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.read(ready, 1)
            code = 70
            try:
                found = function()
                value.write_text(json.dumps(found))
                code = 0
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 70
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        traced = tracer(child) if tracer else None
        os.write(go, b"x")
        if seconds is not None:
            time.sleep(seconds)
            os.kill(child, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if traced:
            traced.wait()
        os.close(ready)
        os.close(go)
        return Ended(
            code,
            text.read_text(errors="replace"),
            json.loads(value.read_text()) if code == 0 else None,
            time.perf_counter() - started,
        )

    def _start_afresh(self) -> None:
        shutil.rmtree(self.copy, ignore_errors=True)
        shutil.copytree(self.base, self.copy)

    def _examine(self, command: Command) -> Ended:
        return self._forked(partial(examine, self.copy / command.run), self.copy)

    # -- kills -----------------------------------------------------------------------------------

    def undisturbed(self, command: Command) -> Undisturbed:
        """The command without a kill."""
        if command.name not in self._undisturbed:
            self._start_afresh()
            former = _done(self._examine(command)).value
            ended = _done(self.run(command.line, self.copy, traced=command.traced))
            if command.traced:
                self._calls = ended.value
            new = _done(self._examine(command)).value
            if "model" not in new or (new == former) == command.makes_run:
                raise RuntimeError(f"{command.name} makes no new run: {new}")
            self._undisturbed[command.name] = Undisturbed(
                ended.value,
                ended.seconds,
                contents(self.base),
                contents(self.copy),
                [state for state in (former, new) if "model" in state],
            )
        return self._undisturbed[command.name]

    def kill(self, command: Command, point: Point) -> list[str]:
        """Kill the command at ``point``, then go on; returns what does not hold."""
        known = self.undisturbed(command)
        chance = random.Random(f"{self.seed} {command.name} {point}")
        self._start_afresh()
        ended = self.run(command.line, self.copy, point, command.traced)
        if ended.code == 0 and point.seconds is None:
            return [f"there was no such event: {ended.text}"]
        failures = [*_wrong_end(command.line, ended, -signal.SIGKILL), *self._left(command, known)]
        trials = ended_trials(self.copy / command.out)
        if chance.random() < TWICE:
            again = Point(event=chance.randint(1, len(known.events)))
            wrong = [*self._go_on(command, known, again), *self._left(command, known)]
            failures += [f"killed again at event {again.event}: {failure}" for failure in wrong]
        failures += self._recover(command, known)
        after = ended_trials(self.copy / command.out)
        failures += [f"trial {i} was run again" for i in trials if trials[i] != after.get(i)]
        return failures

    def _left(self, command: Command, known: Undisturbed) -> Iterator[str]:
        """What is wrong with the folder that a kill has left."""
        for name in changed(known.before, contents(self.copy), command.out):
            yield f"{name} has changed"
        ended = self._examine(command)
        if ended.code:
            yield f"the run cannot be looked at: {ended.text}"
        elif "error" in ended.value:
            error = ended.value["error"]
            if "\n" in error:
                yield f"not one sentence: {error}"
            if command.keeps or self._is_former(command, known):
                yield f"the former run is lost: {error}"
        else:
            yield from stale(ended.value, known.right)

    def _is_former(self, command: Command, known: Undisturbed) -> bool:
        """Whether the folder still holds the config of the run that was there before."""
        config = f"{command.run}/config.toml"
        path = self.copy / config
        return path.exists() and known.before.get(config) == path.read_bytes()

    def _go_on(
        self, command: Command, known: Undisturbed, point: Point | None = None
    ) -> Iterator[str]:
        """Do what one does after a kill, perhaps with another one; what is wrong with its end."""
        line = command.line
        has_config = (self.copy / command.run / "config.toml").exists()
        has_begun = has_config and (command.keeps or not self._is_former(command, known))
        if command.goes_on and has_begun:
            line = f"resume {command.run}"
        ended = self.run(line, self.copy, point, command.traced)
        if ended.code == 1 and "--force" in ended.text and "--force" not in line:
            yield from _wrong_end(line, ended, 1)
            line += " --force"
            ended = self.run(line, self.copy, point)
        if not command.makes_run and "is not empty; choose another --out" in ended.text:
            return  # it had been done before it was killed
        yield from _wrong_end(line, ended, -signal.SIGKILL if point else 0)

    def _recover(self, command: Command, known: Undisturbed) -> Iterator[str]:
        """What is not as if there had been no kill, after one has gone on."""
        yield from self._go_on(command, known)
        if command.keeps:
            yield from self._left(command, known)
            yield from _wrong_end(command.line, self.run(command.line, self.copy))
        for name in changed(known.after, contents(self.copy)):
            yield f"{name} is not as without a kill"
        state = self._examine(command).value
        if state != known.right[-1]:
            yield f"the run is not as without a kill: {state}"


def _done(ended: Ended) -> Ended:
    if ended.code:
        raise RuntimeError(f"a command that was not killed ended with {ended.code}: {ended.text}")
    return ended


def _wrong_end(line: str, ended: Ended, expected: int = 0) -> Iterator[str]:
    """What is wrong with how a process ended; it may be done before it is killed."""
    errors = [row for row in ended.text.splitlines() if row.startswith("error:")]
    if ended.code not in (0, expected) or "Traceback" in ended.text or len(errors) > 1:
        yield f"bilink {line} ended with {ended.code}: {ended.text}"


def _main(line: str) -> int:
    """Run the command line; returns its exit code."""
    sys.argv = ["bilink", *line.split()]
    try:
        bilink.cli.main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0
