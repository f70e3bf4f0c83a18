"""bilink study."""

from pathlib import Path
from typing import Annotated

import typer

from bilink.cli.output import complain, say, stop_at_signal, training_bar

app = typer.Typer(no_args_is_help=True, help="Repeat an experimental study, from data to tables.")


@app.callback()
def _studies() -> None:
    """Repeat an experimental study, from data to tables."""


@app.command("wang2018")
def wang2018(
    data: Annotated[
        str, typer.Option(help="wn18, fb15k, wn18rr, fb15k-237; several with commas.")
    ] = "wn18",
    recipe: Annotated[
        str | None,
        typer.Option(
            help="paper, improved; several with commas. Other recipes that were run before stand "
            "in the tables too.",
            show_default="both; none beside a search",
        ),
    ] = None,
    search: Annotated[
        Path | None,
        typer.Option(help="Search the settings in this space file, as bilink search does."),
    ] = None,
    workers: Annotated[
        str, typer.Option(help="Of the search: processes on this machine, or ray.")
    ] = "1",
    out: Annotated[Path, typer.Option(help="Folder for what is found.")] = Path(
        "study/results/wang2018"
    ),
    work: Annotated[Path, typer.Option(help="Folder for the trained models.")] = Path(
        "runs/study/wang2018"
    ),
    tables_only: Annotated[
        bool, typer.Option("--tables", help="Only write the tables anew from what is there.")
    ] = False,
    plain: Annotated[bool, typer.Option("--no-pictures", help="Write no pictures.")] = False,
) -> None:
    """The study of Wang, Gemulla and Li (2018): models, ensembles, tables.

    Goes on where it was stopped. For example:

    - `bilink study wang2018 --data wn18`

    - `bilink study wang2018 --data umls --search space.toml`
    """
    from bilink._files import write_text
    from bilink.distributed.executor import executor_for
    from bilink.errors import ConfigError
    from bilink.study.pictures import draw
    from bilink.study.searching import all_studies, read_spaces, searched_study
    from bilink.study.tables import markdown
    from bilink.study.wang2018 import RECIPES, Hooks, Stopped, studies_of

    spaces = read_spaces(search) if search is not None else None
    executor = executor_for(workers) if spaces else None
    wanted = recipe.split(",") if recipe else [] if spaces else list(RECIPES)
    for name in data.split(","):
        with stop_at_signal() as should_stop:
            hooks = Hooks(complain, training_bar, should_stop)
            studies = studies_of(name, wanted, out=out, work=work, hooks=hooks)
            try:
                if spaces and not tables_only:
                    places = {"out": out, "work": work}
                    studies.append(
                        searched_study(name, spaces, **places, hooks=hooks, executor=executor)
                    )
                for study in () if tables_only else studies:
                    study.run()
            except Stopped:
                complain("stopped; the same command goes on from here")
                raise typer.Exit(130) from None
        studies = all_studies(name, out=out, work=work)
        if not studies:
            raise ConfigError(f"nothing of {name} is done yet, so there are no tables")
        path = out / name / "tables.md"
        write_text(path, markdown(studies))
        say(f"the tables are in {path}")
        if plain:
            continue
        for picture in draw(studies, out / name):
            say(f"a picture is in {picture}")


@app.command("records")
def records(
    data: Annotated[
        str, typer.Option(help="wn18, fb15k, wn18rr, fb15k-237; several with commas.")
    ] = "fb15k",
    models: Annotated[
        str | None,
        typer.Option(help="Letters of models, such as C,T.", show_default="all that have settings"),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for what is found.")] = Path(
        "study/results/records"
    ),
    work: Annotated[Path, typer.Option(help="Folder for the trained models.")] = Path(
        "runs/study/records"
    ),
    tables_only: Annotated[
        bool, typer.Option("--tables", help="Only write the tables anew from what is there.")
    ] = False,
    plain: Annotated[bool, typer.Option("--no-pictures", help="Write no pictures.")] = False,
) -> None:
    """Softmax training at small sizes, its ensembles, and published figures beside them.

    Goes on where it was stopped. For example:

    - `bilink study records --data fb15k --models C`
    """
    from bilink._files import write_text
    from bilink.study.records import leaderboard, record_study, run_records
    from bilink.study.records_picture import draw_records
    from bilink.study.wang2018 import Hooks, Stopped

    for name in data.split(","):
        with stop_at_signal() as should_stop:
            hooks = Hooks(complain, training_bar, should_stop)
            study = record_study(name, out=out, work=work, hooks=hooks)
            try:
                if not tables_only:
                    run_records(study, models.split(",") if models else None)
            except Stopped:
                complain("stopped; the same command goes on from here")
                raise typer.Exit(130) from None
        path = out / name / "leaderboard.md"
        write_text(path, leaderboard(study))
        say(f"the leaderboard is in {path}")
        if not plain:
            picture = path.with_suffix(".png")
            draw_records(study, picture)
            say(f"a picture is in {picture}")
