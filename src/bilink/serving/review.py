"""Reviewing over HTTP: what to look at next, decisions that are kept, and the update with them.

Nothing is written unless the server was started for it, and then only in the folder of the run.
"""

import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Protocol

from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from bilink._text import printable
from bilink.errors import ConfigError, QueryStopped, RunError
from bilink.queries.answers import Answer
from bilink.queries.worth_asking import worth_asking
from bilink.runs.decisions import DECIDED, Decided, Decision, Decisions, Wish
from bilink.runs.run import Run
from bilink.serving import schema
from bilink.serving.cards import doubts_of, finite
from bilink.serving.explorer import Explorer
from bilink.serving.failures import Refused
from bilink.serving.pools import Background
from bilink.serving.updating import Updater

BATCH = 200  # facts that a queue finds at a time
MOST = 2_000  # facts of a queue
SEARCH_SECONDS = 20.0  # for a batch
SURE_SECONDS = 2.0  # after which the pace of a search tells how long it will take
AHEAD = 3  # pages that are found before anybody asks for them
MAX_K = 1_000
PAGE = 20  # rows of a queue, unless asked otherwise
OFF = "This server only reads: start it with 'bilink serve RUN --review' to keep decisions."
KINDS = {"tsv": "text/tab-separated-values", "csv": "text/csv", "nt": "application/n-triples"}
KINDS |= {"json": "application/json"}
_TEXTS = ("text/plain", "text/tab-separated-values")
_NAMES = ("head", "relation", "tail")
_OTHERS = ("DELETE", "HEAD", "OPTIONS", "PATCH", "PUT", "TRACE")
_REFUSALS = {
    403: "The server only reads.",
    409: "An update is running.",
    415: "The content type is another, or a header is missing.",
}

Name = Annotated[str, Field(min_length=1, max_length=500)]
OptionalName = Annotated[
    str | None, Query(min_length=1, max_length=500, description="Only facts of this relation.")
]
Count = Annotated[int, Query(ge=1, le=MAX_K, description="How many rows.")]
Offset = Annotated[int, Query(ge=0, le=10**9, description="How many rows come before.")]
DecidedAs = Annotated[Decided | None, Query(description="Only what was decided so.")]


# -- shapes ----------------------------------------------------------------------------------------


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Decide(_Shape):
    """What a person decides about a fact; null takes a decision back."""

    head: Name
    relation: Name
    tail: Name
    decision: Decided | None
    reason: Annotated[str, Field(max_length=1_000)] = ""


class Decides(_Shape):
    """Decisions about up to 1,000 facts."""

    decisions: list[Decide] = Field(max_length=MAX_K)


class UpdateOptions(_Shape):
    """How to update the run."""

    epochs: int = Field(0, ge=0, le=10_000, description="Epochs of training to add.")


class Counts(_Shape):
    """How many facts were decided so."""

    accept: int
    reject: int
    unsure: int


class DecisionRow(_Shape):
    """What holds for a fact; without an id, nothing was decided."""

    id: int | None
    head: str
    relation: str
    tail: str
    head_label: str
    relation_label: str
    tail_label: str
    decision: Decided | None
    probability: float | None  # when it was decided
    reason: str
    time: str | None
    kind: str


class DecisionPage(_Shape):
    """Decisions, the newest first."""

    decisions: list[DecisionRow]
    counts: Counts
    count: int
    more: bool


class Kept(_Shape):
    """What now holds for each fact."""

    decisions: list[DecisionRow]
    counts: Counts


class Undone(_Shape):
    """The fact whose last change was taken back, and what holds for it now."""

    decision: DecisionRow | None
    counts: Counts
    triple: dict[str, str]


class ImportedRows(_Shape):
    """What became of the rows that were sent."""

    added: int
    known: int
    unknown: list[str]
    counts: Counts


class UpdateState(_Shape):
    """How far the update is, and what it changed."""

    state: Literal["idle", "running", "done", "failed"]
    step: str
    progress: float | None
    error: str | None
    run: str | None
    changes: dict[str, Any] | None


class QueueRow(_Shape):
    """A fact that nobody has decided about."""

    head: str
    relation: str
    tail: str
    head_label: str
    relation_label: str
    tail_label: str
    label: str
    score: float | None
    probability: float | None
    rank: int
    known: bool
    decision: None = None
    why_asked: str | None


class QueuePage(_Shape):
    """What to look at next."""

    rows: list[QueueRow]
    more: bool


# -- what is answered ------------------------------------------------------------------------------


