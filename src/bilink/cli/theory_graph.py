"""bilink theory describe | construct."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from bilink.cli.data import Columns, Separator
from bilink.cli.output import (
    check_picture,
    complain,
    console,
    print_json,
    progress_bar,
    say,
    table,
)

Data = Annotated[str, typer.Argument(help="Folder, file or name.")]
Splits = Annotated[str, typer.Option(help="Splits whose triples are the facts.")]
Effort = Annotated[float, typer.Option(help="How long to search for lower upper bounds.")]
Threads = Annotated[int | None, typer.Option(help="Number of threads.", show_default="all cores")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ALL = "train,valid,test"


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
    from bilink.theory.describe import describe as find
    from bilink.theory.describe import make_folder

    check_picture(picture)
    graph = load_graph(data, columns=columns, separator=separator)
    chosen = tuple(splits.split(","))
    total = sum(len(graph.split(split)) for split in chosen)
    with progress_bar("bounding rounding ranks", total) as advance:
        found = find(
            graph,
            splits=chosen,
            effort=effort,
            threads=threads or os.cpu_count() or 1,
            keep=out / "relations" if out else None,
            progress=advance,
        )
    if out is not None:
        import json as format

        make_folder(out)
        write_text(out / "theory.json", format.dumps(found.to_dict(), indent=1) + "\n")
    if picture is not None:
        from bilink.theory.picture import draw_theory

        draw_theory(found, picture)
    if json:
        print_json(found.to_dict())
        return
    _show(found, k if most is None else most)


def search_ranks(graph: Any) -> list[int]:
    """Upper bounds on the rounding ranks of a graph's relations, with a bar."""
    from bilink.theory.describe import describe as find

    with progress_bar("bounding rounding ranks", len(graph.triples)) as advance:
        found = find(graph, threads=os.cpu_count() or 1, progress=advance)
    return [relation.rounding_rank.upper for relation in found.relations]


def construct(
    data: Data,
    model: Annotated[str, typer.Option(help="rescal, complex or hole.")],
    out: Annotated[Path, typer.Option(help="The run folder.")],
    splits: Splits = ALL,
    effort: Effort = 1.0,
    columns: Columns = None,
    separator: Separator = None,
    threads: Threads = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a run in --out.")] = False,
    json: Json = False,
) -> None:
    """Make a model that scores every fact above every non-fact, and prove that it does.

    For example:

    - `bilink theory construct wn18 --model rescal --out runs/consistent`

    - `bilink evaluate runs/consistent`
    """
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
            threads=threads or os.cpu_count() or 1,
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


def _show(found: Any, most: int) -> None:
    ordered = sorted(found.relations, key=lambda r: -r.facts)
    rows = [
        [
            r.relation,
            f"{r.facts:,}",
            r.category or "",
            *("" if x is None else f"{x:.0%}" for x in (r.symmetry, r.reflexivity)),
            _range(r.rounding_rank),
            f"{r.lost_by_distmult:,}",
            f"{r.lost_by_transe:,}",
            f"= {r.same_as}" if r.same_as else f"inverse of {r.inverse_of}" if r.inverse_of else "",
        ]
        for r in ordered[:most]
    ]
    header = (
        "relation",
        "facts",
        "category",
        "symmetric",
        "reflexive",
        "rounding rank",
        "lost by DistMult",
        "by TransE",
        "",
    )
    console.print(table(header, rows))
    if len(ordered) > most:
        say(f"… and {len(ordered) - most:,} more (-k)", style="dim")
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
