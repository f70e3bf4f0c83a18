"""bilink query."""

from pathlib import Path
from typing import Annotated

import typer

from bilink.cli.output import console, print_json, say, table


def query(
    run: Annotated[Path, typer.Argument(help="The run folder.")],
    head: Annotated[str | None, typer.Option(help="Ask (head, relation, ?).")] = None,
    relation: Annotated[str | None, typer.Option(help="The relation asked about.")] = None,
    tail: Annotated[str | None, typer.Option(help="Ask (?, relation, tail).")] = None,
    k: Annotated[int, typer.Option("-k", help="How many answers.")] = 10,
    new: Annotated[
        bool, typer.Option("--new", help="Leave out facts that the graph holds already.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Ask a run a question.

    For example: `bilink query runs/first --head Austria --relation borders`, or
    `bilink query runs/first --tail Euro --relation "uses currency" --new`.
    """
    from bilink.runs.loading import load

    answers = load(run).query(head=head, relation=relation, tail=tail, k=k, new=new)
    if json:
        print_json(answers.to_dict())
        return
    rows = [
        [a.label, str(a.rank), f"{a.score:.3f}", "known" if a.known else "new"] for a in answers
    ]
    say(answers.question, style="bold")
    console.print(table(("answer", "rank", "score", ""), rows))
