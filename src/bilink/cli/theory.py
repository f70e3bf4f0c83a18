"""bilink theory bounds | convert; describe and construct are in theory_graph.py."""

from pathlib import Path
from typing import Annotated

import typer

from bilink.cli import theory_graph
from bilink.cli.output import console, print_json, say, table

app = typer.Typer(
    help="The theory: which model can express what, at which size, and one model as another.",
    no_args_is_help=True,
)
app.command("describe")(theory_graph.describe)
app.command("construct")(theory_graph.construct)


@app.command("bounds")
def bounds(
    data: Annotated[
        str | None, typer.Argument(help="A graph, whose sizes and degrees are taken.")
    ] = None,
    entities: Annotated[int | None, typer.Option(help="The number N of entities.")] = None,
    relations: Annotated[int | None, typer.Option(help="The number K of relations.")] = None,
    dim: Annotated[int | None, typer.Option(help="The size r' of a model to subsume.")] = None,
    search: Annotated[
        bool, typer.Option("--search", help="Bound rounding ranks as 'describe' does; takes time.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Which sizes are enough to express every ranking, a graph, or another model.

    For example:

    - `bilink theory bounds wn18 --dim 200`

    - `bilink theory bounds --entities 1000 --relations 10`
    """
    from bilink.data.loading import load_graph
    from bilink.errors import ConfigError
    from bilink.theory.bounds import ROWS, bounds_of
    from bilink.theory.bounds import bounds as bounds_for

    if data is not None and entities is None and relations is None:
        graph = load_graph(data)
        found = bounds_of(graph, dim, theory_graph.search_ranks(graph) if search else None)
    elif data is None and entities is not None and relations is not None and not search:
        found = bounds_for(entities, relations, dim)
    else:
        raise ConfigError(
            "give either a graph or both --entities and --relations; --search needs a graph"
        )
    if json:
        print_json(found.to_dict())
        return
    rows = [
        [
            cell.title,
            cell.question,
            _size(cell.paper, cell.paper_value),
            _size(cell.formula, cell.value) + (" *" if cell.optimal else ""),
        ]
        for row in ROWS
        for cell in found.cells
        if cell.row == row
    ]
    shown = table(("model", "is enough for", "from size (paper)", "from size (corrected)"), rows)
    for column in shown.columns:
        column.justify = "left"
    console.print(shown)
    say(found.legend)
    if data is not None and not search:
        say("Degrees alone bound Σrr here; --search finds less.", style="dim")


def _size(formula: str, value: int | None) -> str:
    return formula if value is None or formula == str(value) else f"{formula} = {value:,}"


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
    dim: Annotated[
        int | None, typer.Option(help="Its size.", show_default="what the theory needs")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a run in --out.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the certificate as JSON.")] = False,
) -> None:
    """Make a trained model into an equivalent one of another family.

    For example, where both evaluations find the same ranks:

    - `bilink theory convert runs/transe --to rescal --out runs/as-rescal`

    - `bilink evaluate runs/transe`

    - `bilink evaluate runs/as-rescal`
    """
    from bilink.models.registry import family
    from bilink.runs.made import convert_run

    found = convert_run(run, to, out, construction=construction, dim=dim, force=force)
    if json:
        print_json(found.to_dict())
        return
    known = found.source != "ensemble"
    source = family(found.source).title if known else "the ensemble"
    target = family(found.target).title
    say(f"{source} of size {found.source_dim} is {target} of size {found.dim} ({found.level})")
    say(f"largest deviation {found.deviation:.1e} of the spread, over {found.compared:,} scores")
    say(f"the run is in {out}\nnext: bilink evaluate {out}")
