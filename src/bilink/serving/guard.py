"""What is checked before the application sees a request: host, origin, token and size."""

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, urlencode

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_BODY = 2**20  # bytes
BODY_SECONDS = 10.0
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
COOKIE = "bilink_token"
_SAFETY = [
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-cache"),
]


class Guard:
    """Refuses requests that must not reach the application, and adds security headers.

    ``hosts`` are the host names that requests may carry: a page of another site whose name is made
    to resolve to this machine (DNS rebinding) sends that site's name.  With a ``token``, requests
    must carry it, as ``Authorization: Bearer`` or as the cookie that ``/?token=…`` sets.
    """

    def __init__(self, app: App, *, token: str | None = None, hosts: Collection[str] | None = None):
        self._app, self._hosts = app, hosts
        self._token = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the application, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_SAFETY]
            await send(message)

        headers = dict(scope["headers"])
        if self._hosts is not None and _host(headers) not in self._hosts:
            await _refuse(send_safely, 403, "This server answers to localhost only.")
        elif _is_cross_site(scope, headers):
            await _refuse(send_safely, 403, "Pages of other sites may not ask this server.")
        elif self._token is not None and not self._is_authorized(headers):
            await self._log_in(scope, send_safely)
        else:
            await self._pass_on(scope, receive, send_safely, headers)

    def _is_authorized(self, headers: dict[bytes, bytes]) -> bool:
        kind, _, credentials = headers.get(b"authorization", b"").partition(b" ")
        if kind.lower() == b"bearer" and self._is_token(credentials.strip()):
            return True
        try:
            cookies = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1"))
        except CookieError:
            return False
        return COOKIE in cookies and self._is_token(cookies[COOKIE].value.encode())

    def _is_token(self, given: bytes) -> bool:
        return self._token is not None and hmac.compare_digest(given, self._token)

    async def _log_in(self, scope: Scope, send: Send) -> None:
        """Set the cookie if the page is opened with the token in the address; else refuse."""
        pairs = parse_qsl(scope.get("query_string", b"").decode("latin-1"))
        given = next((value for name, value in pairs if name == "token"), "")
        if scope["path"] != "/" or not self._is_token(given.encode()):
            sentence = (
                "This server needs a token: open the address that 'bilink serve' printed, "
                "or send 'Authorization: Bearer TOKEN'."
            )
            await _refuse(send, 401, sentence, [(b"www-authenticate", b"Bearer")])
            return
        rest = urlencode([pair for pair in pairs if pair[0] != "token"])
        cookie = f"{COOKIE}={given}; Path=/; HttpOnly; SameSite=Strict"
        headers = [
            (b"location", f"/?{rest}".encode() if rest else b"/"),
            (b"set-cookie", cookie.encode()),
            (b"content-length", b"0"),
        ]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    async def _pass_on(
        self, scope: Scope, receive: Receive, send: Send, headers: dict[bytes, bytes]
    ) -> None:
        """Read the body, if there is one, up to the limits of size and time; then pass it on."""
        if b"content-length" not in headers and b"transfer-encoding" not in headers:
            await self._app(scope, receive, send)
            return
        try:
            body = await asyncio.wait_for(_read(receive), BODY_SECONDS)
        except TimeoutError:
            await _refuse(send, 408, "The body of the request took too long to arrive.")
            return
        if body is None:
            limit = f"The body of a request may have {MAX_BODY:,} bytes and no more."
            await _refuse(send, 413, limit, [(b"connection", b"close")])
            return
        first = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return first.pop() if first else await receive()

        await self._app(scope, replay, send)


def _host(headers: dict[bytes, bytes]) -> str:
    """The host that a request names, without its port."""
    host = headers.get(b"host", b"").decode("latin-1").lower()
    if host.startswith("["):
        return host[: host.find("]") + 1]
    return host.partition(":")[0]


async def _read(receive: Receive) -> bytes | None:
    """The body, or None if it is too long."""
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > MAX_BODY:
            return None
        if not message.get("more_body", False):
            return bytes(body)


def _is_cross_site(scope: Scope, headers: dict[bytes, bytes]) -> bool:
    """Whether a page of another site calls the API, which could keep the server busy."""
    return headers.get(b"sec-fetch-site") == b"cross-site" and scope["path"].startswith("/api")


async def _refuse(
    send: Send, status: int, sentence: str, headers: Collection[tuple[bytes, bytes]] = ()
) -> None:
    body = json.dumps({"error": sentence}).encode()
    kind = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": [*kind, *headers]})
    await send({"type": "http.response.body", "body": body})
