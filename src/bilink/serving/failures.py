"""Errors as callers see them: a sentence, a code that programs can rely on, and close names."""

from collections.abc import Sequence
from typing import Any

from bilink.errors import BilinkError, DataError, QueryStopped, TrainingError
from bilink.serving.pools import BusyError, SlowError


class UnknownName(DataError):
    """A name that the graph, or the server, does not have."""

    def __init__(self, message: str, code: str, suggestions: Sequence[dict[str, str]] = ()):
        super().__init__(message)
        self.code, self.suggestions = code, list(suggestions)


class Refused(BilinkError):
    """A request that makes sense and is not allowed."""

    def __init__(self, message: str, code: str, status: int = 403):
        super().__init__(message)
        self.code, self.status = code, status


# The status, the code and the sentence of an error; None is what the error itself says.
_KINDS: dict[type[Exception], tuple[int, str, str | None]] = {
    BilinkError: (400, "invalid", None),
    DataError: (404, "not-found", None),
    UnknownName: (404, "not-found", None),
    TrainingError: (400, "not-finite", None),
    QueryStopped: (504, "slow", None),
    SlowError: (504, "slow", "This took too long; ask again in a minute."),
    BusyError: (
        503,
        "busy",
        "The server has more questions than it can answer now; ask again in a moment.",
    ),
    Exception: (500, "internal", "Something went wrong inside bilink; its console says what."),
}
# Of errors that the framework raises.
CODES = {
    400: "invalid",
    401: "unauthorized",
    403: "forbidden",
    404: "not-found",
    405: "wrong-method",
    408: "slow",
    413: "too-large",
    422: "invalid",
    503: "busy",
    504: "slow",
}


def kinds() -> list[type[Exception]]:
    """The errors that ``describe`` knows."""
    return list(_KINDS)


def describe(error: Exception) -> tuple[int, dict[str, Any]]:
    """The status and the body that answer a request which failed."""
    kind = next(kind for kind in type(error).__mro__ if kind in _KINDS)
    status, code, sentence = _KINDS[kind]
    status, code = getattr(error, "status", status), getattr(error, "code", code)
    body: dict[str, Any] = {"error": sentence or str(error), "code": code}
    if isinstance(error, UnknownName):
        body["suggestions"] = error.suggestions
    return status, body
