"""bilink calibrate."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bilink.cli.output import check_picture, print_json, say, show_table

TITLES = {
    "sigmoid": "plain sigmoid",
    "global": "one line for all relations",
    "platt": "a line per relation",
    "isotonic": "isotonic",
}
QUESTIONS = {
    "facts": "Facts: is this triple true?",
    "answers": "Answers: is one of the ten best answers to a question right?",
}


def calibrate(
    run: Annotated[Path, typer.Argument(help="The run folder.")],
    method: Annotated[
        str,
        typer.Option(help="platt (a line per relation), isotonic, or global (one line for all)."),
    ] = "platt",
    prior: Annotated[
        float | None,
        typer.Option(help="Share of true ones among the facts asked about.", show_default="0.5"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Another seed draws other false triples.")] = 0,
    picture: Annotated[
        Path | None, typer.Option(help="Draw the reliability diagram (PNG, SVG, PDF).")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    plot: Annotated[Path | None, typer.Option(hidden=True)] = None,  # former name of --picture
) -> None:
    """Learn on valid how likely a score is true, and measure on test how well that holds.

    The result stays in the run folder, where queries find it. For example:

    - `bilink calibrate runs/first --picture reliability.png`
    """
    from bilink.evaluation.calibration import compare_calibrations
    from bilink.evaluation.reliability import draw_reliability
    from bilink.runs.loading import load

    picture = picture or plot
    check_picture(picture)
    loaded = load(run)
    options: dict[str, Any] = {"method": method, "seed": seed}
    fitted = [
        loaded.calibrate("facts", prior=prior, **options),
        loaded.calibrate("answers", **options),
    ]
    found = [compare_calibrations(loaded.scorer, loaded.graph, one) for one in fitted]
    if picture is not None:
        draw_reliability(found, picture)
    if json:
        print_json({one["asked"]: one for one in found} | {"prior": fitted[0].prior})
        return
    for one in found:
        _show(one)
    say(
        f"\nFitted on valid, measured on test; graph {found[0]['graph']}. ECE is the expected "
        "calibration error; by chance: of perfect probabilities. Probabilities of facts assume "
        f"that {fitted[0].prior:.0%} of those asked about are true."
    )


def _show(found: dict[str, Any]) -> None:
    names = ("ece_within_relations", "ece_within_relations_by_chance", "ece", "brier", "log_loss")
    rows = [
        [TITLES[name], *(f"{result[metric]:.4f}" for metric in names)]
        for name, result in found["results"].items()
    ]
    columns = ("", "ECE within relations", "by chance", "ECE of all", "Brier", "log loss")
    show_table(columns, rows, title=QUESTIONS[found["asked"]])
    say(
        f"{found['true_triples']:,} true and {found['false_triples']:,} false triples "
        f"({found['negatives']})",
        style="dim",
    )
