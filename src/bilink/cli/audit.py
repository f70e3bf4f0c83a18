"""bilink audit."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bilink.cli.output import (
    check_out,
    complain,
    print_json,
    progress_bar,
    say,
    show_table,
    stop_at_signal,
)
from bilink.cli.train import Options


def audit(
    run: Annotated[Path, typer.Argument(help="The run folder.")],
    k: Annotated[int, typer.Option("-k", help="How many facts to show at most.")] = 50,
    folds: Annotated[
        int, typer.Option(help="Models to train, each without one part of the facts.")
    ] = 5,
    errors: Annotated[
        float, typer.Option(help="Share of the facts assumed to be wrong, before looking.")
    ] = 0.05,
    options: Options = None,
    work: Annotated[
        Path | None,
        typer.Option(help="Folder for the models of the folds.", show_default="RUN/audit"),
    ] = None,
    workers: Annotated[
        str | None,
        typer.Option(help="Train in this many processes, or on ray.", show_default="this process"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Another seed gives other folds.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the facts to this new file: .tsv, .csv, .parquet or .json."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Find the facts of the graph that look wrong.

    The model is trained anew on parts of the graph, so that each fact is judged by a model and by
    rules that did not see it. Shown are facts that are more likely wrong than right. The same
    command continues an audit that was interrupted. For example:

    - `bilink audit runs/first -k 20`
    """
    from bilink.distributed.executor import executor_for
    from bilink.queries.tables import TABLES
    from bilink.runs.audit import audit as find_doubts
    from bilink.runs.loading import load
    from bilink.training.config import parse_options

    check_out(out, TABLES)
    loaded = load(run)
    shown = 0
    with stop_at_signal() as should_stop, progress_bar("training folds", folds) as advance:

        def on_epoch(fold: int, record: dict[str, Any]) -> None:
            nonlocal shown
            advance(fold - shown)  # those before it are done
            shown = fold

        found = find_doubts(
            loaded,
            k,
            errors=errors,
            work=work,
            folds=folds,
            options=parse_options(options or []),
            seed=seed,
            workers=executor_for(workers) if workers else None,
            on_epoch=on_epoch,
            should_stop=should_stop,
        )
    if found is None:
        complain("interrupted; the same command goes on from here")
        raise typer.Exit(130)
    if out is not None:
        found.write(out)
    if json:
        print_json(found.to_dict())
        return
    _show(found)


def _show(found: Any) -> None:
    rows: list[list[str | None]] = []
    for doubt in found:
        best = doubt.suggestion
        fact = f"({doubt.head_label}, {doubt.relation_label}, {doubt.tail_label})"
        sure = f"{best.probability:.2f}" if best and best.probability is not None else None
        perhaps = f"{doubt.side}: {best.label}" if best else None
        rows.append([fact, f"{doubt.probability:.4f}", perhaps, sure])
    show_table(("fact", "true", "perhaps", "right"), rows)
    more = (
        f", of which the first {len(found):,} are shown" if found.likely_wrong > len(found) else ""
    )
    say(
        f"\nOf {len(found.values):,} facts, {found.likely_wrong:,} are more likely wrong than "
        f"right{more}, if {found.errors:.0%} of all facts are wrong (--errors). "
        "A doubt is a reason to look, not a proof."
    )
