"""Warnings about data, attributed to the line of the user's program that asked for the data."""

import sys
import warnings

from bilink.errors import DataWarning


def warn(message: str) -> None:
    """Issue a DataWarning that points at the first caller outside bilink."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] == "bilink":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, DataWarning, stacklevel=level)


def counted(n: int, singular: str, plural: str | None = None) -> str:
    """``n`` with its noun: "1 triple", "2,000 triples"."""
    return f"{n:,} {singular if n == 1 else plural or singular + 's'}"
