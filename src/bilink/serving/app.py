"""The HTTP application: each endpoint parses a request and has an explorer answer it."""

import os
import time
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal

from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

import bilink
from bilink.runs.run import Run
from bilink.serving import schema
from bilink.serving.answering import Json, Server, add_files
from bilink.serving.batch import answer_batch
from bilink.serving.failures import CODES, describe, kinds
from bilink.serving.guard import Guard
from bilink.serving.pools import BusyError, SlowError, WorkerPool
from bilink.serving.review import Marks, Review, add_review
from bilink.serving.runs import Runs

__all__ = ["BusyError", "SlowError", "WorkerPool", "make_app"]

BATCH_SECONDS = 100.0
CARD_SECONDS = 0.7  # for which the card of a relation is waited for
_OLD_CARD_SECONDS = 30.0  # the same under the old path, which promised a whole card


def _name(text: str, example: str) -> Any:
    return Query(min_length=1, max_length=500, description=text, examples=[example])


_HEAD = "The head: a name, or an unambiguous label, in any case."
_RELATION = "The relation: a name, or an unambiguous label, in any case."
_TAIL = "The tail: a name, or an unambiguous label, in any case."
Head = Annotated[str, _name(_HEAD, "Chile")]
Relation = Annotated[str, _name(_RELATION, "official language")]
Tail = Annotated[str, _name(_TAIL, "Spanish")]
MaybeHead = Annotated[str | None, _name(_HEAD, "Chile")]
MaybeRelation = Annotated[str | None, _name(_RELATION, "official language")]
MaybeTail = Annotated[str | None, _name(_TAIL, "Spanish")]
EntityName = Annotated[str, _name("The entity: a name, or an unambiguous label.", "Chile")]
Typed = Annotated[
    str, Query(max_length=500, description="What was typed so far.", examples=["austrla"])
]
Count = Annotated[int, Query(ge=1, le=schema.MAX_K, description="How many rows.")]
Size = Annotated[int, Query(ge=1, le=100, description="How many.")]
Offset = Annotated[
    int, Query(ge=0, le=schema.MAX_OFFSET, description="How many rows of earlier pages to skip.")
]
FarOffset = Annotated[
    int, Query(ge=0, le=2**31, description="How many rows of earlier pages to skip.")
]
New = Annotated[bool, Query(description="Leave out facts that the graph holds.")]
Seen = Annotated[
    bool, Query(description="Only entities that training has in that position of the relation.")
]
AnyEntity = Annotated[
    bool, Query(description="Without probabilities: also candidates that make no sense.")
]
Missing = Annotated[  # the library checks it
    float | None,
    Query(
        description="The share of all facts that is thought missing, for probabilities.",
        json_schema_extra={"exclusiveMinimum": 0, "exclusiveMaximum": 1},
    ),
]
RunNumber = Annotated[
    str | None,
    Query(max_length=20, description="Which run, as info lists them; the first without it."),
]

_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": schema.Error, "description": text}
    for status, text in {
        400: "The question makes no sense.",
        401: "A token is needed: Authorization: Bearer TOKEN.",
        403: "This caller, or this server, may not do that.",
        404: "A name is unknown.",
        413: "The body is too long.",
        422: "A parameter is out of range.",
        503: "The server is busy.",
        504: "The answer took too long.",
    }.items()
}
_TAGS = [
    {"name": "questions", "description": "What is true, how likely, and why."},
    {"name": "graph", "description": "Names, entities and relations."},
    {"name": "run", "description": "The runs of the server as a whole."},
    {"name": "review", "description": "What people decide about facts, and the update with it."},
]


