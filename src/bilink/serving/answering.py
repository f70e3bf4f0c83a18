"""How answers travel: worker pools, JSON, compression, entity tags, and the files of the page."""

import gzip
import hashlib
import json
from collections.abc import Callable
from importlib import resources
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

from bilink.errors import TrainingError
from bilink.serving.cards import NOT_FINITE
from bilink.serving.explorer import Explorer
from bilink.serving.pools import WorkerPool
from bilink.serving.runs import Runs

LEAST = 2048  # bytes that are worth compressing
_LEVEL = 5
_KINDS = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}
_PATHS = {"index.html": "/", "docs.html": "/docs"}


class Json(JSONResponse):
    """JSON in ASCII, which can express any name, even one that is not valid Unicode."""

    def render(self, content: Any) -> bytes:
        """Encode ``content``; numbers that are not finite are an error."""
        return encode(content)


def encode(content: Any) -> bytes:
    """JSON in ASCII; numbers that are not finite are an error."""
    try:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()
    except ValueError:
        raise TrainingError(NOT_FINITE) from None


class Server:
    """The runs, and a worker pool for each kind of work, so that no slow kind blocks another."""

    def __init__(self, runs: Runs, quick: WorkerPool):
        self.runs, self.quick = runs, quick
        self.review = False  # whether decisions may be made
        self.batch = WorkerPool("batch", workers=1, waiting=8, seconds=120)
        self.compare = WorkerPool("compare", workers=1, waiting=32, seconds=30)
        self.pairs = WorkerPool("pairs", workers=1, waiting=8, seconds=60)
        self.explain = WorkerPool("explain", workers=1, waiting=8, seconds=60)
        self.cards = WorkerPool("cards", workers=2, waiting=32, seconds=60)
        self.queue = WorkerPool("queue", workers=1, waiting=8, seconds=60)
        self.map = WorkerPool("map", workers=1, waiting=8, seconds=60)

    def close(self) -> None:
        """End all work."""
        self.runs.close()
        for pool in (self.quick, self.batch, self.compare, self.pairs, self.explain, self.cards):
            pool.close()
        self.queue.close()
        self.map.close()

    async def answer(
        self,
        request: Request,
        pool: WorkerPool,
        explorer: Explorer | None,
        work: Callable[..., Any],
        *args: Any,
        **options: Any,
    ) -> Response:
        """Have the work done; with an explorer, the answer is as good as long as it lives."""
        tag = None if explorer is None else _tag(request, explorer)
        if tag is not None and _has(request, tag):
            return Response(status_code=304, headers={"etag": tag, "vary": "accept-encoding"})
        zipped = _takes_gzip(request)

        def answer() -> tuple[bytes, dict[str, str]]:
            return _packed(encode(work(*args, **options)), zipped)

        content, headers = await pool.run(answer)
        if tag is not None:
            headers["etag"] = tag
        return Response(content, headers={"content-type": "application/json", **headers})


def _packed(content: bytes, zipped: bool) -> tuple[bytes, dict[str, str]]:
    """The content, compressed if that is wanted and worth it, and the headers that say so."""
    if len(content) < LEAST:
        return content, {}
    if not zipped:
        return content, {"vary": "accept-encoding"}
    headers = {"vary": "accept-encoding", "content-encoding": "gzip"}
    return gzip.compress(content, _LEVEL, mtime=0), headers


def _takes_gzip(request: Request) -> bool:
    accepted = request.headers.get("accept-encoding", "").replace(" ", "").lower().split(",")
    return any(each == "gzip" or each.startswith("gzip;q=0.") for each in accepted) or (
        "gzip;q=1" in accepted
    )


def _tag(request: Request, explorer: Explorer) -> str:
    """The same for the same question, to the same run, with the same decisions."""
    asked = f"{explorer.state} {explorer.decisions.version} {request.url.path}?{request.url.query}"
    return _weak(asked.encode())


def _weak(content: bytes) -> str:
    return f'W/"{hashlib.blake2b(content, digest_size=12).hexdigest()}"'


def _has(request: Request, tag: str) -> bool:
    """Whether the caller has this answer already."""
    known = request.headers.get("if-none-match")
    return known is not None and tag in [each.strip() for each in known.split(",")]


def add_files(app: FastAPI) -> None:
    """The files of the page, read once, so that no request path is looked up on the disk."""
    for file in resources.files("bilink.serving").joinpath("page").iterdir():
        suffix = "." + file.name.rpartition(".")[2]
        if suffix in _KINDS:
            path = _PATHS.get(file.name, f"/{file.name}")
            _add_file(app, [path], file.read_bytes(), f"{_KINDS[suffix]}; charset=utf-8")
    paths = ["/openapi.json", "/api/v1/openapi.json", "/api/openapi.json"]
    _add_file(app, paths, encode(app.openapi()), "application/json")


def _add_file(app: FastAPI, paths: list[str], content: bytes, kind: str) -> None:
    packed = {zipped: _packed(content, zipped) for zipped in (False, True)}
    tag = _weak(content)

    async def send(request: Request) -> Response:
        if _has(request, tag):
            return Response(status_code=304, headers={"etag": tag, "vary": "accept-encoding"})
        body, headers = packed[_takes_gzip(request)]
        return Response(body, headers={"content-type": kind, "etag": tag, **headers})

    for path in paths:
        app.get(path, include_in_schema=False)(send)
