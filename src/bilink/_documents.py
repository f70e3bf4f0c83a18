"""JSON, JSON lines and TOML from files that anybody may have written: one reader, one error.

What is read is a regular file of limited size; its values have the given types, and its numbers
are finite.  Whatever else is found becomes one sentence that names the file.
"""

import json
import math
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from bilink._memory import available_memory
from bilink.errors import BilinkError, RunError

T = TypeVar("T")

MOST_JSON = 2**30  # bytes of a JSON file
COPIES = 20  # values of JSON take up to so many times the memory of their text
MOST_TOML = 2**20  # of a TOML file, which people write
DEEPEST_KEY = 20  # parts of a dotted key; thousands of them take minutes to parse
_KEYS = re.compile(r"[^\w.\-\"' \t]+")  # what stands between two dotted keys


def read_bytes(path: Path, most: int = MOST_JSON, error: type[BilinkError] = RunError) -> bytes:
    """The content of a regular file of at most ``most`` bytes."""
    check_regular(path, error)
    try:
        with open(path, "rb") as file:
            data = file.read(most + 1)
    except OSError as problem:
        raise error(f"{path} cannot be read: {problem.strerror or problem}") from None
    if len(data) > most:
        raise error(f"{path} has more than {most:,} bytes; that is no such file")
    return data


def check_regular(path: Path, error: type[BilinkError] = RunError) -> None:
    """Refuse pipes and devices, which might never end, and say what is not there."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise error(f"{path} cannot be read: {reason}") from None
    if not stat.S_ISREG(mode):
        raise error(f"{path} is no regular file")


def read_json(path: Path, kind: type[T], error: type[BilinkError] = RunError) -> T:
    """The value in a JSON file, of type ``kind``."""
    text = read_bytes(path, MOST_JSON, error)
    if COPIES * len(text) > available_memory():
        raise error(f"{path} has {len(text):,} bytes, too many for the memory that is left")
    return parse_json(text, kind, str(path), error)


def read_json_lines(path: Path, kind: type[T]) -> list[T]:
    """The values in the lines of a file, up to the first one that is damaged or cut short."""
    values = []
    for line in read_bytes(path).decode("utf-8", "replace").splitlines():
        try:
            values.append(parse_json(line, kind, str(path)))
        except RunError:
            break
    return values


def parse_json(
    text: str | bytes, kind: type[T], where: str, error: type[BilinkError] = RunError
) -> T:
    """The value in a JSON text from ``where``, of type ``kind``."""
    try:
        value = json.loads(text, parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError) as problem:
        raise error(f"{where} is damaged: {_reason(problem)}") from None
    return converted(value, kind, where, error)


def read_toml(path: Path, kind: type[T], error: type[BilinkError] = RunError) -> T:
    """The tables of a TOML file, of type ``kind``."""
    try:
        text = read_bytes(path, MOST_TOML, error).decode()
        if any(part.count(".") > DEEPEST_KEY for part in _KEYS.split(text)):
            raise error(f"{path} has a key of more than {DEEPEST_KEY} parts")
        value = tomllib.loads(text)
    except (ValueError, RecursionError) as problem:
        raise error(f"{path} cannot be read: {_reason(problem)}") from None
    return converted(value, kind, str(path), error)


def converted(value: Any, kind: type[T], where: str, error: type[BilinkError] = RunError) -> T:
    """``value``, checked to be of type ``kind``; what a data class does not know is left out."""
    try:
        return msgspec.convert(value, kind)
    except (ValueError, RecursionError) as problem:  # among them lone surrogates in keys
        reason = _reason(problem).replace(" - at `$", " at `")
        raise error(f"{where} is damaged or of another program: {reason}") from None


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:20]} is not finite")
    return value


def _reason(problem: Exception) -> str:
    if isinstance(problem, RecursionError):
        return "it is nested too deeply"
    if isinstance(problem, UnicodeDecodeError):
        return "it is not UTF-8"
    return str(problem)