class Marks:
    """What was decided about the facts of a run, for the answers of a server."""

    def __init__(self, run: Run, allowed: bool):
        self._allowed = allowed
        self.kept: Decisions | None = None
        if allowed or run.path is not None:
            self.kept = run.decisions
            with nullcontext() if allowed else suppress(RunError):
                self.kept.log.refresh()  # before anyone relies on it

    @property
    def version(self) -> int:
        """Another number after each change."""
        if self.kept is None:
            return 0
        with suppress(RunError):
            self.kept.log.refresh()
        return self.kept.log.size

    def decision(self, head: str, relation: str, tail: str) -> str | None:
        """What was decided about a fact, if anything."""
        if self.kept is not None:
            with suppress(RunError):  # who asks for decisions is told; others want answers
                return self.kept.of([(head, relation, tail)])[0]
        return None

    def counts(self) -> dict[str, int] | None:
        """How many facts were decided in each way; None where nothing is kept."""
        if self.kept is not None and (self._allowed or self.kept.log.exists):
            with suppress(RunError):
                return self.kept.counts()
        return None


class Review:
    """The decisions about a run, as a server keeps them.

    ``on_updated`` takes an updated run in and returns its id; queues then ask that run.  Where
    there is a ``background``, it finds what a queue has next before anybody asks.
    """

    def __init__(
        self,
        explorer: Explorer,
        allowed: bool,
        on_updated: Callable[[Run], str | None] = lambda run: None,
        background: Background | None = None,
    ):
        self._explorer, self.run, self.allowed = explorer, explorer.run, allowed
        self._on_updated, self._background = on_updated, background
        self._decisions = self.run.decisions if self.run.path is not None else None
        self._queue = self._queue_of(self.run)
        self.updater = Updater(self.run, self._updated)

    def _queue_of(self, run: Run) -> "Queue":
        background = self._background if self.allowed else None
        return Queue(run, self.run, self._explorer.closing, background)

    def prepare(self) -> None:
        """Have the background find what a review begins with."""
        if self.allowed:
            self._queue.prepare(Key(), PAGE, self.decisions)

    def _updated(self, run: Run) -> str | None:
        name = self._on_updated(run)
        self._queue = self._queue_of(run)
        self.prepare()
        return name

    @property
    def decisions(self) -> Decisions:
        """The decisions, if the server keeps or has any."""
        found = self._decisions
        if found is None or not (self.allowed or found.log.exists):
            raise Refused(OFF, "review-off")
        return found

    # -- decisions ---------------------------------------------------------------------------------

    def page(self, decision: Decided | None, offset: int, k: int) -> dict[str, Any]:
        """What was decided, the newest first."""
        found = self.decisions.all()[::-1]
        counts = {name: sum(each.decision == name for each in found) for name in DECIDED}
        found = [each for each in found if decision in (None, each.decision)]
        rows = [self._row(each) for each in found[offset : offset + k]]
        return {
            "decisions": rows,
            "counts": counts,
            "count": len(found),
            "more": offset + k < len(found),
        }

    def decide(self, decided: Sequence[Decide]) -> dict[str, Any]:
        """Keep decisions, all or none."""
        wishes = []
        entities, relations = self.run.graph.entities.names, self.run.graph.relations.names
        for each in decided:
            head, tail = (self._explorer.entities.find(name) for name in (each.head, each.tail))
            relation = relations[self._explorer.relations.find(each.relation)]
            wishes.append(
                Wish(entities[head], relation, entities[tail], each.decision, each.reason)
            )
        found = self.decisions.decide(wishes, by="page")
        rows = [
            self._row(now or Decision(0, wish.head, wish.relation, wish.tail, None))
            for wish, now in zip(wishes, found, strict=True)
        ]
        return {"decisions": rows, "counts": self.decisions.counts()}

    def undo(self) -> dict[str, Any]:
        """Take back the last change."""
        triple, now = self.decisions.undo()
        return {
            "decision": None if now is None else self._row(now),
            "counts": self.decisions.counts(),
            "triple": dict(zip(_NAMES, triple, strict=True)),
        }

    def imported(self, text: str, decision: Decided) -> dict[str, Any]:
        """Decide the facts of a text."""
        found = self.decisions.import_text(text, decision)
        unknown = [printable(sentence) for sentence in found.unknown]
        counts = self.decisions.counts()
        return {"added": found.added, "known": found.known, "unknown": unknown, "counts": counts}

    def exported(self, decision: Decided, form: str) -> bytes:
        """A file of the facts that were decided so."""
        table = self.decisions.table(decision)
        table.check(f".{form}")
        return table.content(f".{form}")

    def _row(self, each: Decision) -> dict[str, Any]:
        return {
            "id": each.id or None,
            **named(self.run, each.triple),
            "decision": each.decision,
            "probability": each.probability,
            "reason": each.reason,
            "time": each.time or None,
            "kind": each.kind,
        }

    # -- the queue ---------------------------------------------------------------------------------

    def queue(
        self, key: "Key", k: int, offset: int, *, search: bool = True
    ) -> dict[str, Any] | None:
        """A page of what to look at next; None where it takes a search that is not wanted."""
        decisions = self.decisions
        if key.relation is not None:
            r = self._explorer.relations.find(key.relation)
            key = Key(key.kind, key.order, self.run.graph.relations.names[r])
        return self._queue.page(key, k, offset, decisions, search)


