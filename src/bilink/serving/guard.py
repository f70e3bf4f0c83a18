"""What is checked before the application sees a request: host, origin, token and size."""

import asyncio
import hmac
from collections.abc import Collection
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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

    def __init__(
        self, app: ASGIApp, *, token: str | None = None, hosts: Collection[str] | None = None
    ):
        self._app, self._token, self._hosts = app, token, hosts

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

        answer = self._refusal(Request(scope)) or self._pass_on
        await answer(scope, receive, send_safely)

    def _refusal(self, request: Request) -> Response | None:
        """The answer to a request that must not reach the application; None for others."""
        if self._hosts is not None and _host(request) not in self._hosts:
            return _refused(403, "This server answers to localhost only.")
        # A page of another site could keep the server busy.
        is_cross_site = request.headers.get("sec-fetch-site") == "cross-site"
        if is_cross_site and request.scope["path"].startswith("/api"):
            return _refused(403, "Pages of other sites may not ask this server.")
        if self._token is None or self._is_authorized(request):
            return None
        return self._log_in(request)

    def _is_authorized(self, request: Request) -> bool:
        kind, _, credentials = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self._is_token(credentials.strip()):
            return True
        return COOKIE in request.cookies and self._is_token(request.cookies[COOKIE])

    def _is_token(self, given: str) -> bool:
        return self._token is not None and hmac.compare_digest(given.encode(), self._token.encode())

    def _log_in(self, request: Request) -> Response:
        """Set the cookie if the page is opened with the token in the address; else refuse."""
        pairs = request.query_params.multi_items()
        given = next((value for name, value in pairs if name == "token"), "")
        if request.scope["path"] != "/" or not self._is_token(given):
            sentence = (
                "This server needs a token: open the address that 'bilink serve' printed, "
                "or send 'Authorization: Bearer TOKEN'."
            )
            return _refused(401, sentence, {"www-authenticate": "Bearer"})
        rest = urlencode([pair for pair in pairs if pair[0] != "token"])
        cookie = f"{COOKIE}={given}; Path=/; HttpOnly; SameSite=Strict"
        return RedirectResponse(f"/?{rest}" if rest else "/", 303, {"set-cookie": cookie})

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body, if there is one, up to the limits of size and time; then pass it on."""
        if {"content-length", "transfer-encoding"}.isdisjoint(Request(scope).headers):
            await self._app(scope, receive, send)
            return
        try:
            body = await asyncio.wait_for(_read(receive), BODY_SECONDS)
        except TimeoutError:
            late = "The body of the request took too long to arrive."
            await _refused(408, late)(scope, receive, send)
            return
        if body is None:
            limit = f"The body of a request may have {MAX_BODY:,} bytes and no more."
            await _refused(413, limit, {"connection": "close"})(scope, receive, send)
            return
        first = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return first.pop() if first else await receive()

        await self._app(scope, replay, send)


def _host(request: Request) -> str:
    """The host that a request names, without its port."""
    host = request.headers.get("host", "").lower()
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


def _refused(status: int, sentence: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"error": sentence}, status, headers)
