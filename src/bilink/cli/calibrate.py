"""bilink calibrate."""

from pathlib import Path
from typing import Annotated

import typer

from bilink.cli.output import check_picture, complain, print_json, say, show_table


def calibrate(
    run: Annotated[Path, typer.Argument(help="The run folder.")],
    seed: Annotated[int, typer.Option(help="Another seed draws other questions.")] = 0,
    picture: Annotated[
        Path | None, typer.Option(help="Draw what is promised against what is true.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    plot: Annotated[Path | None, typer.Option(hidden=True)] = None,  # former name of --picture
) -> None:
    """Learn probabilities on valid, and see on test whether they hold.

    The result stays in the run folder, where queries find it. For example:

    - `bilink calibrate runs/first --picture reliability.png`
    """
    from bilink.errors import DataError
    from bilink.evaluation.probability import ask_test
    from bilink.evaluation.reliability import draw_reliability
    from bilink.runs.loading import load

    picture = picture or plot
    check_picture(picture)
    loaded = load(run)
    learnt = loaded.calibrate(seed=seed)
    try:
        found = ask_test(loaded.scorer, loaded.graph, seed=seed).to_dict()
    except DataError as error:
        complain(f"not judged: {error}")
        found = None
    if picture is not None and found is not None:
        draw_reliability(found, picture)
    about = {"positives": learnt.positives, "candidates": learnt.candidates}
    if json:
        print_json({**about, "graph": learnt.fingerprint, "test": found})
        return
    say(f"learnt from {learnt.positives:,} validation facts and {learnt.candidates:,} candidates")
    if found is None:
        return
    rows = [
        [f"{part['count']:,}", f"{part['predicted']:.2f}", f"{part['observed']:.2f}"]
        for part in found["bins"]
    ]
    show_table(("answers", "promised", "true"), rows, title="The best answers, by probability")
    say(
        f"{found['questions']:,} questions about facts of the test split, by probabilities learnt "
        f"without it: {found['promised']:.1%} promised, {found['right']:.1%} true; expected "
        f"calibration error {found['ece']:.3f}"
    )
