"""bilink theory convert | bounds."""

from pathlib import Path
from typing import Annotated

import typer

from bilink.cli.output import print_json, say

app = typer.Typer(
    help="The theory: which model can express what, at which size, and one model as another.",
    no_args_is_help=True,
)


@app.command("convert")
def convert(
    run: Annotated[Path, typer.Argument(help="The run folder.")],
    to: Annotated[str, typer.Option(help="The model that it should become.")],
    out: Annotated[Path, typer.Option(help="The new run folder.")],
    construction: Annotated[
        str,
        typer.Option(
            help="tight (the smallest known), paper (Wang et al. 2018), or refinement (smaller "
            "still; keeps strict inequalities only)."
        ),
    ] = "tight",
    dim: Annotated[int | None, typer.Option(help="Its size [what the theory needs].")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a run in --out.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the certificate as JSON.")] = False,
) -> None:
    """Make a trained model into an equivalent one of another family.

    For example: `bilink theory convert runs/transe --to rescal --out runs/as-rescal`, and then
    `bilink evaluate runs/as-rescal`, which finds the same ranks.
    """
    from bilink.models.registry import family
    from bilink.runs.converted import convert_run

    found = convert_run(run, to, out, construction=construction, dim=dim, force=force)
    if json:
        print_json(found.to_dict())
        return
    source, target = family(found.source).title, family(found.target).title
    say(f"{source} of size {found.source_dim} is {target} of size {found.dim} ({found.level})")
    say(f"largest deviation {found.deviation:.1e} of the spread, over {found.compared:,} scores")
    say(f"the run is in {out}\nnext: bilink evaluate {out}")
