"""Files that are whole or not there."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bilink.errors import RunError


def user_cache() -> Path:
    """The folder for what can be made or fetched again: compiled kernels, downloaded graphs."""
    if own := os.environ.get("BILINK_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bilink"


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its name when the block has ended well.

    A crash at any moment leaves either the old file or the new one.  A full disk becomes a
    sentence, and the old file stays.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as error:
        raise write_error(path, error) from error
    finally:
        with suppress(OSError):  # where nothing may be written, nothing may be removed
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Replace the file at ``path`` by ``text``."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_error(path: Path, error: OSError) -> RunError:
    """What went wrong while writing, in a sentence."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return RunError(
            f"no space left while writing {path}; the last good state is kept. "
            "Free some space and go on from there."
        )
    return RunError(f"cannot write {path}: {error.strerror or error}")


def _sync_folder(folder: Path) -> None:
    """Make a rename last, where the system can (Windows cannot)."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
