"""bilink fold-in."""

from pathlib import Path
from typing import Annotated

import typer

from bilink.cli.output import complain, print_json, say


def fold_in(
    run: Annotated[Path, typer.Argument(help="The run folder.")],
    triples: Annotated[
        Path, typer.Option(help="A file of triples; entities that the run lacks are new.")
    ],
    out: Annotated[Path, typer.Option(help="The new run folder.")],
    seed: Annotated[int, typer.Option(help="Seed of the sampled negatives.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a run in --out.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Add new entities to a run from a few triples each, without training again.

    For example:

    - `bilink fold-in runs/first --triples new.tsv --out runs/more`
    """
    from bilink._text import counted
    from bilink.data.files import read_triples
    from bilink.runs.loading import load

    before = load(run)
    table = read_triples(triples)
    if negatives := len(table.labelled(-1)):
        complain(f"{triples}: set aside {counted(negatives, 'triple')} labelled -1")
    after = before.fold_in(table.labelled(1).rows(), out=out, force=force, seed=seed)
    names = after.graph.entities.names[len(before.graph.entities) :]
    added = len(after.graph.train) - len(before.graph.train)
    if json:
        print_json({"entities": names, "triples": added, "run": str(out)})
        return
    shown = ", ".join(names[:5]) + (f", … ({len(names):,} in all)" if len(names) > 5 else "")
    say(f"new, from {added:,} triples: {shown}")
    say(f"the run is in {out}\nnext: bilink query {out} --head NEW --relation R")
