"""Mutated input, given to code that has to accept it or to refuse it in one sentence.

A target is a list of seeds and a function that is given a path: that of a file, or of a folder if
the seed is one.  A case is a seed with a few mutations; it depends on nothing but the target's
name, a number that is common to a whole run and its own number.  Cases run in processes of their
own, many in each.  A case fails if it raises anything but a BilinkError, warns of anything but
with a DataWarning, quotes its input at length, or takes too much time or memory.
"""

import gzip
import importlib
import multiprocessing
import os
import random
import re
import resource
import shutil
import tempfile
import time
import traceback
import warnings
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SEEDS = Path(__file__).with_name("seeds")
SECONDS = 30.0  # that a case may take
MEMORY = 2 << 30  # bytes that a process may hold
MESSAGE = 1000  # characters of a message, its paths not counted
START = 300.0  # seconds for a process to import what it needs


@dataclass(frozen=True)
class Seed:
    """Valid input: a file, or a folder of files; ``content`` maps names to bytes."""

    name: str
    content: Mapping[str, bytes]
    is_folder: bool


@dataclass(frozen=True)
class Target:
    """What is fuzzed; ``run`` may return anything."""

    name: str
    seeds: Sequence[Seed]
    run: Callable[[Path], Any]
    tokens: Sequence[bytes] = ()  # that mean something in these files, beside the common ones
    environment: Mapping[str, str] = field(default_factory=dict)


def read_seeds(folder: Path) -> list[Seed]:
    """Each file and each folder in ``folder`` as a seed."""
    seeds = []
    for path in sorted(folder.iterdir()):
        files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        base = path if path.is_dir() else folder
        content = {p.relative_to(base).as_posix(): p.read_bytes() for p in files}
        seeds.append(Seed(path.name, content, path.is_dir()))
    return seeds


def find_target(name: str) -> Target:
    """The target of the module ``name`` beside this one."""
    return importlib.import_module(name).TARGET


# -- mutations -------------------------------------------------------------------------------------

TOKENS = (
    *(b"", b"\0", b"\n", b"\r", b"\r\n", b"\t", b" ", b",", b";", b'"', b'""', b"'", b"\\", b"#"),
    *(b"\n" * 300, b"\t" * 300, b'"' * 301, b" \n" * 100, b"\xef\xbb\xbf", b"\xff\xfe", b"\xff"),
    *(
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        "\u2028\u202e\u0085é".encode(),
        b"\x1b[2J",
        b"\x1f\x8b",
    ),
    *(b"0", b"-1", b"-0", b"1e999", b"-1e400", b"nan", b"NaN", b"inf", b"Infinity", b"1.5", b"1_0"),
    *(b"2147483648", b"4294967296", b"9223372036854775807", b"9223372036854775808", b"9" * 19),
    *(b"9" * 400, b"9" * 5000, b"-" + b"9" * 5000, b"1." + b"3" * 5000, b"0x7fffffff"),
    *("٣".encode(), "²".encode(), b"null", b"true", b"false", b"[]", b"{}", b'""', b'"\\ud800"'),
    *(b"[[1]]", b'{"a": 1}', b'["\\u0000"]', b"[" * 5000, b'{"a":' * 5000, b"(" * 5000),
    *(b"[" * 100_000, b"a." * 100_000, b"a" * 70_000, b"a" * 1_000_000, b"x\ty\tz\n" * 20_000),
    *(b"..", b"../../../x", b"/dev/null", b"%s%n{}", b"\x7fELF", b"PAR1", b"<http://a>", b"_:a"),
)
# What stands for itself in most texts: a quoted string, a number, a word.
_WORDS = re.compile(rb'"(?:[^"\\\n]|\\.)*"|[-+]?\d[\w.+-]*|\w+')
_STRUCTURE = re.compile(rb"[\[\]{}(),:;=<>\"'\t\n ]")


