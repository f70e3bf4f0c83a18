"""The HTTP application: each endpoint parses a request and has the explorer answer it."""

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from importlib import resources
from typing import Annotated, Any, Literal, ParamSpec, TypeVar

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

import bilink
from bilink.errors import BilinkError, DataError, QueryStopped, TrainingError
from bilink.runs.run import Run
from bilink.serving import schema
from bilink.serving.cards import NOT_FINITE
from bilink.serving.explorer import Explorer
from bilink.serving.guard import Guard
from bilink.serving.review import Review, add_review

P = ParamSpec("P")
R = TypeVar("R")
Text = Annotated[str, Query(min_length=1, max_length=500)]
OptionalText = Annotated[str | None, Query(min_length=1, max_length=500)]
Typed = Annotated[str, Query(max_length=500)]
Count = Annotated[int, Query(ge=1, le=schema.MAX_K)]
Size = Annotated[int, Query(ge=1, le=100)]
Missing = Annotated[  # the library checks it
    float | None,
    Query(
        description="The share of all facts that is thought missing, for probabilities.",
        json_schema_extra={"exclusiveMinimum": 0, "exclusiveMaximum": 1},
    ),
]

_KINDS = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}
_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": schema.Error, "description": text}
    for status, text in {
        400: "The question makes no sense.",
        404: "A name is unknown.",
        422: "A parameter is out of range.",
        503: "The server is busy.",
        504: "The answer took too long.",
    }.items()
}


class BusyError(Exception):
    """The queue of a worker pool is full."""


class SlowError(Exception):
    """Work took longer than its worker pool allows."""