def make_app(
    run: Run | Sequence[Run],
    *,
    token: str | None = None,
    hosts: Collection[str] | None = None,
    review: bool = False,
) -> ASGIApp:
    """The ASGI application that answers for one run or several; see ``Guard`` for who may ask.

    With ``review``, decisions are kept in the folder of the first run; without, nothing is ever
    written.
    """
    cores = os.cpu_count() or 1
    quick = WorkerPool("quick", workers=min(4, cores), waiting=256, seconds=10)
    given = [run] if isinstance(run, Run) else list(run)
    marks = Marks(given[0], review) if given else None
    runs = Runs(given, decisions=marks, last_use=lambda: quick.last_use)
    server = Server(runs, quick)
    server.review = review
    reviewing = Review(runs[None], review, runs.add_update, runs.background)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        runs.open()
        reviewing.prepare()
        yield
        reviewing.updater.close()
        server.close()

    app = FastAPI(
        title="bilink",
        description="Questions to a run, over HTTP.",
        version=bilink.__version__,
        openapi_url=None,  # served below, under several paths
        docs_url=None,  # these pages load scripts from elsewhere
        redoc_url=None,
        openapi_tags=_TAGS,
        lifespan=lifespan,
        default_response_class=Json,
        generate_unique_id_function=lambda route: route.name,
    )
    _add_errors(app)
    for prefix, seconds in (("/api/v1", CARD_SECONDS), ("/api", _OLD_CARD_SECONDS)):
        router = APIRouter(prefix=prefix, responses=_ERRORS, default_response_class=Json)
        _add_questions(router, server)
        _add_graph(router, server, seconds)
        _add_runs(router, server)
        app.include_router(router, include_in_schema=prefix == "/api/v1")
    add_review(app, reviewing, server.quick, server.queue, Json, _ERRORS)
    add_files(app)
    return Guard(app, token=token, hosts=hosts)


def _add_questions(router: APIRouter, server: Server) -> None:
    tags: list[Any] = ["questions"]

    @router.get("/query", response_model=schema.Answers, tags=tags)
    async def query(
        request: Request,
        head: MaybeHead = None,
        relation: MaybeRelation = None,
        tail: MaybeTail = None,
        k: Count = 10,
        offset: Offset = 0,
        new: New = False,
        seen: Seen = False,
        any_entity: AnyEntity = False,
        missing: Missing = None,
        run: RunNumber = None,
    ) -> Response:
        """Ask (h, r, ?), (?, r, t), (h, ?, t), (?, r, ?), or for the most probable new facts.

        Without a relation and entities all answers are new.
        """
        options: dict[str, Any] = {"k": k, "new": new, "seen": seen, "any_entity": any_entity}
        options |= {"missing": missing, "offset": offset}
        explorer = server.runs[run]
        pool = server.pairs if head is None and tail is None else server.quick
        return await server.answer(
            request, pool, explorer, explorer.ask, head, relation, tail, **options
        )

    @router.post("/queries", response_model=schema.Results, tags=tags)
    async def query_batch(request: Request, questions: schema.Questions) -> Response:
        """Answers to up to 1,000 questions with an entity; each has its own answers or error."""
        rows = [question.model_dump() for question in questions.questions]
        explorer = server.runs[questions.run]

        def answer() -> dict[str, Any]:
            end = time.monotonic() + BATCH_SECONDS
            return answer_batch(
                explorer, rows, lambda: explorer.closing.is_set() or time.monotonic() > end
            )

        return await server.answer(request, server.batch, None, answer)

    @router.post("/score", response_model=schema.Scores, tags=tags)
    async def score(
        request: Request,
        triples: schema.Triples,
        missing: Missing = None,
        run: RunNumber = None,
    ) -> Response:
        """The scores and probabilities of up to 1,000 triples; each has its own or an error."""
        work = server.runs[run].score
        return await server.answer(request, server.quick, None, work, triples.triples, missing)

    @router.get("/explain", response_model=schema.Explanation, tags=tags)
    async def explain(
        request: Request,
        head: Head,
        relation: Relation,
        tail: Tail,
        missing: Missing = None,
        run: RunNumber = None,
    ) -> Response:
        """Why the run thinks that a triple is true, or not."""
        explorer, names = server.runs[run], (head, relation, tail)
        return await server.answer(
            request, server.explain, explorer, explorer.explain, *names, missing
        )

    @router.get("/audit", response_model=schema.Audit, tags=tags)
    async def audit(
        request: Request,
        relation: MaybeRelation = None,
        k: Count = 50,
        offset: FarOffset = 0,
        run: RunNumber = None,
    ) -> Response:
        """The facts that look wrong, most doubtful first."""
        explorer = server.runs[run]
        return await server.answer(
            request, server.quick, explorer, explorer.audit, k, relation, offset
        )

    @router.get("/compare", response_model=schema.Comparison, tags=tags)
    async def compare(
        request: Request,
        head: MaybeHead = None,
        relation: MaybeRelation = None,
        tail: MaybeTail = None,
        k: Annotated[int, Query(ge=1, le=100, description="How many answers of each run.")] = 10,
        new: New = False,
        seen: Seen = False,
        any_entity: AnyEntity = False,
        missing: Missing = None,
    ) -> Response:
        """What each run answers to a question; where they disagree most comes first."""
        options = {"new": new, "seen": seen, "any_entity": any_entity, "missing": missing}
        work = server.runs.compare
        pool = server.pairs if head is None and tail is None else server.compare
        return await server.answer(request, pool, None, work, head, relation, tail, k, **options)


