"""bilink ensemble."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bilink.cli.output import (
    check_new,
    check_picture,
    print_json,
    progress_bar,
    say,
    show_table,
    write_csv,
)

SHOWN = 15  # relations in the table


def ensemble(
    runs: Annotated[list[Path], typer.Argument(help="Run folders of one graph.")],
    out: Annotated[Path, typer.Option(help="Folder for the ensemble.")],
    method: Annotated[
        str,
        typer.Option(
            help="stack (weights per relation and side), paper (weights per relation, Wang et al. "
            "2018), best (one member per relation), average, or platt (mean probabilities)."
        ),
    ] = "stack",
    fit: Annotated[
        str,
        typer.Option(
            help="Split to fit on: valid or train.", show_default="valid; method paper: train"
        ),
    ] = "",
    shrinkage: Annotated[
        float, typer.Option(help="Pull towards the common weights; 0 chooses it.")
    ] = 0.0,
    same_sides: Annotated[
        bool, typer.Option("--same-sides", help="The same weights for heads and tails.")
    ] = False,
    allow_negative: Annotated[
        bool, typer.Option("--allow-negative", help="Let a weight become negative.")
    ] = False,
    hard_negatives: Annotated[
        int, typer.Option(help="Best wrong answers of each member to learn from.")
    ] = 8,
    seed: Annotated[int, typer.Option(help="Seed of the random negatives.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a former run.")] = False,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", help="Write all shares to this new file.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw which member carries which relation (PNG, SVG).")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Combine runs into one that weighs them anew for each relation.

    The result is a run like any other. For example:

    - `bilink ensemble runs/transe runs/hole --out runs/both`

    - `bilink evaluate runs/both`
    """
    from bilink.ensembles.fitting import EnsembleConfig
    from bilink.ensembles.report import draw_shares
    from bilink.runs.combined import combine
    from bilink.runs.loading import load

    check_new(csv_file, "--csv")
    check_picture(picture)
    members = [load(path) for path in runs]
    config = EnsembleConfig(
        method=method,  # type: ignore[arg-type]
        fit=fit,  # type: ignore[arg-type]
        shrinkage=shrinkage,
        sides=not same_sides,
        non_negative=not allow_negative,
        hard_negatives=hard_negatives,
        seed=seed,
    )
    questions = 2 * min(config.triples, len(members[0].graph.split(config.fit)))
    with progress_bar("asking the members", questions) as advance:
        made = combine(members, out=out, force=force, progress=advance, **config.to_dict())
    shares = made.shares()
    if csv_file is not None:
        write_csv(csv_file, shares)
    if picture is not None:
        draw_shares(shares, list(made.members), picture)
    if json:
        print_json({"run": str(out), "members": list(made.members), "shares": shares})
        return
    _show(shares, list(made.members))
    say(f"the ensemble is in {out}\nnext: bilink evaluate {out}")


def _show(shares: list[dict[str, Any]], names: list[str]) -> None:
    """Both sides of each member in one cell: 0.31/0.28."""
    rows = [
        [row["relation"], row["triples"]]
        + [f"{row[f'head {name}']:.2f}/{row[f'tail {name}']:.2f}" for name in names]
        for row in shares
    ]
    header = ("share of the score, head/tail", "triples", *names)
    show_table(header, rows, SHOWN, " relations (--csv, --picture)")
