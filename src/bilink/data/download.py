"""Fetching an archive and taking the splits out of it; neither server nor archive is trusted."""

import hashlib
import http.client
import json
import tarfile
import time
import urllib.error
import urllib.parse
import urllib.request
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

from bilink.data.folders import split_of
from bilink.data.graph import Split
from bilink.errors import DataError

Progress = Callable[[int, int | None], None]  # bytes so far, bytes in all where known

ATTEMPTS = 4
WAIT = 1.0  # seconds before the second attempt; doubled for each further one
TIMEOUT = 30.0  # seconds without a byte
BLOCK = 1 << 16
ARCHIVE_LIMIT = 256 << 20  # bytes; the largest archive of the catalogue has some 20 MB
UNPACKED_LIMIT = 1 << 30


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req, fp, code, msg, headers, newurl):
        _check_url(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def fetch(url: str, path: Path, progress: Progress | None = None) -> None:
    """Download ``url`` to ``path``; continue where an earlier attempt stopped."""
    _check_url(url)
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(WAIT * 2 ** (attempt - 1))
        try:
            return _attempt(url, path, progress)
        except urllib.error.HTTPError as error:
            if error.code < 500 and error.code not in (408, 416, 429):
                raise DataError(f"{url}: the server answers {error.code} {error.reason}") from None
            reason: Exception = error
            if error.code == 416:  # the part on disk does not fit the server's file
                forget(path)
        except (OSError, http.client.HTTPException) as error:
            reason = error
    raise DataError(f"{url}: {reason} ({ATTEMPTS} attempts); try again later, it will go on")


def _check_url(url: str) -> None:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "https" and not (
        parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost")
    ):
        raise DataError(f"{url}: only https is allowed")


def _attempt(url: str, path: Path, progress: Progress | None) -> None:
    request = urllib.request.Request(url, headers={"User-Agent": "bilink"})  # noqa: S310
    version = _version_of_part(url, path)
    have = path.stat().st_size if version else 0
    if have:
        request.add_header("Range", f"bytes={have}-")
        request.add_header("If-Range", version)  # the whole file, if it has changed since
    opener = urllib.request.build_opener(_SafeRedirects)
    with opener.open(request, timeout=TIMEOUT) as answer:
        resumed = answer.status == 206
        part = answer.headers.get("Content-Range", "")
        if resumed and not part.startswith(f"bytes {have}-"):
            forget(path)
            raise ConnectionError("the server sent another part than the one asked for")
        have = have if resumed else 0
        length = answer.headers.get("Content-Length")
        total = have + int(length) if length and length.isdecimal() else None
        if total is not None and total > ARCHIVE_LIMIT:
            raise DataError(f"{url}: {total:,} bytes are more than expected; not downloaded")
        _note_version(url, path, answer.headers)
        with path.open("ab" if resumed else "wb") as file:
            while have <= ARCHIVE_LIMIT and (block := answer.read(BLOCK)):
                file.write(block)
                have += len(block)
                if progress:
                    progress(have, total)
    if have > ARCHIVE_LIMIT:
        forget(path)
        raise DataError(f"{url}: the server sends more than {ARCHIVE_LIMIT:,} bytes; stopped")
    if total is not None and have < total:
        raise ConnectionError(f"the connection ended after {have:,} of {total:,} bytes")


def _note(path: Path) -> Path:
    return path.with_name(path.name + ".json")


def _note_version(url: str, path: Path, headers: Mapping[str, str]) -> None:
    """Note which version of which file the part belongs to; weak tags do not allow resuming."""
    tag = headers.get("ETag", "")
    version = tag if tag.startswith('"') else headers.get("Last-Modified")
    _note(path).write_text(json.dumps({"url": url, "version": version}), encoding="utf-8")


def _version_of_part(url: str, path: Path) -> str:
    """The version of the part on disk; "" if the download has to start again."""
    try:
        note = json.loads(_note(path).read_text(encoding="utf-8"))
        return note["version"] or "" if note["url"] == url and path.stat().st_size else ""
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def forget(path: Path) -> None:
    """Remove a part and the note about it."""
    for file in (path, _note(path)):
        file.unlink(missing_ok=True)


def extract(archive: Path, sha256: Mapping[Split, str]) -> dict[Split, bytes]:
    """The splits in a tar archive whose checksums are right, lines ending in LF.

    Nothing is unpacked to disk and no name in the archive is used as a path: members are read into
    memory, and one is taken if its name says which split it is and its checksum agrees.
    """
    splits: dict[Split, bytes] = {}
    unpacked = 0
    try:
        with tarfile.open(archive, "r:*") as tar:
            for member in tar:
                unpacked += member.size
                if unpacked > UNPACKED_LIMIT:
                    raise DataError(f"the archive unpacks to more than {UNPACKED_LIMIT:,} bytes")
                split = split_of(PurePosixPath(member.name).name)
                if split and split not in splits and member.isfile():
                    data = tar.extractfile(member).read().replace(b"\r\n", b"\n")  # type: ignore[union-attr]
                    if hashlib.sha256(data).hexdigest() == sha256[split]:
                        splits[split] = data
        if missing := [split for split in sha256 if split not in splits]:
            names = " or ".join(missing)
            raise DataError(f"the archive has no {names} split with the expected checksum")
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        forget(archive)
        raise DataError(f"the archive is corrupt: {error}") from None
    except DataError:
        forget(archive)
        raise
    return splits