def named(run: Run, triple: Sequence[str]) -> dict[str, str]:
    """The three names of a fact, and what to show for them."""
    head, relation, tail = triple
    entities, relations = run.graph.entities.labels, run.graph.relations.labels
    return {
        "head": head,
        "relation": relation,
        "tail": tail,
        "head_label": printable(entities.get(head, head)),
        "relation_label": printable(relations.get(relation, relation)),
        "tail_label": printable(entities.get(tail, tail)),
    }


@dataclass(frozen=True)
class Key:
    """What a queue is of."""

    kind: str = "new"
    order: str = "probability"
    relation: str | None = None


@dataclass
class _Batch:
    rows: list[dict[str, Any]] = field(default_factory=list)
    seen: set[tuple[str, ...]] = field(default_factory=set)
    rounds: int = 0
    ended: bool = False  # there is nothing more to find

    def add(self, rows: Sequence[dict[str, Any]]) -> None:
        """Add rows that are not there yet."""
        before = len(self.rows)
        for row in rows:
            triple = tuple(row[name] for name in _NAMES)
            if triple not in self.seen:
                self.seen.add(triple)
                self.rows.append(row)
        self.rounds += 1
        self.ended = len(self.rows) == before or len(self.rows) >= MOST


class _Pace:
    """Ends a search that takes too long, as soon as it can be known."""

    def __init__(self, closing: threading.Event):
        self._closing, self._start = closing, time.monotonic()
        self._done, self.all = 0, 0

    def progress(self, done: int) -> None:
        """So much more has been searched."""
        self._done += done

    def stop(self) -> bool:
        """Whether there is no hope, or nobody to wait for the answer."""
        spent = time.monotonic() - self._start
        is_slow = spent > SURE_SECONDS and spent * self.all > SEARCH_SECONDS * self._done > 0
        return self._closing.is_set() or is_slow or spent > SEARCH_SECONDS


