"""The errors that bilink raises on purpose.

Each message is one sentence or two: what is wrong, where, and what to do.  The command line prints
the message and exits with code 1; anything else that escapes is a bug in bilink.
"""

LONGEST = 800  # characters of a message, whatever it quotes


def in_one_line(message: str) -> str:
    """``message`` in one line of limited length; libraries put several lines into theirs."""
    message = " ".join(message.split("\n"))
    if len(message) > LONGEST:
        message = f"{message[: LONGEST // 2]} … {message[-LONGEST // 2 :]}"
    return message


class BilinkError(Exception):
    """Base of all errors about input or state; catch this one to catch them all."""

    def __init__(self, message: str = ""):
        super().__init__(in_one_line(message))


class DataError(BilinkError):
    """A graph, a file of triples, or a name in it is not what it should be."""


class ConfigError(BilinkError):
    """An option has an impossible value, or its name is unknown."""


class RunError(BilinkError):
    """A run folder is missing, broken, of another version, or in the way."""


class TrainingError(BilinkError):
    """Training cannot go on, for example because the parameters are no longer finite."""


class WorkerError(BilinkError):
    """Work that was handed to another process or machine failed there, or the machine is gone."""


class QueryStopped(BilinkError):
    """A search was stopped, as whoever asked for it wished, before its answer was known."""


class DataWarning(UserWarning):
    """Something in a graph was repaired or looks odd; the message says what and how often."""
