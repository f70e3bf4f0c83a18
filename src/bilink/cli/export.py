"""bilink export."""

from pathlib import Path
from typing import Annotated

import typer

from bilink.cli.output import print_json, say


def export(
    run: Annotated[Path, typer.Argument(help="The run folder.")],
    out: Annotated[Path, typer.Option(help="A new folder for the vectors.")],
    format: Annotated[str, typer.Option(help="numpy, parquet or faiss.")] = "numpy",
    questions: Annotated[
        Path | None,
        typer.Option(
            help="A file of questions to write too: head, relation, tail; ? is asked for."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the manifest as JSON.")] = False,
) -> None:
    """Write entities, and questions if given, as vectors whose inner product is the score.

    For example:

    - `bilink export runs/first --out vectors --format faiss`
    """
    from bilink._files import check_empty
    from bilink.queries.answers import read_questions
    from bilink.queries.export import export as write
    from bilink.runs.loading import load

    check_empty(out)
    asked = read_questions(questions) if questions else []
    manifest = write(load(run).vectors(), out, format, asked)
    if json:
        print_json(manifest)
        return
    say(f"{manifest['entities']:,} vectors of {manifest['width']} numbers are in {out}")
    if "index" in manifest:
        say(
            f"index: {manifest['index']}; it finds {manifest['recall@10']:.1%} of the exact ten "
            f"best of {manifest['recall_questions']:,} validation questions"
        )