def mutated(data: bytes, other: bytes, tokens: Sequence[bytes], dice: random.Random) -> bytes:
    """``data`` after one mutation; ``other`` is a file to take pieces from."""
    if data[:2] == b"\x1f\x8b" and dice.random() < 0.6:  # inside of what is packed
        try:
            plain = zlib.decompressobj(31).decompress(data, 1 << 20)  # 31: with a gzip header
        except zlib.error:
            plain = b""
        if 0 < len(plain) < 1 << 20:
            return gzip.compress(mutated(plain, other, tokens, dice), 1, mtime=0)
    return dice.choice(_MUTATIONS)(data, other, tokens, dice)


def _span(data: bytes, dice: random.Random) -> tuple[int, int]:
    start = dice.randint(0, len(data))
    return start, min(len(data), start + int(len(data) ** dice.random()) + 1)


def _flip(data: bytes, other: bytes, tokens: Sequence[bytes], dice: random.Random) -> bytes:
    new = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 8)) if data else 0):
        at = dice.randrange(len(new))
        new[at] = dice.choice((new[at] ^ (1 << dice.randrange(8)), dice.randrange(256), 0, 255))
    return bytes(new)


def _cut(data: bytes, other: bytes, tokens: Sequence[bytes], dice: random.Random) -> bytes:
    start, end = _span(data, dice)
    return dice.choice((data[:start], data[start:], data[:start] + data[end:]))


def _repeat(data: bytes, other: bytes, tokens: Sequence[bytes], dice: random.Random) -> bytes:
    start, end = _span(data, dice)
    times = min(dice.choice((1, 1, 3, 50, 2000)), 1 + (1 << 20) // max(end - start, 1))
    return data[:end] + data[start:end] * times + data[end:]


def _splice(data: bytes, other: bytes, tokens: Sequence[bytes], dice: random.Random) -> bytes:
    start, end = _span(data, dice)
    first, last = _span(other, dice)
    return data[:start] + other[first:last] + data[dice.choice((start, end)) :]


def _insert(data: bytes, other: bytes, tokens: Sequence[bytes], dice: random.Random) -> bytes:
    start, end = _span(data, dice)
    return data[:start] + dice.choice(tokens) + data[dice.choice((start, start, end)) :]


def _replace_word(data: bytes, other: bytes, tokens: Sequence[bytes], dice: random.Random) -> bytes:
    """A word, number or quoted string becomes a token, or a word of ``other``."""
    words = list(_WORDS.finditer(data[: 1 << 16]))
    if not words:
        return _insert(data, other, tokens, dice)
    found = dice.choice(words)
    others = _WORDS.findall(other[: 1 << 16]) if dice.random() < 0.3 else tokens
    word = dice.choice(others or tokens)
    if found[0][:1] == b'"' and dice.random() < 0.5:
        word = b'"' + word.replace(b'"', b"") + b'"'
    return data[: found.start()] + word + data[found.end() :]


def _change_structure(
    data: bytes, other: bytes, tokens: Sequence[bytes], dice: random.Random
) -> bytes:
    """A bracket, separator or line end goes, comes twice, or becomes another one."""
    marks = list(_STRUCTURE.finditer(data[: 1 << 16]))
    if not marks:
        return _flip(data, other, tokens, dice)
    found = dice.choice(marks)
    new = dice.choice((b"", found[0] * 2, dice.choice(marks)[0]))
    return data[: found.start()] + new + data[found.end() :]


def _swap_lines(data: bytes, other: bytes, tokens: Sequence[bytes], dice: random.Random) -> bytes:
    lines = data.split(b"\n")
    a, b = dice.randrange(len(lines)), dice.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]
    return b"\n".join(lines)


def _line_ends(data: bytes, other: bytes, tokens: Sequence[bytes], dice: random.Random) -> bytes:
    return data.replace(b"\n", dice.choice((b"\r\n", b"\r", b"\n\n", b" \n", b"\0", b"", b"\n ")))


_MUTATIONS = (
    *(_flip, _flip, _cut, _repeat, _splice, _insert, _insert, _replace_word, _replace_word),
    *(_change_structure, _swap_lines, _line_ends),
)


