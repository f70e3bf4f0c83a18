"""The token: where it comes from, what it may be, and how wrong ones are slowed down."""

import os
import secrets
import stat
import time
from pathlib import Path

from bilink._text import warn
from bilink.errors import ConfigError

SHORTEST = 8
LONGEST = 500
VARIABLE = "BILINK_TOKEN"


def find_token(given: str | None, file: Path | None) -> str | None:
    """The token of the command line, of a file or of the environment; None if there is none."""
    if given is not None and file is not None:
        raise ConfigError("give --token or --token-file, not both")
    if file is not None:
        return read_token(file)
    return os.environ.get(VARIABLE) if given is None else given


def read_token(file: Path) -> str:
    """The token that a file holds, without the end of its line."""
    try:
        with file.open("rb") as opened:
            text = opened.read(LONGEST + 3).decode().strip("\r\n")
            mode = os.fstat(opened.fileno()).st_mode
    except OSError as error:
        raise ConfigError(f"cannot read --token-file {file}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"--token-file {file} does not hold text") from None
    try:
        check_token(text)
    except ConfigError as error:
        raise ConfigError(f"--token-file {file}: {error}") from None
    if os.name == "posix" and stat.S_ISREG(mode) and mode & (stat.S_IRGRP | stat.S_IROTH):
        warn(f"other users of this machine may read the token in {file}; run: chmod 600 {file}")
    return text


def check_token(token: str) -> None:
    """Complain about a token that is too short, or that a header or a cookie could not carry."""
    if len(token) < SHORTEST or not token.isascii() or not token.isprintable():
        raise ConfigError(f"a token needs at least {SHORTEST} plain characters")
    if len(token) > LONGEST:
        raise ConfigError(f"a token has at most {LONGEST} characters")
    if set(token) & set(' ;,"\\'):
        raise ConfigError("a token has no spaces, quotes, commas, semicolons or backslashes")


def new_token() -> str:
    """A token that no one can guess."""
    return secrets.token_urlsafe(24)


class WrongTokens:
    """How long the answer to a wrong token is held back: longer with each one of an address.

    Right tokens are never held back, so that whoever sends wrong ones from the same address cannot
    shut out their holder.
    """

    FREE = 5  # wrong tokens that are answered at once
    FIRST, MOST = 0.1, 5.0  # seconds
    MEMORY = 60.0  # seconds without a wrong token after which an address is forgotten
    ADDRESSES = 1000  # that are remembered

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, float]] = {}  # count and time; the last one at the end

    def delay(self, address: str) -> float:
        """Count a wrong token of ``address``; the seconds for which to hold back the answer."""
        now = time.monotonic()
        count, last = self._known.pop(address, (0, now))
        count = 1 if now - last > self.MEMORY else count + 1
        self._known[address] = count, now
        if len(self._known) > self.ADDRESSES:
            del self._known[next(iter(self._known))]
        if count <= self.FREE:
            return 0.0
        return min(self.MOST, self.FIRST * 2.0 ** min(count - self.FREE - 1, 10))
