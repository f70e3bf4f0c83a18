"""bilink classify."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bilink.cli.output import check_new, keep_result, print_json, say, show_table, write_csv

COLUMNS = ("", "triples", "accuracy", "precision", "recall", "F1", "AUC", "AP")
MOST = 10  # relations in the table


def classify(
    run: Annotated[Path, typer.Argument(help="The run folder.")],
    split: Annotated[str, typer.Option(help="train, valid or test.")] = "test",
    seed: Annotated[int, typer.Option(help="Another seed draws other false triples.")] = 0,
    any_entity: Annotated[
        bool,
        typer.Option(
            "--any-entity",
            help="Make false triples with any entity; they are far easier to tell from true ones.",
        ),
    ] = False,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", help="Write one line per relation to this new file.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Tell true triples from false ones, by a threshold for each relation.

    If the files label false triples, these are used; else a false triple is made of each true
    one. Thresholds are chosen on valid. For example:

    - `bilink classify runs/first`
    """
    from bilink.runs.loading import load

    check_new(csv_file, "--csv")
    loaded = load(run)
    result = loaded.classify(split, seed=seed, plausible=not any_entity)
    found = {**result.to_dict(), "model": loaded.digest}
    keep_result(loaded, {key: value for key, value in found.items() if key != "relations"})
    if csv_file is not None:
        write_csv(csv_file, found["relations"])
    if json:
        print_json(found)
        return
    _show(found)


def _show(found: dict[str, Any]) -> None:
    n, relations = found["true_triples"] + found["false_triples"], found["relations"]
    rows = [_row("all triples", n, found), _row("mean over relations", None, found["macro"])]
    for row in relations:
        rows.append(_row(row["relation"], row["positives"] + row["negatives"], row))
    show_table(COLUMNS, rows, MOST + 2, " relations (--csv)")
    chosen = found["thresholds"]
    say(
        f"\n{found['true_triples']:,} true and {found['false_triples']:,} false triples of "
        f"{found['split']}, negatives {found['negatives']} (seed {found['seed']}), thresholds "
        f"chosen on {chosen['chosen_on']}, {found['triples_with_unseen_entities']:,} triples with "
        f"entities unseen in training; {found['seconds']:.1f} s; graph {found['graph']}"
    )
    if found["split"] == chosen["chosen_on"]:
        say("These are the triples that the thresholds were chosen on, which flatters.", "yellow")


def _row(title: str, triples: int | None, metrics: dict[str, Any]) -> list[Any]:
    names = ("accuracy", "precision", "recall", "f1", "auc", "average_precision")
    cells = [None if metrics[name] is None else f"{metrics[name]:.3f}" for name in names]
    return [title, triples, *cells]