class WorkerPool:
    """A few threads beside the event loop, and a queue of limited length before them.

    A caller gives up on work that is too slow, but the work counts until it has ended, so that
    impatient callers cannot pile it up.
    """

    def __init__(self, name: str, *, workers: int, waiting: int, seconds: float):
        self._name, self._workers = name, workers
        self._threads: ThreadPoolExecutor | None = None  # until there is work, and after ``close``
        self._free = threading.BoundedSemaphore(workers + waiting)
        self.seconds = seconds

    async def run(self, work: Callable[P, R], *args: P.args, **options: P.kwargs) -> R:
        """Do the work on one of the threads."""
        if not self._free.acquire(blocking=False):
            raise BusyError
        try:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self._workers, f"bilink-{self._name}")
            job = self._threads.submit(work, *args, **options)
        except BaseException:
            self._free.release()
            raise
        job.add_done_callback(lambda _: self._free.release())
        try:
            return await asyncio.wait_for(asyncio.wrap_future(job), self.seconds)
        except TimeoutError:
            raise SlowError from None

    def close(self) -> None:
        """Drop what waits, and end the threads when they are done."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None


class Json(JSONResponse):
    """JSON in ASCII, which can express any name, even one that is not valid Unicode."""

    def render(self, content: Any) -> bytes:
        """Encode ``content``; numbers that are not finite are an error."""
        try:
            return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()
        except ValueError:
            raise TrainingError(NOT_FINITE) from None


def make_app(
    run: Run,
    *,
    token: str | None = None,
    hosts: Collection[str] | None = None,
    review: bool = False,
) -> ASGIApp:
    """The ASGI application that answers for ``run``; see ``Guard`` for ``token`` and ``hosts``.

    With ``review``, decisions are kept in the run's folder; without, nothing is ever written.
    """
    explorer = Explorer(run)
    reviewing = Review(explorer, review)
    cores = os.cpu_count() or 1
    quick = WorkerPool("quick", workers=min(4, cores), waiting=256, seconds=10)
    slow = WorkerPool("slow", workers=1, waiting=8, seconds=60)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        quick.close()
        slow.close()
        reviewing.updater.close()

    app = FastAPI(
        title="bilink",
        description="Questions to a run, over HTTP.",
        version=bilink.__version__,
        openapi_url="/api/openapi.json",
        docs_url=None,  # these pages load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
        responses=_ERRORS,
        default_response_class=Json,
    )
    _add_errors(app)
    _add_page(app)
    _add_questions(app, explorer, reviewing, quick, slow)
    _add_cards(app, explorer, reviewing, quick, slow)
    add_review(app, reviewing, quick, slow, Json)
    return Guard(app, token=token, hosts=hosts)


def _add_questions(
    app: FastAPI, explorer: Explorer, review: Review, quick: WorkerPool, slow: WorkerPool
) -> None:
    @app.get("/api/info", response_model=schema.Info)
    async def info() -> Response:
        """The run and its graph in a few words."""
        return Json(await quick.run(lambda: explorer.info() | review.info()))

    @app.get("/api/search", response_model=schema.Matches)
    async def search(
        text: Typed = "", kind: Literal["entity", "relation"] = "entity", k: Size = 8
    ) -> Response:
        """Names that match what was typed so far."""
        return Json(await quick.run(explorer.search, text, kind, k))

    @app.get("/api/query", response_model=schema.Answers)
    async def query(
        head: OptionalText = None,
        relation: OptionalText = None,
        tail: OptionalText = None,
        k: Count = 10,
        new: bool = False,
        seen: bool = False,
        any_entity: bool = False,
        missing: Missing = None,
    ) -> Response:
        """Ask (h, r, ?), (?, r, t), (h, ?, t), (?, r, ?), or for the most probable new facts.

        ``new`` leaves out what the graph holds; without a relation and entities all answers are
        new.  ``seen`` allows only entities that training has in that position of the relation.
        Without probabilities, ``any_entity`` allows also those that make no sense.
        """
        options: dict[str, Any] = {"k": k, "new": new, "seen": seen, "any_entity": any_entity}
        options["missing"] = missing
        if head is None and tail is None:
            return Json(review.marked(await slow.run(explorer.pairs, relation, **options)))
        return Json(review.marked(await quick.run(explorer.query, head, relation, tail, **options)))

    @app.post("/api/score", response_model=schema.Scores)
    async def score(triples: schema.Triples, missing: Missing = None) -> Response:
        """The scores and probabilities of up to 1,000 triples."""
        return Json(await quick.run(explorer.score, triples.triples, missing))

    @app.get("/api/explain", response_model=schema.Explanation)
    async def explain(head: Text, relation: Text, tail: Text, missing: Missing = None) -> Response:
        """Why the run thinks that a triple is true, or not."""
        return Json(await slow.run(explorer.explain, head, relation, tail, missing))


def _add_cards(
    app: FastAPI, explorer: Explorer, review: Review, quick: WorkerPool, slow: WorkerPool
) -> None:
    @app.get("/api/entity", response_model=schema.Entity)
    async def entity(name: Text) -> Response:
        """The facts of an entity, and those in doubt."""
        return Json(await quick.run(explorer.entity, name))

    @app.get("/api/neighbours", response_model=schema.Neighbours)
    async def neighbours(name: Text, k: Size = 8) -> Response:
        """The entities with the most similar vectors."""
        return Json(await quick.run(explorer.neighbours, name, k))

    @app.get("/api/neighbourhood", response_model=schema.Neighbourhood)
    async def neighbourhood(name: Text, size: Size = 24) -> Response:
        """A small graph around an entity."""
        return Json(await quick.run(explorer.neighbourhood, name, size))

    @app.get("/api/relation", response_model=schema.Relation)
    async def relation(name: Text) -> Response:
        """A relation in numbers."""
        return Json(await slow.run(explorer.relation, name))

    @app.get("/api/weights", response_model=schema.AllWeights)
    async def weights() -> Response:
        """Which share of the score each member of an ensemble carries."""
        return Json(await slow.run(explorer.weights))

    @app.get("/api/audit", response_model=schema.Audit)
    async def audit(relation: OptionalText = None, k: Count = 50) -> Response:
        """The facts that look wrong, most doubtful first."""
        return Json(review.marked(await quick.run(explorer.audit, k, relation)))

    @app.get("/api/map", response_model=schema.MapOfEntities)
    async def map(relation: OptionalText = None) -> Response:
        """Entities as points in the plane."""
        return Json(await slow.run(explorer.map, relation))


def _add_page(app: FastAPI) -> None:
    """The files of the page, read once, so that no request path is looked up on the disk."""
    for file in resources.files("bilink.serving").joinpath("page").iterdir():
        suffix = "." + file.name.rpartition(".")[2]
        if suffix in _KINDS:
            path = "/" if file.name == "index.html" else f"/{file.name}"
            _add_file(app, path, file.read_bytes(), f"{_KINDS[suffix]}; charset=utf-8")


def _add_file(app: FastAPI, path: str, content: bytes, kind: str) -> None:
    async def send() -> Response:
        return Response(content, headers={"content-type": kind})

    app.get(path, include_in_schema=False)(send)


# The status and the sentence of an error; None is what the error itself says.
_FAILURES: dict[type[Exception], tuple[int, str | None]] = {
    BilinkError: (400, None),
    DataError: (404, None),
    QueryStopped: (504, None),
    SlowError: (504, "This took too long; ask again in a minute."),
    BusyError: (
        503,
        "The server has more questions than it can answer now; ask again in a moment.",
    ),
    Exception: (500, "Something went wrong inside bilink; its console says what."),
}


def _add_errors(app: FastAPI) -> None:
    async def failed(_: Request, error: Exception) -> Response:
        kind = next(kind for kind in type(error).__mro__ if kind in _FAILURES)
        status, sentence = _FAILURES[kind]
        headers = {"retry-after": "1"} if kind is BusyError else None
        return Json({"error": sentence or str(error)}, status, headers)

    async def invalid(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part not in ("query", "body"))
        return Json({"error": f"{where or 'body'}: {first['msg']}"}, 422)

    async def http_error(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return Json({"error": str(error.detail)}, error.status_code, error.headers)

    for kind in _FAILURES:
        app.add_exception_handler(kind, failed)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http_error)
