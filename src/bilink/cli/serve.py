"""bilink serve."""

from pathlib import Path
from typing import Annotated

import typer

from bilink.cli.output import say


def serve(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="One or more run folders.")],
    host: Annotated[
        str, typer.Option(help="The address to listen on; any but this machine needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes any free one.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            help="The token that requests must carry; other users of this machine can see it in "
            "the list of processes, so rather use --token-file or the variable BILINK_TOKEN.",
            show_default="made if one is needed",
        ),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="A file that holds the token.", show_default=False)
    ] = None,
    review: Annotated[
        bool,
        typer.Option("--review", help="Keep decisions about facts in the folder of the run."),
    ] = False,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Explore runs in the browser, or ask them over HTTP.

    Several runs can be compared; the first one answers where none is named.

    For example:

    - `bilink serve runs/first --open`
    - `bilink serve runs/complex runs/distmult`
    """
    import webbrowser

    from bilink.serving.server import serve as start
    from bilink.serving.tokens import find_token

    secret = find_token(token, token_file)
    is_hidden = secret is not None and token is None  # what is printed may end up in a log

    def ready(address: str) -> None:
        shown = address.partition("?")[0] + "?token=..." if is_hidden else address
        say(f"The explorer is at {shown}  (Ctrl-C ends it)")
        if open_page:
            webbrowser.open(address)

    start(*runs, host=host, port=port, token=secret, review=review, ready=ready)
