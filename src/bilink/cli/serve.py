"""bilink serve."""

from pathlib import Path
from typing import Annotated

import typer

from bilink.cli.output import say


def serve(
    run: Annotated[Path, typer.Argument(help="The run folder.")],
    host: Annotated[
        str, typer.Option(help="The address to listen on; any but this machine needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes any free one.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            help="The token that requests must carry.", show_default="made if one is needed"
        ),
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Explore a run in the browser, or ask it over HTTP.

    For example:

    - `bilink serve runs/first --open`
    """
    import webbrowser

    from bilink.serving.server import serve as start

    def ready(address: str) -> None:
        say(f"The explorer is at {address}  (Ctrl-C ends it)")
        if open_page:
            webbrowser.open(address)

    start(run, host=host, port=port, token=token, ready=ready)