def _add_graph(router: APIRouter, server: Server, card_seconds: float) -> None:
    tags: list[Any] = ["graph"]

    @router.get("/search", response_model=schema.Matches, tags=tags)
    async def search(
        request: Request,
        text: Typed = "",
        kind: Annotated[
            Literal["entity", "relation"], Query(description="What is looked for.")
        ] = "entity",
        k: Size = 8,
        offset: Offset = 0,
        run: RunNumber = None,
    ) -> Response:
        """Names that match what was typed so far, or nearly do."""
        explorer = server.runs[run]
        work, stays = explorer.search, explorer.has_close_names
        return await server.answer(
            request, server.quick, explorer if stays else None, work, text, kind, k, offset
        )

    @router.get("/entity", response_model=schema.Entity, tags=tags)
    async def entity(request: Request, name: EntityName, run: RunNumber = None) -> Response:
        """The facts of an entity, and those in doubt."""
        explorer = server.runs[run]
        return await server.answer(request, server.quick, explorer, explorer.entity, name)

    @router.get("/facts", response_model=schema.Facts, tags=tags)
    async def facts(
        request: Request,
        entity: EntityName,
        relation: Relation,
        side: Annotated[
            Literal["head", "tail"], Query(description="Where the others stand in these facts.")
        ] = "tail",
        k: Count = 50,
        offset: FarOffset = 0,
        run: RunNumber = None,
    ) -> Response:
        """The others in the facts of an entity with one relation, the best connected first."""
        explorer = server.runs[run]
        return await server.answer(
            request, server.quick, explorer, explorer.facts_of, entity, relation, side, k, offset
        )

    @router.get("/neighbours", response_model=schema.Neighbours, tags=tags)
    async def neighbours(
        request: Request, name: EntityName, k: Size = 8, run: RunNumber = None
    ) -> Response:
        """The entities with the most similar vectors."""
        explorer = server.runs[run]
        return await server.answer(request, server.quick, explorer, explorer.neighbours, name, k)

    @router.get("/neighbourhood", response_model=schema.Neighbourhood, tags=tags)
    async def neighbourhood(
        request: Request, name: EntityName, size: Size = 24, run: RunNumber = None
    ) -> Response:
        """A small graph around an entity."""
        explorer = server.runs[run]
        return await server.answer(
            request, server.quick, explorer, explorer.neighbourhood, name, size
        )

    @router.get("/relation", response_model=schema.Relation, tags=tags)
    async def relation(
        request: Request,
        name: Annotated[str, _name(_RELATION, "official language")],
        run: RunNumber = None,
    ) -> Response:
        """A relation in numbers; as long as it is pending, parts are missing."""
        work = server.runs[run].relation
        return await server.answer(request, server.cards, None, work, name, card_seconds)


def _add_runs(router: APIRouter, server: Server) -> None:
    tags: list[Any] = ["run"]

    @router.get("/info", response_model=schema.Info, tags=tags)
    async def info(request: Request, run: RunNumber = None) -> Response:
        """The run and its graph in a few words, and which runs there are."""
        work = server.runs.info
        return await server.answer(request, server.quick, None, work, run, server.review)

    @router.get("/weights", response_model=schema.AllWeights, tags=tags)
    async def weights(request: Request, run: RunNumber = None) -> Response:
        """Which share of the score each member of an ensemble carries."""
        explorer = server.runs[run]
        return await server.answer(request, server.cards, explorer, explorer.weights)

    @router.get("/map", response_model=schema.MapOfEntities, tags=tags)
    async def map(
        request: Request, relation: MaybeRelation = None, run: RunNumber = None
    ) -> Response:
        """Entities as points in the plane."""
        explorer = server.runs[run]
        return await server.answer(request, server.map, explorer, explorer.map, relation)


def _add_errors(app: FastAPI) -> None:
    async def failed(_: Request, error: Exception) -> Response:
        status, body = describe(error)
        return Json(body, status, {"retry-after": "1"} if body["code"] == "busy" else None)

    async def invalid(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part not in ("query", "body"))
        return Json({"error": f"{where or 'body'}: {first['msg']}", "code": "invalid"}, 422)

    async def http_error(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        code = CODES.get(error.status_code, "invalid")
        return Json({"error": str(error.detail), "code": code}, error.status_code, error.headers)

    for kind in kinds():
        app.add_exception_handler(kind, failed)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http_error)
