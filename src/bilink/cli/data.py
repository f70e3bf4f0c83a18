"""bilink data ls | get | describe | split."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bilink.cli.output import print_json, progress_bar, say, show_table

app = typer.Typer(
    help="Graphs: what there is, what it looks like, how to split it.", no_args_is_help=True
)
Columns = Annotated[str | None, typer.Option(help="Order of the columns, for example hrt or htr.")]
Separator = Annotated[
    str | None, typer.Option(help="Column separator: tab, comma, semicolon or space.")
]


@app.command("ls")
def ls(json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the graphs that bilink knows by name."""
    from bilink.data import catalogue

    entries = list(catalogue.ENTRIES.values())
    here = {e.name: catalogue.is_here(e.name) for e in entries}
    if json:
        print_json([{**vars(e), "here": here[e.name]} for e in entries])
        return
    rows = [
        [e.name, e.entities, e.relations, sum(e.triples), "yes" if here[e.name] else "", e.about]
        for e in entries
    ]
    header = ("name", "entities", "relations", "triples", "here", "about")
    show_table(header, rows, text=(0, 5))


@app.command("get")
def get(name: Annotated[str, typer.Argument(help="A name that 'bilink data ls' lists.")]) -> None:
    """Download a graph, check it, and keep it for later."""
    from bilink.data import catalogue

    known = catalogue.entry(name)
    with progress_bar(f"downloading {known.name}", 0) as advance:
        done = 0

        def progress(received: int, total: int | None) -> None:
            nonlocal done
            advance(received - done)
            done = received

        folder = catalogue.get(name, progress=progress)
    say(f"{known.name} is in {folder}")


@app.command("describe")
def describe(
    data: Annotated[str, typer.Argument(help="Folder, file or name.")],
    columns: Columns = None,
    separator: Separator = None,
    k: Annotated[int, typer.Option("-k", help="How many relations to list.")] = 20,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    most: Annotated[int | None, typer.Option(hidden=True)] = None,  # former name of -k
) -> None:
    """Show what a graph looks like: sizes, kinds of relations, leakage, what paths alone reach."""
    from bilink.data import statistics
    from bilink.data.loading import load_graph
    from bilink.runs.paths import preview_paths

    graph = load_graph(data, columns=columns, separator=separator)
    found = statistics.describe(graph)
    preview = preview_paths(graph)
    if json:
        print_json({**found.to_dict(), "paths": vars(preview)})
        return
    _show(found, k if most is None else most)
    if preview.given_away:
        rows = [
            [row["relation"], row["rule"], f"{row['share']:.0%}", f"{row['confidence']:.2f}"]
            for row in preview.given_away
        ]
        say("")
        titles = ("given away", "by", "of its facts", "confidence")
        show_table(
            titles,
            rows,
            k if most is None else most,
            title="relations that follow from one other fact",
        )
    for line in preview.sentences()[:1]:
        say(f"\n{line}")


@app.command("split")
def split(
    file: Annotated[str, typer.Argument(help="A file of triples.")],
    out: Annotated[Path, typer.Option(help="Folder for train.tsv, valid.tsv and test.tsv.")],
    seed: Annotated[int, typer.Option(help="Another seed gives another split.")] = 0,
    valid: Annotated[float, typer.Option(help="Share of validation triples.")] = 0.1,
    test: Annotated[float, typer.Option(help="Share of test triples.")] = 0.1,
    columns: Columns = None,
    separator: Separator = None,
) -> None:
    """Split a file into train, valid and test, so that train knows every entity and relation."""
    from bilink._files import check_empty
    from bilink.data.loading import load_graph, write_graph_files
    from bilink.errors import DataError

    check_empty(out)
    if Path(file).is_dir():
        raise DataError(f"{file} is a folder; bilink data split takes a single file")
    fractions = (1 - valid - test, valid, test)
    graph = load_graph(file, columns=columns, separator=separator, seed=seed, fractions=fractions)
    write_graph_files(graph, out)
    say(
        f"{len(graph.train):,} training, {len(graph.valid):,} validation and "
        f"{len(graph.test):,} test triples are in {out}"
    )


def _show(found: Any, most: int) -> None:
    say(found.name, style="bold")
    counts = "  ".join(f"{split} {n:,}" for split, n in found.triples.items())
    kinds = ", ".join(f"{n:,} {kind}" for kind, n in found.categories.items())
    lines = [
        f"{found.entities:,} entities, {found.relations:,} relations; triples: {counts}",
        f"an entity is in {found.mean_degree:.1f} training triples on average",
        f"relations: {kinds}; {found.symmetric_relations:,} symmetric",
    ]
    for split, n in found.unseen_entities.items():
        if n:
            lines.append(f"{split}: {n:,} entities that training never mentions")
    for split, n in found.negatives.items():
        lines.append(f"{split}: {n:,} triples that are given as false, for `bilink classify`")
    for split, n in found.in_train.items():
        if n:
            lines.append(f"{split}: {n:,} triples that are in train as well")
    leak = found.leakage.get("test")
    if leak is not None and leak.triples:
        lines.append(
            f"leakage: {leak.share:.1%} of the test triples can be looked up in train "
            f"(symmetric {leak.symmetric:,}, inverse {leak.inverse:,}, "
            f"duplicate {leak.duplicate:,})"
        )
    for line in lines:
        say(line)
    ordered = sorted(found.relation_statistics, key=lambda s: -s.train)
    rows = [
        [s.name, s.train, s.category]
        + [None if x is None else f"{x:.2f}" for x in (s.tails_per_head, s.heads_per_tail)]
        + [None if s.symmetry is None else f"{s.symmetry:.0%}"]
        for s in ordered
    ]
    header = ("relation", "train", "category", "tails/head", "heads/tail", "symmetric")
    say("")
    show_table(header, rows, most, " (-k)")
    if found.related_relations:
        pairs = [
            [p.first_name, p.kind, p.second_name]
            + [f"{share:.0%}" for share in (p.share_of_first, p.share_of_second)]
            for p in found.related_relations[:most]
        ]
        say("")
        titles = ("relation", "is a", "of relation", "share of first", "of second")
        show_table(titles, pairs, title="relations that say the same")
