"""What is checked before the application sees a request: host, origin, token and size."""

import asyncio
import hmac
import ipaddress
import re
from collections.abc import Collection
from contextlib import suppress
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bilink.serving.failures import CODES
from bilink.serving.tokens import WrongTokens

MAX_BODY = 2**20  # bytes
BODY_SECONDS = 10.0
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
COOKIE = "bilink_token"  # and the port: a browser sends the cookies of all ports of a host
MOST_COOKIES = 4  # of this name that are looked at, so that a request is not a thousand guesses
HELD_BACK = "bilink.held_back"  # marks the scope of a request whose refusal waits
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
    (b"cache-control", b"private, no-cache"),
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
        self._wrong = WrongTokens()

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

        request = Request(scope)
        answer = self._refusal(request)
        if answer is None and self._token is not None:
            answer = await self._without_token(request, receive)
        await (answer or self._pass_on)(scope, receive, send_safely)

    def _refusal(self, request: Request) -> Response | None:
        """The answer to a request that nobody may send; None for others."""
        host = _host(request.headers.getlist("host"))
        if host is None:
            return _refused(400, "The request needs one Host header, with a name and a port.")
        if self._hosts is not None and host not in self._hosts:
            return _refused(403, "This server answers to localhost only.")
        # A page of another site could keep the server busy.
        is_cross_site = request.headers.get("sec-fetch-site") == "cross-site"
        if is_cross_site and request.scope["path"].startswith("/api"):
            return _refused(403, "Pages of other sites may not ask this server.")
        return None

    async def _without_token(self, request: Request, receive: Receive) -> Response | None:
        """The answer to a request without the right token in its header or cookie; else None."""
        cookie = _cookie_name(request)
        given = [*_bearer(request), *_cookies(request, cookie)]
        if any(map(self._is_token, given)):
            return None
        pairs = request.query_params.multi_items()
        if request.scope["path"] == "/":
            tokens = [value for name, value in pairs if name == "token"][:1]
            if any(map(self._is_token, tokens)):
                return _log_in(cookie, tokens[0], pairs)
            given += tokens
        headers = {"www-authenticate": "Bearer"}
        if given:
            address = network(request.client.host if request.client else "")
            await _hold_back(request.scope, receive, self._wrong.delay(address))
            headers["connection"] = "close"
        sentence = (
            "This server needs a token: open the address that 'bilink serve' printed, "
            "or send 'Authorization: Bearer TOKEN'."
        )
        return _refused(401, sentence, headers)

    def _is_token(self, given: str) -> bool:
        return self._token is not None and hmac.compare_digest(given.encode(), self._token.encode())

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body, if there is one, up to the limits of size and time; then pass it on."""
        if {"content-length", "transfer-encoding"}.isdisjoint(Request(scope).headers):
            await self._app(scope, receive, send)
            return
        try:
            body = await asyncio.wait_for(_read(receive), BODY_SECONDS)
        except ConnectionResetError:
            return  # there is no one to answer
        except TimeoutError:
            late = "The body of the request took too long to arrive."
            await _refused(408, late, {"connection": "close"})(scope, receive, send)
            return
        if body is None:
            limit = f"The body of a request may have {MAX_BODY:,} bytes and no more."
            await _refused(413, limit, {"connection": "close"})(scope, receive, send)
            return
        first = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return first.pop() if first else await receive()

        await self._app(scope, replay, send)


def network(address: str) -> str:
    """The address, or the network of an IPv6 address: who has one has 2⁶⁴ of them."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if parsed.version == 4:
        return address
    return str(ipaddress.ip_network((int(parsed), 64), strict=False))


_HOST = re.compile(r"(?P<name>[a-z0-9._-]*|\[(?P<v6>[0-9a-f:.]+)\])(?::(?P<port>[0-9]{0,5}))?")


def _host(headers: list[str]) -> str | None:
    """The host that a request names, without its port; None where there is not one proper host."""
    found = _HOST.fullmatch(headers[0].lower()) if len(headers) == 1 else None
    if found is None or int(found["port"] or 0) > 65535:
        return None
    if found["v6"]:
        try:
            ipaddress.IPv6Address(found["v6"])
        except ValueError:
            return None
    return found["name"]


def _bearer(request: Request) -> list[str]:
    kind, _, credentials = request.headers.get("authorization", "").partition(" ")
    return [credentials.strip()] if kind.lower() == "bearer" else []


def _cookie_name(request: Request) -> str:
    server = request.scope.get("server")
    return f"{COOKIE}_{server[1]}" if server and server[1] else COOKIE


def _cookies(request: Request, name: str) -> list[str]:
    """The values of the cookies with this name; those of other programs may be malformed."""
    crumbs = [crumb for line in request.headers.getlist("cookie") for crumb in line.split(";")]
    pairs = (crumb.strip().partition("=") for crumb in crumbs)
    values = [value.strip().strip('"') for key, _, value in pairs if key.strip() == name]
    return values[:MOST_COOKIES]


def _log_in(cookie: str, token: str, pairs: list[tuple[str, str]]) -> Response:
    """Set the cookie, and show the page under its address without the token."""
    rest = urlencode([pair for pair in pairs if pair[0] != "token"])
    setting = f"{cookie}={token}; Path=/; HttpOnly; SameSite=Strict"
    return RedirectResponse(f"/?{rest}" if rest else "/", 303, {"set-cookie": setting})


async def _hold_back(scope: Scope, receive: Receive, seconds: float) -> None:
    """Wait, or until the client has left."""

    async def left() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    if seconds:
        scope[HELD_BACK] = True
        with suppress(TimeoutError):
            await asyncio.wait_for(left(), seconds)


async def _read(receive: Receive) -> bytes | None:
    """The body, or None if it is too long."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionResetError
        body += message.get("body", b"")
        if len(body) > MAX_BODY:
            return None
        if not message.get("more_body", False):
            return bytes(body)


def _refused(status: int, sentence: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"error": sentence, "code": CODES[status]}, status, headers)