class Queue:
    """Facts to look at, found in batches and handed out in pages."""

    def __init__(
        self,
        run: Run,
        audited: Run,
        closing: threading.Event,
        background: Background | None = None,
    ):
        self._run, self._audited = run, audited
        self._closing, self._background = closing, background
        self._batches: dict[Key, _Batch] = {}
        self._searching = threading.Lock()
        self._is_large = False  # too large to search all of it

    def page(
        self, key: Key, k: int, offset: int, decisions: Decisions, search: bool
    ) -> dict[str, Any] | None:
        """The rows that nobody has decided about."""
        batch = self._batches.setdefault(key, _Batch())
        while True:
            rows = self._open(batch, decisions)
            if len(rows) > offset + k or batch.ended:
                break
            if not search:
                return None
            self._extend(key, batch, offset + k, decisions)
        if len(rows) <= offset + AHEAD * k:
            self.prepare(key, offset + AHEAD * k, decisions, soon=True)
        page = rows[offset : offset + k]
        shown = [{**row, "rank": i} for i, row in enumerate(page, start=offset + 1)]
        return {"rows": shown, "more": len(rows) > offset + k}

    def prepare(self, key: Key, most: int, decisions: Decisions, soon: bool = False) -> None:
        """Have the background find more than ``most`` rows, ``soon`` or when there is time."""
        batch = self._batches.setdefault(key, _Batch())
        if self._background is not None and not batch.ended:
            self._background.add(lambda: self._extend(key, batch, most, decisions), first=soon)

    def _extend(self, key: Key, batch: _Batch, most: int, decisions: Decisions) -> None:
        """Find rows once more, unless there are more than ``most`` by now."""
        with self._searching:
            if len(self._open(batch, decisions)) <= most and not batch.ended:
                batch.add(self._find(key, batch.rounds))

    @staticmethod
    def _open(batch: _Batch, decisions: Decisions) -> list[dict[str, Any]]:
        rows = list(batch.rows)
        decided = decisions.of((r["head"], r["relation"], r["tail"]) for r in rows)
        return [row for row, how in zip(rows, decided, strict=True) if how is None]

    def _find(self, key: Key, round: int) -> list[dict[str, Any]]:
        """More rows: the next best ones, or others that are worth asking about."""
        if key.kind == "doubts":
            return self._doubts(key) if not round else []
        names = self._run.graph.relations
        r = None if key.relation is None else names.find(key.relation)
        if key.order == "learning" and self._run.judge is not None:
            return self._instructive(r, round)
        if not self._is_large:
            k, pace = min(BATCH * 2**round, MOST), _Pace(self._closing)
            pace.all = self._run.to_search(relation=key.relation, new=True)
            try:
                found = self._run.query_ids(
                    None, r, None, k=k, new=True, stop=pace.stop, progress=pace.progress
                )
                return [self._row(answer) for answer in found]
            except QueryStopped:
                if self._closing.is_set():
                    raise
                self._is_large = True
        rows = self._instructive(r, round)
        return sorted(rows, key=lambda row: -(row["probability"] or 0.0))

    def _row(self, answer: Answer) -> dict[str, Any]:
        triple = answer.head, answer.relation, answer.tail
        return self._shown(triple, finite(answer.score), finite(answer.probability), False, None)

    def _instructive(self, relation: int | None, round: int) -> list[dict[str, Any]]:
        stop = self._closing.is_set
        found = worth_asking(self._run, relation, k=BATCH, seed=round, stop=stop)
        entities, relations = self._run.graph.entities.names, self._run.graph.relations.names
        rows = []
        for each in found:
            h, r, t = each.triple
            triple = entities[h], relations[r], entities[t]
            rows.append(self._shown(triple, None, finite(each.probability), False, each.why))
        return rows

    def _doubts(self, key: Key) -> list[dict[str, Any]]:
        """The facts that an audit found doubtful: the worst, or those nearest to one half."""
        rows = doubts_of(self._audited) or []
        rows = [row for row in rows if key.relation in (None, row["relation"])]
        if key.order == "learning":
            rows = sorted(rows, key=lambda row: abs((row["probability"] or 0.0) - 0.5))
        shown = []
        for row in rows:
            meant = row.get("suggestion")
            why = f"Perhaps {meant['label']} was meant." if meant else None
            triple = row["head"], row["relation"], row["tail"]
            shown.append(self._shown(triple, row["score"], row["probability"], True, why))
        return shown

    def _shown(
        self,
        triple: Sequence[str],
        score: float | None,
        probability: float | None,
        known: bool,
        why: str | None,
    ) -> dict[str, Any]:
        names = named(self._run, triple)
        label = ", ".join(names[f"{part}_label"] for part in _NAMES)
        return {
            **names,
            "label": label,
            "score": score,
            "probability": probability,
            "rank": 0,
            "known": known,
            "decision": None,
            "why_asked": why,
        }


# -- endpoints -------------------------------------------------------------------------------------


