"""bilink update."""

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from bilink.cli.output import complain, print_json, say, stop_at_signal, training_bar


def update(
    run: Annotated[Path, typer.Argument(help="The run folder.")],
    out: Annotated[Path, typer.Option(help="The new run folder.")],
    triples: Annotated[
        Path | None,
        typer.Option(help="A file of new triples; those labelled -1 are rejected."),
    ] = None,
    decisions: Annotated[
        bool, typer.Option("--decisions", help="Add what was accepted and rejected in review.")
    ] = False,
    epochs: Annotated[
        int, typer.Option(help="Epochs of training to add, from where the parameters are.")
    ] = 0,
    seed: Annotated[int, typer.Option(help="Seed of the sampled negatives.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a run in --out.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Add new facts to a run, and take rejected ones out, without training from the start.

    Facts between known entities enter the graph. New entities and relations get embeddings from
    their facts. Rejected facts are offered no more. Rules and probabilities are renewed.
    For example:

    - `bilink update runs/first --triples new.tsv --out runs/second`

    - `bilink update runs/first --decisions --out runs/second`
    """
    from bilink.data.files import read_triples
    from bilink.runs.changes import compare_runs
    from bilink.runs.loading import load
    from bilink.runs.update import update_run

    if triples is None and not decisions:
        raise typer.BadParameter("give --triples FILE, --decisions, or both")
    before = load(run)
    rows: list[Any] = []
    rejected: list[Any] = []
    if triples is not None:
        table = read_triples(triples)
        rows, rejected = table.labelled(1).rows(), table.labelled(-1).rows()
    if decisions:
        rows += before.decisions.triples("accept")
        rejected += before.decisions.triples("reject")
    done = len(getattr(before, "history", ()))
    with ExitStack() as stack:
        more: dict[str, Any] = {}
        if epochs:  # else Ctrl-C ends it at once, and nothing is written
            more["should_stop"] = stack.enter_context(stop_at_signal())
            more["on_epoch"] = stack.enter_context(training_bar(done + epochs, done))
        found = update_run(
            before,
            rows,
            rejected=rejected,
            epochs=epochs,
            out=out,
            force=force,
            seed=seed,
            **more,
        )
    if json:
        print_json(found.to_dict())
        return
    for line in found.sentences():
        say(line)
    for line in found.near_misses():
        complain(line, "yellow")
    for line in compare_runs(before, found.run, [*rows, *rejected]).sentences():
        say(line)
    say(f"the run is in {out}\nnext: bilink query {out} --new")
