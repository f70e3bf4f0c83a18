"""bilink theory describe | construct | bounds | convert."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bilink.cli.data import Columns, Separator
from bilink.cli.output import check_picture, complain, print_json, progress_bar, say, show_table

app = typer.Typer(
    help="The theory: which model can express what, at which size, and one model as another.",
    no_args_is_help=True,
)
Data = Annotated[str, typer.Argument(help="Folder, file or name.")]
Splits = Annotated[str, typer.Option(help="Splits whose triples are the facts.")]
Effort = Annotated[float, typer.Option(help="How long to search for lower upper bounds.")]
Threads = Annotated[int | None, typer.Option(help="Number of threads.", show_default="all cores")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite a run in --out.")]
ALL = "train,valid,test"


@app.command("describe")
def describe(
    data: Data,
    splits: Splits = ALL,
    effort: Effort = 1.0,
    out: Annotated[
        Path | None, typer.Option(help="Folder for theory.json and what is found on the way.")
    ] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw the bounds to this file.")] = None,
    k: Annotated[int, typer.Option("-k", help="How many relations to list.")] = 20,
    columns: Columns = None,
    separator: Separator = None,
    threads: Threads = None,
    json: Json = False,
    most: Annotated[int | None, typer.Option(hidden=True)] = None,  # former name of -k
) -> None:
    """Say what each model can and cannot tell apart in a graph, and at which size.

    A size says what a model can represent, not how well it predicts. For example:

    - `bilink theory describe wn18 --picture wn18.png`
    """
    from bilink._files import write_text
    from bilink.data.loading import load_graph
    from bilink.theory.description import draw_theory, make_folder

    check_picture(picture)
    graph = load_graph(data, columns=columns, separator=separator)
    keep = out / "relations" if out else None
    found = _described(graph, splits, threads, effort=effort, keep=keep)
    if out is not None:
        import json as format

        make_folder(out)
        write_text(out / "theory.json", format.dumps(found.to_dict(), indent=1) + "\n")
    if picture is not None:
        draw_theory(found, picture)
    if json:
        print_json(found.to_dict())
        return
    _show(found, k if most is None else most)


def _described(graph: Any, splits: str = ALL, threads: int | None = None, **options: Any) -> Any:
    """Bounds on the rounding ranks of a graph's relations, found with a bar."""
    from bilink._threads import cores
    from bilink.theory.description import describe as find

    chosen = tuple(splits.split(","))
    total = sum(len(graph.split(split)) for split in chosen)
    with progress_bar("bounding rounding ranks", total) as advance:
        return find(graph, splits=chosen, threads=threads or cores(), progress=advance, **options)


def _show(found: Any, most: int) -> None:
    ordered = sorted(found.relations, key=lambda r: -r.facts)
    rows = [
        [r.relation, r.facts, r.category]
        + [None if x is None else f"{x:.0%}" for x in (r.reverse_share, r.reflexivity)]
        + [_range(r.rounding_rank), r.lost_by_distmult, r.lost_by_transe]
        + [f"= {r.same_as}" if r.same_as else r.inverse_of and f"inverse of {r.inverse_of}"]
        for r in ordered
    ]
    header = ("relation", "facts", "category", "symmetric", "reflexive", "rounding rank")
    show_table((*header, "lost by DistMult", "by TransE", ""), rows, most, " (-k)")
    empty = sum(not r.facts for r in ordered)
    if empty:
        say(f"{empty:,} relation(s) have no facts in these splits; every model is consistent there")
    result = found.to_dict()
    ranks = result["rounding_ranks"]
    say(
        f"\n{found.name}: {found.entities:,} entities, {len(found.relations):,} relations, "
        f"{result['facts']:,} facts; the rounding ranks add up to {ranks['lower']:,} to "
        f"{ranks['upper']:,}, {ranks['certified']:,} of them with factors checked in float64"
    )
    for name, title in (("rescal", "RESCAL"), ("complex", "ComplEx"), ("hole", "HolE")):
        say(
            f"{title} can score every fact above every non-fact from size "
            f"{result['sizes'][name]:,} on (by the paper's formula {result['paper_sizes'][name]:,})"
        )
    say(
        f"DistMult cannot, at any size: {result['lost_by_distmult']:,} facts are level with a "
        f"non-fact. TransE cannot: at least {result['lost_by_transe']:,} facts are level with or "
        "below one."
    )


def _range(bounds: Any) -> str:
    if bounds.lower == bounds.upper:
        return f"{bounds.upper}"
    return f"{bounds.lower} to {bounds.upper}"


@app.command("construct")
def construct(
    data: Data,
    model: Annotated[str, typer.Option(help="rescal, complex or hole.")],
    out: Annotated[Path, typer.Option(help="The run folder.")],
    splits: Splits = ALL,
    effort: Effort = 1.0,
    columns: Columns = None,
    separator: Separator = None,
    threads: Threads = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Make a model that scores every fact above every non-fact, and prove that it does.

    For example:

    - `bilink theory construct wn18 --model rescal --out runs/consistent`

    - `bilink evaluate runs/consistent`
    """
    from bilink._threads import cores
    from bilink.data.loading import load_graph
    from bilink.runs.made import construct_run

    graph = load_graph(data, columns=columns, separator=separator)
    source = {"source": data, "columns": columns, "separator": separator}
    chosen = tuple(splits.split(","))
    total = sum(len(graph.split(split)) for split in chosen)
    with progress_bar("making factors", total) as advance:
        made = construct_run(
            graph,
            model,
            out,
            splits=chosen,
            effort=effort,
            threads=threads or cores(),
            source={key: value for key, value in source.items() if value is not None},
            force=force,
            progress=advance,
        )
    if json:
        print_json(made.to_dict())
    else:
        title, size = made.model.family.title, made.model.dim
        say(f"{title} of size {size:,} is in {out}; {sum(made.ranks):,} is the sum of its ranks")
        if made.certified:
            say(
                f"every fact scores above every non-fact: the least margin is "
                f"{made.margin_over_error:,.0f} times what rounding can do"
            )
        say(f"next: bilink evaluate {out}")
    if not made.certified:
        complain("warning: rounding may have moved some score to the wrong side", "yellow")


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
    json: Json = False,
) -> None:
    """Which sizes are enough to express every ranking, a graph, or another model.

    For example:

    - `bilink theory bounds wn18 --dim 200`

    - `bilink theory bounds --entities 1000 --relations 10`
    """
    from bilink.data.loading import load_graph
    from bilink.errors import ConfigError
    from bilink.theory.table1 import ROWS, bounds_of
    from bilink.theory.table1 import bounds as bounds_for

    if data is not None and entities is None and relations is None:
        graph = load_graph(data)
        ranks = None
        if search:
            ranks = [r.rounding_rank.upper for r in _described(graph).relations]
        found = bounds_of(graph, dim, ranks)
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
    header = ("model", "is enough for", "from size (paper)", "from size (corrected)")
    show_table(header, rows, text=range(4))
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
    force: Force = False,
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