@dataclass(frozen=True)
class Case:
    """A mutated seed; a name without content is that of a folder."""

    seed: Seed
    content: Mapping[str, bytes | None]

    def write(self, folder: Path) -> Path:
        """Write it into ``folder``; the path that a target is given."""
        root = folder / self.seed.name if self.seed.is_folder else folder
        root.mkdir(parents=True, exist_ok=True)
        for name, data in self.content.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if data is None:
                path.mkdir(exist_ok=True)
            else:
                path.write_bytes(data)
        return root if self.seed.is_folder else root / next(iter(self.seed.content))


def make_case(target: Target, seed: int, number: int) -> Case:
    """Case ``number`` of the run ``seed``; it is the same on every machine."""
    dice = random.Random(f"{target.name} {seed} {number}")
    chosen = target.seeds[number % len(target.seeds)]
    tokens = (*TOKENS, *target.tokens, *target.tokens)
    content: dict[str, bytes | None] = dict(chosen.content)
    for _ in range(dice.choice((1, 1, 1, 2, 2, 4, 8))):
        name = dice.choice(list(content))
        if chosen.is_folder and dice.random() < 0.06:
            _mutate_folder(content, name, dice)
            if not content:
                break
        elif (data := content[name]) is not None:
            elsewhere = dice.choice(target.seeds).content
            other = elsewhere[dice.choice(list(elsewhere))]
            content[name] = mutated(data, other, tokens, dice)
    return Case(chosen, content)


def _mutate_folder(content: dict[str, bytes | None], name: str, dice: random.Random) -> None:
    """Take a file away, empty it, put a folder in its place, or another file's content."""
    other = dice.choice(list(content))
    match dice.randrange(4):
        case 0:
            del content[name]
        case 1:
            content[name] = b""
        case 2:
            content[name] = None
        case _:
            content[name], content[other] = content[other], content[name]


# -- running ---------------------------------------------------------------------------------------


