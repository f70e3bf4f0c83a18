"""Starting the server."""

import socket
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from bilink._extras import needs
from bilink._threads import single_threaded_blas
from bilink.errors import ConfigError
from bilink.serving.tokens import check_token, new_token


def serve(
    *paths: str | Path,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    review: bool = False,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Answer for the runs at ``paths`` until interrupted; the first one unless asked for another.

    ``ready`` is called with the address of the page.  A server that listens beyond this machine
    needs a token; without ``token``, one is made.  With ``review``, decisions about facts are kept
    in the folder of the run.
    """
    with needs("fastapi", extra="serve", purpose="the server"):
        import fastapi  # noqa: F401
    with needs("uvicorn", extra="serve", purpose="the server"):
        import uvicorn  # noqa: F401
    from bilink.runs.loading import load
    from bilink.serving.app import make_app
    from bilink.serving.connections import make_server
    from bilink.serving.guard import LOOPBACK

    local = _in_address(host) in LOOPBACK
    token = _token(token, local)
    with _listen(host, port) as listener, single_threaded_blas():  # one thread per question
        hosts = LOOPBACK if local else None
        app = make_app([load(path) for path in paths], token=token, hosts=hosts, review=review)
        server = make_server(app, local=local)
        if ready:
            address = f"http://{_in_address(host)}:{listener.getsockname()[1]}/"
            ready(address + (f"?token={quote(token, safe='')}" if token else ""))
        server.run(sockets=[listener])


def _token(given: str | None, local: bool) -> str | None:
    if given is None:
        return None if local else new_token()
    check_token(given)
    return given


def _listen(host: str, port: int) -> socket.socket:
    """The socket, opened before the run is loaded, so that a taken port is reported at once."""
    if not 0 <= port <= 65535:
        raise ConfigError(f"--port must be between 0 and 65535, not {port}")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=512)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host}, port {port}: {error.strerror or error}; "
            "choose another --port or --host"
        ) from None
    # Connections inherit it; without it every answer waits 40 ms for the caller's delayed ACK.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _in_address(host: str) -> str:
    return f"[{host}]" if ":" in host else host
