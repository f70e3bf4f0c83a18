"""bilink update."""

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from bilink.cli.output import complain, print_json, say, stop_at_signal, training_bar


def update(
    run: Annotated[Path, typer.Argument(help="The run folder.")],
    triples: Annotated[Path, typer.Option(help="A file of new triples.")],
    out: Annotated[Path, typer.Option(help="The new run folder.")],
    epochs: Annotated[
        int, typer.Option(help="Epochs of training to add, from where the parameters are.")
    ] = 0,
    seed: Annotated[int, typer.Option(help="Seed of the sampled negatives.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a run in --out.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Add new facts to a run, without training from the start.

    Facts between known entities enter the graph. New entities and relations get embeddings from
    their facts. Rules and probabilities are renewed. For example:

    - `bilink update runs/first --triples new.tsv --out runs/second`
    """
    from bilink._text import counted
    from bilink.data.files import read_triples
    from bilink.runs.loading import load
    from bilink.runs.update import update_run

    before = load(run)
    table = read_triples(triples)
    if negatives := len(table.labelled(-1)):
        complain(f"{triples}: set aside {counted(negatives, 'triple')} labelled -1")
    rows = table.labelled(1).rows()
    done = len(getattr(before, "history", ()))
    with ExitStack() as stack:
        more: dict[str, Any] = {}
        if epochs:  # else Ctrl-C ends it at once, and nothing is written
            more["should_stop"] = stack.enter_context(stop_at_signal())
            more["on_epoch"] = stack.enter_context(training_bar(done + epochs, done))
        found = update_run(
            before,
            rows,
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
    say(f"the run is in {out}\nnext: bilink query {out} --new")