@dataclass
class Report:
    """What became of the cases, by kind; a failure is (case number, kind, detail)."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, str, str]] = field(default_factory=list)
    slowest: float = 0.0  # seconds
    memory: int = 0  # bytes, the most that a process held

    def __str__(self) -> str:
        counts = ", ".join(f"{n:,} {kind}" for kind, n in sorted(self.counts.items()))
        return (
            f"{self.counts.total():,} cases: {counts}; {len(self.failures):,} failures; "
            f"slowest {self.slowest:.1f} s, most memory {self.memory / 2**20:,.0f} MB"
        )


def fuzz(
    target: str,
    cases: Sequence[int],
    seed: int = 0,
    *,
    workers: int = 1,
    progress: Callable[[Report], None] = lambda report: None,
) -> Report:
    """Run the ``cases`` of a target in ``workers`` processes at a time."""
    report = Report()
    shares = [_Worker(target, seed, list(cases[i::workers])) for i in range(workers)]
    try:
        while any(worker.waiting for worker in shares):
            for worker in shares:
                for number, kind, detail, seconds in worker.results(0.02):
                    report.counts[kind] += 1
                    report.slowest = max(report.slowest, seconds)
                    report.memory = max(report.memory, worker.memory)
                    if kind not in ("accepted", "refused"):
                        report.failures.append((number, kind, detail))
            progress(report)
    finally:
        for worker in shares:
            worker.stop()
    return report


def save_failures(target: str, seed: int, report: Report, folder: Path) -> None:
    """Write the input and the error of each failure to a folder of its own."""
    for number, kind, detail in report.failures:
        place = folder / f"{target}-{seed}-{number}"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        make_case(find_target(target), seed, number).write(place / "input")
        (place / "error.txt").write_text(f"{kind}\n{detail}\n", encoding="utf-8", errors="replace")


Result = tuple[int, str, str, float]  # case number, kind, detail, seconds


class _Worker:
    """A process that runs cases in order, and is started again after one that ended it."""

    def __init__(self, target: str, seed: int, cases: list[int]):
        self.waiting = deque(cases)
        self.memory = 0
        self._arguments = target, seed
        self._process: Any = None

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")  # threads of libraries survive no fork
        self._folder = tempfile.mkdtemp(prefix="bilink-fuzz-")
        self._log = Path(self._folder, "stderr")
        self._pipe, theirs = context.Pipe(duplex=False)
        arguments = (*self._arguments, list(self.waiting), theirs, self._folder)
        self._process = context.Process(target=_work, args=arguments, daemon=True)
        self._process.start()
        theirs.close()
        self._since, self._ready = time.monotonic(), False

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            shutil.rmtree(self._folder, ignore_errors=True)
            self._process = None

    def results(self, timeout: float) -> Iterator[Result]:
        """What has become known since the last call, after waiting for it for a moment."""
        if not self.waiting:
            return self.stop()
        if self._process is None:
            self._start()
        try:
            while self._pipe.poll(timeout):
                message, timeout = self._pipe.recv(), 0
                self._since, ready = time.monotonic(), self._ready
                if not ready:
                    self._ready = True
                    continue
                kind, detail, seconds, memory = message
                self.memory = max(self.memory, memory)
                yield self.waiting.popleft(), kind, detail, seconds
                if memory > MEMORY:
                    return self.stop()
        except EOFError:
            self._process.join()
            yield self._lost("killed", f"exit code {self._process.exitcode}\n{self._tail()}")
            return
        seconds = time.monotonic() - self._since
        if seconds > (SECONDS if self._ready else START):
            yield self._lost("hang", f"no answer after {seconds:.0f} s\n{self._tail()}")
        elif self._ready and (held := _resident(self._process.pid)) > MEMORY:
            self.memory = max(self.memory, held)
            yield self._lost("memory", f"{held:,} bytes\n{self._tail()}")

    def _lost(self, kind: str, detail: str) -> Result:
        if not self._ready:
            raise RuntimeError(f"a worker did not start: {detail}")
        seconds = time.monotonic() - self._since
        self.stop()
        return self.waiting.popleft(), kind, detail, seconds

    def _tail(self) -> str:
        return self._log.read_text(errors="replace")[-2000:] if self._log.exists() else ""


def _resident(pid: int) -> int:
    """The memory that a process holds, where the system says so."""
    with suppress(OSError, ValueError, IndexError):
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _peak() -> int:
    """The most memory that this process has held."""
    with suppress(OSError):  # getrusage counts what the parent held when it forked
        status = Path("/proc/self/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # in bytes on macOS


def _work(name: str, seed: int, cases: list[int], pipe: Any, folder: str) -> None:
    """Run the cases; after each, send (kind, detail, seconds, most memory so far)."""
    log = os.open(Path(folder, "stderr"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    target = find_target(name)
    os.environ.update(target.environment)
    place = Path(folder, "case")
    for valid in target.seeds:  # imports and compiling are no part of a case
        outcome(target.run, Case(valid, valid.content).write(place))
        shutil.rmtree(place)
    pipe.send("ready")
    for number in cases:
        path = make_case(target, seed, number).write(place)
        start = time.perf_counter()
        kind, detail = outcome(target.run, path)
        seconds = time.perf_counter() - start
        if kind in ("accepted", "refused") and _peak() > MEMORY:
            kind, detail = "memory", f"{_peak():,} bytes"
        shutil.rmtree(place)
        pipe.send((kind, detail, seconds, _peak()))


def outcome(run: Callable[[Path], Any], path: Path) -> tuple[str, str]:
    """What became of one case: accepted, refused, or a failure and its detail."""
    from bilink.errors import BilinkError, DataWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        for category in (DeprecationWarning, PendingDeprecationWarning, ResourceWarning):
            warnings.simplefilter("ignore", category)
        warnings.simplefilter("always", DataWarning)
        try:
            run(path)
            kind, messages = "accepted", []
        except BilinkError as error:
            kind, messages = "refused", [str(error)]
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # a panic in Rust is no Exception
            return "traceback", traceback.format_exc()[-6000:]
    for message in (*messages, *(str(warning.message) for warning in caught)):
        short = message.replace(str(path), "").replace(str(path.parent), "")
        if len(short) > MESSAGE or ("\n" in short):
            return "message", f"{len(short):,} characters: {short[:2000]!r}"
    return kind, ""
