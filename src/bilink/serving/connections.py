"""The connections of the server: how many there are, how long they may wait, and who must leave."""

import asyncio
import json
import socket
from collections import Counter
from contextlib import suppress

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from bilink.serving.guard import HELD_BACK, network

REQUEST_SECONDS = 15.0  # from the connection, or from the last answer, to the end of a header
BODY_SECONDS = 30.0  # the same, to the end of a body
READING_SECONDS = 60.0  # for the client to read an answer
MOST, LEAST = 4000, 16  # connections
ACCEPTED_AT_ONCE = 64  # at most, before the first of them is looked at
QUEUE = 4096  # of connections that wait to be accepted; the system may allow fewer

_SENTENCE = json.dumps(
    {"error": "The server is busy with other callers; ask again in a moment.", "code": "busy"}
)
_FULL = (
    "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n"
    f"connection: close\r\ncontent-length: {len(_SENTENCE)}\r\n\r\n{_SENTENCE}"
).encode()


class Connection(H11Protocol):
    """A connection of uvicorn that knows who waits for whom; see ``Connections``."""

    others: "Connections"  # all that are open
    address: str
    since: float  # when it was made, or last had an answer

    @property
    def is_busy(self) -> bool:
        """Whether the client waits for the server; otherwise the server waits for the client."""
        if not self._is_asking or self.cycle.more_body or self.flow.write_paused:
            return False
        return HELD_BACK not in self.scope

    @property
    def is_late(self) -> bool:
        """Whether the server has waited for the client too long."""
        if self.is_busy:
            return False
        if self.flow.write_paused:
            limit = READING_SECONDS
        else:
            limit = BODY_SECONDS if self._is_asking else REQUEST_SECONDS
        return self.loop.time() - self.since > limit

    @property
    def _is_asking(self) -> bool:
        """Whether the header of a request has arrived, and the answer has not been given."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the place of one that waits if there are too many; refuse if all are busy."""
        super().connection_made(transport)
        self.address, self.since = network(self.client[0] if self.client else ""), self.loop.time()
        if not self.others.admit(self):
            transport.write(_FULL)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Make room."""
        self.others.remove(self)
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Wait for the next request from now on."""
        self.since = self.loop.time()
        self.others.to_the_end(self)
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP; hang up if it comes after the answer has begun."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.abort()


class Connections:
    """The open connections; when there are too many, the one that has waited longest is closed.

    A connection whose request is complete and not yet answered is never closed.  A limit alone
    would let a thousand silent connections shut out everyone else, and on one machine all have the
    same address; so a newcomer is refused only if all others are busy.
    """

    def __init__(self, total: int, per_address: int):
        self.total, self.per_address = total, per_address
        self._open: dict[Connection, None] = {}  # in the order of ``since``
        self._counts: Counter[str] = Counter()

    def protocol(self) -> type[Connection]:
        """The class of protocol for uvicorn."""
        return type("Connection", (Connection,), {"others": self})

    def admit(self, new: Connection) -> bool:
        """Count ``new``, after making room for it; False if there is none to be made."""
        if not self._make_room(new.address):
            return False
        self._open[new] = None
        self._counts[new.address] += 1
        return True

    def _make_room(self, address: str) -> bool:
        if self._counts[address] >= self.per_address:
            candidates = (other for other in self._open if other.address == address)
        elif len(self._open) >= self.total:
            candidates = (other for other in self._open)
        else:
            return True
        loser = next((other for other in candidates if not other.is_busy), None)
        if loser is None:
            return False
        self.remove(loser)
        loser.transport.abort()
        return True

    def to_the_end(self, connection: Connection) -> None:
        """Let ``connection`` be the last to leave."""
        if connection in self._open:
            del self._open[connection]
            self._open[connection] = None

    def remove(self, connection: Connection) -> None:
        """Forget a connection."""
        if connection in self._open:
            del self._open[connection]
            self._counts[connection.address] -= 1
            if not self._counts[connection.address]:
                del self._counts[connection.address]

    async def close_late(self) -> None:
        """Close those that have been waited for too long, even if they do not read."""
        for connection in [each for each in self._open if each.is_late]:
            connection.transport.abort()

    def __len__(self) -> int:
        return len(self._open)


class _Server(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, with a longer queue than what is accepted at once, which uvicorn takes for it."""
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(QUEUE)


def make_server(
    app: ASGIApp, *, local: bool, total: int | None = None, per_address: int | None = None
) -> uvicorn.Server:
    """The server of ``app``; unless it is local, each address has a share of the connections."""
    total = total or most_connections()
    connections = Connections(total, per_address or (total if local else max(1, total // 4)))
    config = uvicorn.Config(
        app,
        http=connections.protocol(),
        ws="none",
        access_log=False,
        log_level="error",  # nothing that a stranger can write at will
        server_header=False,
        proxy_headers=False,  # anyone on this machine could claim to be a proxy
        # Accepted at once: so few that a request can be read before others take its place.
        backlog=max(1, min(ACCEPTED_AT_ONCE, total // 8)),
        timeout_keep_alive=int(REQUEST_SECONDS),
        timeout_graceful_shutdown=5,
        callback_notify=connections.close_late,
        timeout_notify=1,
        h11_max_incomplete_event_size=2**16,
    )
    return _Server(config)


def most_connections() -> int:
    """How many connections the limit of open files allows, raised as far as the system lets us."""
    try:
        import resource
    except ImportError:  # Windows counts no descriptors
        return MOST
    spare = 200 + 2 * ACCEPTED_AT_ONCE  # files and pipes; connections not yet looked at, or closing
    needed = MOST + spare
    soft, hard = (
        needed if limit == resource.RLIM_INFINITY else limit
        for limit in resource.getrlimit(resource.RLIMIT_NOFILE)
    )
    if soft < needed:
        with suppress(OSError, ValueError):  # the old limit does, too
            raised = min(needed, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
            soft = raised
    return max(LEAST, min(MOST, soft - spare))
