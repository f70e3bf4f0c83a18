"""Files that are whole or not there."""

import errno
import os
import secrets
import stat
from collections.abc import Collection, Iterator
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
    sentence, and the old file stays.  A link at ``path`` is replaced, and not written through.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        yield temporary
        sync_file(temporary)
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        raise write_error(path, error) from error
    finally:
        with suppress(OSError):  # where nothing may be written, nothing may be removed
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Replace the file at ``path`` by ``text``."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


UNFINISHED = ".unfinished"  # stands in a folder while its files are being written


@contextmanager
def filling(folder: Path, names: Collection[str]) -> Iterator[None]:
    """A block that writes files of these ``names`` into a new or empty ``folder``.

    What a killed process has left there is removed, so that the same can be done again; files of
    other names are not touched.
    """
    check_empty(folder)
    mark = folder / UNFINISHED
    try:
        folder.mkdir(parents=True, exist_ok=True)
        present = {path.name for path in folder.iterdir()}
        rest = {name for name in present if name[0] == "." and name.endswith(".tmp")}
        if strangers := present - rest - {mark.name, *names}:
            raise RunError(
                f"{folder} was not finished, and holds {sorted(strangers)[0]!r}, which bilink did "
                "not write there; choose another --out"
            )
        os.close(open_unlinked(mark, os.O_WRONLY))
        for name in present - {mark.name}:
            (folder / name).unlink()
        yield
        mark.unlink()
    except OSError as error:
        raise write_error(folder, error) from error


def check_empty(folder: Path) -> None:
    """Refuse a folder that cannot be filled, before anything is done for it."""
    try:
        if not folder.exists():
            return
        if not folder.is_dir():
            raise RunError(f"{folder} is a file; choose another --out")
        if any(folder.iterdir()) and not (folder / UNFINISHED).exists():
            raise RunError(f"{folder} is not empty; choose another --out")
    except OSError as error:
        raise write_error(folder, error) from error


def append_text(path: Path, text: str, *, sync: bool = False) -> None:
    """Add ``text`` to the end of the file at ``path``, which must not be a link.

    With ``sync``, it is on the disk when this returns.
    """
    try:
        handle = open_unlinked(path, os.O_WRONLY | os.O_APPEND)
        with open(handle, "a", encoding="utf-8", newline="\n") as file:
            file.write(text)
            if sync:
                file.flush()
                os.fsync(file.fileno())
    except OSError as error:
        raise write_error(path, error) from error


def open_unlinked(path: Path, flags: int) -> int:
    """Open or make a regular file without following a link, which may lead to anybody's file."""
    no_links = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    handle = os.open(path, flags | os.O_CREAT | no_links, 0o666)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is no regular file")
    return handle


@contextmanager
def locked(path: Path, *, wait: bool) -> Iterator[bool]:
    """Hold the lock file at ``path``; yields whether it could be had, which ``wait`` waits for.

    The system frees the lock of a process that died.  Where there are no such locks (Windows),
    nothing is locked.
    """
    try:
        import fcntl
    except ImportError:
        yield True
        return
    try:
        handle = open_unlinked(path, os.O_RDWR)
    except OSError as error:
        raise write_error(path, error) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            free = True
        except BlockingIOError:
            free = False
        except OSError as error:  # some network disks know no locks
            raise write_error(path, error) from error
        yield free
    finally:
        os.close(handle)


def write_error(path: Path, error: OSError) -> RunError:
    """What went wrong while writing, in a sentence."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return RunError(
            f"no space left while writing {path}; the last good state is kept. "
            "Free some space and go on from there."
        )
    if error.errno == errno.ENOENT and not path.parent.exists():
        return RunError(f"cannot write {path}: the folder {path.parent} is gone")
    if error.errno == errno.ELOOP:
        return RunError(f"{path} is a link to another file, which is not touched; remove the link")
    return RunError(f"cannot write {path}: {error.strerror or error}")


def sync_file(path: Path) -> None:
    """Wait until what was written to a file is on the disk."""
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make a rename last, where the system can (Windows cannot)."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
