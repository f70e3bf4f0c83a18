"""bilink explain."""

from pathlib import Path
from typing import Annotated

import typer

from bilink.cli.output import print_json, say


def explain(
    run: Annotated[Path, typer.Argument(help="The run folder.")],
    head: Annotated[str, typer.Option(help="The head of the triple.")],
    relation: Annotated[str, typer.Option(help="Its relation.")],
    tail: Annotated[str, typer.Option(help="Its tail.")],
    k: Annotated[int, typer.Option("-k", help="How many facts, analogies and paths to show.")] = 5,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what speaks for a triple: training facts, members of an ensemble, analogies, paths.

    For example:

    - `bilink explain runs/first --head Austria --relation borders --tail Germany`
    """
    from bilink.runs.loading import load

    found = load(run).explain(head, relation, tail, k)
    if json:
        print_json(found.to_dict())
    else:
        say(repr(found))
