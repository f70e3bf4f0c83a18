"""bilink review."""

from pathlib import Path
from typing import Annotated

import typer

from bilink.cli.output import console, print_json, say, table


def review(
    run: Annotated[Path, typer.Argument(help="The run folder.")],
    export: Annotated[
        Path | None,
        typer.Option(help="Write facts to a file: .tsv, .csv, .parquet, .json, .nt or .ttl."),
    ] = None,
    import_: Annotated[
        Path | None,
        typer.Option("--import", help="Decide the triples of a file; a fourth column has 1 or -1."),
    ] = None,
    decision: Annotated[
        str, typer.Option(help="accept, reject or unsure: what is written, or decided by a file.")
    ] = "accept",
    k: Annotated[int, typer.Option("-k", help="How many decisions to show.")] = 20,
    json: Annotated[bool, typer.Option("--json", help="Print all decisions as JSON.")] = False,
) -> None:
    """Show what was decided about facts of a run; write it to a file, or read it from one.

    Decisions are made on the page, with `bilink serve RUN --review`. For example:

    - `bilink review runs/first --export accepted.tsv`

    - `bilink review runs/first --import checked.tsv`
    """
    from bilink._text import counted, printable
    from bilink.runs.decisions import checked, import_sentences
    from bilink.runs.loading import load

    how = checked(decision)
    decisions = load(run).decisions
    if import_ is not None:
        for line in import_sentences(decisions.import_(import_, how)):
            say(line)
    if export is not None:
        say(f"{counted(decisions.export(export, how), 'fact')} in {export}")
    if json:
        print_json({**decisions.table(None).to_dict(), "counts": decisions.counts()})
        return
    if import_ is None and export is None:
        rows = [
            [each.decision or "", *map(printable, each.triple), printable(each.reason)]
            for each in decisions.all()[::-1][:k]
        ]
        console.print(table(("decision", "head", "relation", "tail", "reason"), rows))
    counts = ", ".join(f"{count:,} {name}" for name, count in decisions.counts().items())
    say(f"{counts}\nnext: bilink update {run} --decisions --out NEW")
