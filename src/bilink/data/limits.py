"""How much a file of triples may hold: read and unpacked within a limit, and within memory."""

import gzip
import io
import os
import re
import stat
import zlib
from pathlib import Path
from typing import BinaryIO

from bilink._memory import available_memory
from bilink.errors import ConfigError, DataError

VARIABLE = "BILINK_MAX_BYTES"
MOST = 4_000_000_000  # bytes of a file after unpacking, unless the variable says otherwise
GZIP_MAGIC = b"\x1f\x8b"
COPIES = 3.5  # a table of names takes so many times the memory of its text, at the worst moment
FIELD = 60  # bytes of memory for each field beside it
BYTES_OF_FIELD = 8  # a file may hold so many times fewer fields, empty lines counted, than bytes
_BLOCK = 1 << 24
_SIZE = re.compile(r"(\d{1,15})\s*([kmgt]?)b?", re.IGNORECASE)
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def most_bytes() -> int:
    """The most that a file of triples may hold after unpacking."""
    given = os.environ.get(VARIABLE)
    if not given:
        return MOST
    found = _SIZE.fullmatch(given.strip())
    if found is None:
        raise ConfigError(f"{VARIABLE} must be a size, for example 8GB, not {given[:40]!r}")
    return int(found[1]) * _UNITS[found[2].casefold()]


def read_bytes(path: Path) -> bytes:
    """The content of ``path``, unpacked where it is a gzip file (whatever its name)."""
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise DataError(f"{path}: this is a folder, not a file of triples")
        if not stat.S_ISREG(status.st_mode):
            raise DataError(f"{path}: this is no regular file; write the triples to a file first")
        with path.open("rb") as file:
            packed = file.read(2) == GZIP_MAGIC
            file.seek(0)
            if not packed:
                if path.suffix == ".gz" and status.st_size:
                    raise DataError(
                        f"{path}: the name says gzip but the content is not; rename the file"
                    )
                check_bytes(path, status.st_size)
                return file.read()
            with gzip.open(file) as unpacked:
                return _read_some(path, unpacked)
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(
            f"{path}: the gzip file is corrupt or cut short ({error}); fetch or make it again"
        ) from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None


def _read_some(path: Path, file: BinaryIO | io.BufferedIOBase) -> bytes:
    """All of ``file``, block by block, so that no more is taken than is allowed."""
    blocks, size = [], 0
    while block := file.read(_BLOCK):
        size += len(block)
        check_bytes(path, size)
        blocks.append(block)
    return b"".join(blocks)


def check_bytes(path: Path, size: float) -> None:
    """Refuse a file whose text of ``size`` bytes is over the limit, or is too much for memory."""
    most = most_bytes()
    if size > most:
        raise DataError(
            f"{path}: it holds more than {most:,} bytes when unpacked; if it is no mistake, "
            f"allow more, for example {VARIABLE}={readable(2 * size)}"
        )
    _check_memory(path, COPIES * size)


def check_fields(
    path: Path, text: bytes, fields: int, copies: float = COPIES, field: int = FIELD
) -> None:
    """Refuse a text of more ``fields`` than the limit of bytes allows, or than fit into memory."""
    most = most_bytes() // BYTES_OF_FIELD
    if fields > most:
        raise DataError(
            f"{path}: it holds more than {most:,} fields or empty lines; if it is no mistake, "
            f"allow more, for example {VARIABLE}={readable(2 * BYTES_OF_FIELD * fields)}"
        )
    _check_memory(path, copies * len(text) + field * fields)


def _check_memory(path: Path, needed: float) -> None:
    if needed > (free := available_memory()):
        raise DataError(
            f"{path}: reading it takes about {readable(needed)} of memory, and "
            f"{readable(free)} are left; free some, or split the file into smaller ones"
        )


def readable(size: float) -> str:
    """A number of bytes for people, which the variable understands as well."""
    for unit in ("TB", "GB", "MB"):
        if size >= (scale := _UNITS[unit[0].casefold()]):
            return f"{size / scale:.0f}{unit}"
    return f"{size / 1000:.0f}kB"