class Pool(Protocol):
    """Where work is done: a ``WorkerPool``."""

    async def run(self, work: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Do the work."""


def add_review(
    app: FastAPI,
    review: Review,
    quick: Pool,
    slow: Pool,
    json: Callable[..., Response],
    errors: dict[int | str, dict[str, Any]],
) -> None:
    """Add the endpoints of ``review``; ``json`` makes an answer of a value and a status."""
    refusals: dict[int | str, dict[str, Any]] = {
        status: {"model": schema.Error, "description": text} for status, text in _REFUSALS.items()
    }
    router = APIRouter(
        prefix="/api/v1",
        route_class=_checked(review),
        responses={**errors, **refusals},
        tags=["review"],
    )
    _add_decisions(router, review, quick, json)
    _add_files(router, review, quick, slow, json)
    _add_queue(router, review, quick, slow, json)
    _add_update(router, review, quick, json)
    for path in ("/decisions", "/update"):  # the framework would name one of their two methods
        router.add_api_route(path, _other_method, methods=[*_OTHERS], include_in_schema=False)
    app.include_router(router)


async def _other_method() -> Response:
    raise HTTPException(405, headers={"allow": "GET, POST"})


def _checked(review: Review) -> type[APIRoute]:
    """Routes that refuse to write, before anything else, where that is not allowed."""

    class Checked(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def checked(request: Request) -> Response:
                if request.method == "POST":
                    _check_post(request, review)
                return await handle(request)

            return checked

    return Checked


def _check_post(request: Request, review: Review) -> None:
    """A page of another site can send neither these content types nor this header unasked."""
    if not review.allowed:
        raise Refused(OFF, "review-off")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if request.url.path.endswith("/import"):
        if kind not in _TEXTS or request.headers.get("x-bilink") != "1":
            needed = f"content-type {' or '.join(_TEXTS)}, and a header X-Bilink: 1"
            raise Refused(f"Facts are imported with {needed}.", "invalid", 415)
    elif kind != "application/json":
        raise Refused("This needs content-type application/json.", "invalid", 415)


Answered = Callable[..., Response]


def _add_decisions(router: APIRouter, review: Review, quick: Pool, json: Answered) -> None:
    @router.get("/decisions", response_model=DecisionPage, operation_id="decisions")
    async def decisions(decision: DecidedAs = None, offset: Offset = 0, k: Count = 50) -> Response:
        """What was decided, the newest first."""
        return json(await quick.run(review.page, decision, offset, k))

    @router.post("/decisions", response_model=Kept, operation_id="decide")
    async def decide(body: Decides) -> Response:
        """Accept or reject facts, or note that they cannot be decided; null takes it back."""
        return json(await quick.run(review.decide, body.decisions))

    @router.post("/decisions/undo", response_model=Undone, operation_id="undo")
    async def undo() -> Response:
        """Take back the last change, whoever made it."""
        return json(await quick.run(review.undo))


def _add_files(router: APIRouter, review: Review, quick: Pool, slow: Pool, json: Answered) -> None:
    @router.get(
        "/decisions/export",
        operation_id="export_decisions",
        response_class=Response,
        responses={200: {"description": "A file.", "content": {k: {} for k in KINDS.values()}}},
    )
    async def export(
        decision: Annotated[Decided, Query(description="Which facts.")] = "accept",
        format: Annotated[
            Literal["tsv", "csv", "nt", "json"], Query(description="Of the file.")
        ] = "tsv",
    ) -> Response:
        """A file of the facts that were decided so."""
        content = await quick.run(review.exported, decision, format)
        name = f'attachment; filename="{decision}.{format}"'
        kind = KINDS[format] + ("; charset=utf-8" if KINDS[format].startswith("text") else "")
        return Response(content, headers={"content-type": kind, "content-disposition": name})

    @router.post(
        "/decisions/import",
        response_model=ImportedRows,
        operation_id="import_decisions",
        openapi_extra={
            "requestBody": {
                "content": {kind: {"schema": {"type": "string"}} for kind in _TEXTS},
                "required": True,
            },
            "parameters": [
                {
                    "name": "X-Bilink",
                    "in": "header",
                    "required": True,
                    "description": "Must be 1; pages of other sites cannot send it.",
                    "schema": {"type": "string", "enum": ["1"]},
                }
            ],
        },
    )
    async def import_(
        request: Request,
        decision: Annotated[
            Decided, Query(description="Of lines that have no decision of their own.")
        ] = "accept",
    ) -> Response:
        """Decide facts: lines of head, relation, tail and perhaps a decision, between tabs."""
        try:
            text = (await request.body()).decode()
        except UnicodeDecodeError:
            raise ConfigError("the text is not UTF-8") from None
        return json(await slow.run(review.imported, text, decision))


def _add_queue(router: APIRouter, review: Review, quick: Pool, slow: Pool, json: Answered) -> None:
    @router.get("/queue", response_model=QueuePage, operation_id="queue")
    async def queue(
        kind: Annotated[
            Literal["new", "doubts"], Query(description="New facts, or facts that look wrong.")
        ] = "new",
        order: Annotated[
            Literal["probability", "learning"],
            Query(description="The surest first, or those whose answer would teach most."),
        ] = "probability",
        relation: OptionalName = None,
        k: Count = PAGE,
        offset: Offset = 0,
    ) -> Response:
        """What to look at next: facts that nobody has decided about."""
        key = Key(kind, order, relation)
        found = await quick.run(review.queue, key, k, offset, search=False)
        if found is None:
            found = await slow.run(review.queue, key, k, offset)
        return json(found)


def _add_update(router: APIRouter, review: Review, quick: Pool, json: Answered) -> None:
    @router.post(
        "/update", response_model=UpdateState, status_code=202, operation_id="start_update"
    )
    async def start(options: UpdateOptions) -> Response:
        """Make a run that knows what was decided; one at a time."""
        return json(await quick.run(review.updater.start, options.epochs), 202)

    @router.get("/update", response_model=UpdateState, operation_id="update")
    async def state() -> Response:
        """How far the update is, and what it changed."""
        return json(review.updater.state())
