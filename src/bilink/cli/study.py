"""bilink study: runs the studies in the folder ``study`` of the source checkout."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from bilink import __version__
from bilink._extras import needs
from bilink.cli.output import complain, say, stop_at_signal, training_bar
from bilink.errors import BilinkError, ConfigError

app = typer.Typer(no_args_is_help=True, help="Repeat an experimental study, from data to tables.")
Graphs = Annotated[str, typer.Option(help="wn18, fb15k, wn18rr, fb15k-237; several with commas.")]
Out = Annotated[Path, typer.Option(help="Folder for the results.")]
Work = Annotated[Path, typer.Option(help="Folder for the trained models.")]
TablesOnly = Annotated[
    bool, typer.Option("--tables", help="Only write the tables, from results at hand.")
]
Plain = Annotated[bool, typer.Option("--no-pictures", help="Write no pictures.")]


def _find_study() -> None:
    """Make the folder ``study`` importable: beside the folder of the source, or in this one."""
    for root in (Path(__file__).parents[3], Path.cwd()):
        if (root / "study" / "wang2018.py").is_file():
            sys.path.insert(0, str(root))
            return
    raise BilinkError(
        "the studies are part of bilink's source checkout, not of the installed package: get the "
        "source, for example with 'pip download --no-deps --no-binary bilink "
        f"bilink=={__version__}', unpack it, and run this command in its folder"
    )


@contextmanager
def _hooks() -> Iterator[Any]:
    """What a study calls while it works; where it is stopped, the command ends."""
    from study.wang2018 import Hooks, Stopped

    with stop_at_signal() as should_stop:
        try:
            yield Hooks(complain, training_bar, should_stop)
        except Stopped:
            complain("stopped; the same command goes on from here")
            raise typer.Exit(130) from None


@app.command("wang2018")
def wang2018(
    data: Graphs = "wn18",
    recipe: Annotated[
        str | None,
        typer.Option(
            help="paper, improved; several with commas. The tables also show recipes that were "
            "run before.",
            show_default="both; with --search, none",
        ),
    ] = None,
    search: Annotated[
        Path | None,
        typer.Option(help="Search the settings in this space file, as bilink search does."),
    ] = None,
    workers: Annotated[
        str, typer.Option(help="Of the search: processes on this machine, or ray.")
    ] = "1",
    out: Out = Path("study/results/wang2018"),
    work: Work = Path("runs/study/wang2018"),
    tables_only: TablesOnly = False,
    plain: Plain = False,
) -> None:
    """The study of Wang, Gemulla and Li (2018): models, ensembles, tables.

    The same command goes on with a study that was interrupted. For example:

    - `bilink study wang2018 --data wn18`

    - `bilink study wang2018 --data umls --search space.toml`
    """
    _find_study()
    from bilink._files import write_text
    from bilink.distributed.executor import executor_for
    from study.pictures import draw
    from study.searching import all_studies, read_spaces, searched_study
    from study.tables import markdown
    from study.wang2018 import RECIPES, studies_of

    spaces = read_spaces(search) if search is not None else None
    executor = executor_for(workers) if spaces else None
    wanted = recipe.split(",") if recipe else [] if spaces else list(RECIPES)
    for name in data.split(","):
        with _hooks() as hooks:
            studies = studies_of(name, wanted, out=out, work=work, hooks=hooks)
            if spaces and not tables_only:
                places: dict[str, Any] = {"out": out, "work": work, "hooks": hooks}
                studies.append(searched_study(name, spaces, executor=executor, **places))
            for study in () if tables_only else studies:
                study.run()
        studies = all_studies(name, out=out, work=work)
        if not studies:
            raise ConfigError(f"nothing of {name} is done yet, so there are no tables")
        path = out / name / "tables.md"
        write_text(path, markdown(studies))
        say(f"the tables are in {path}")
        if plain:
            continue
        with needs("matplotlib", extra="plot", purpose="the pictures of a study"):
            drawn = draw(studies, out / name)
        for picture in drawn:
            say(f"a picture is in {picture}")


@app.command("records")
def records(
    data: Graphs = "fb15k",
    models: Annotated[
        str | None,
        typer.Option(help="Letters of models, such as C,T.", show_default="all that have settings"),
    ] = None,
    out: Out = Path("study/results/records"),
    work: Work = Path("runs/study/records"),
    tables_only: TablesOnly = False,
    plain: Plain = False,
) -> None:
    """Softmax training at small sizes, its ensembles, and published figures beside them.

    The same command goes on with a study that was interrupted. For example:

    - `bilink study records --data fb15k --models C`
    """
    _find_study()
    from bilink._files import write_text
    from study.records import all_records, draw_records, page, record_study, run_records

    for name in data.split(","):
        with _hooks() as hooks:
            study = record_study(name, out=out, work=work, hooks=hooks)
            if not tables_only:
                run_records(study, models.split(",") if models else None)
        path = out / "leaderboard.md"
        write_text(path, page(all_records(out=out, work=work)))
        say(f"the leaderboard is in {path}")
        if not plain:
            picture = out / name / "leaderboard.png"
            with needs("matplotlib", extra="plot", purpose="the picture of a study"):
                draw_records(study, picture)
            say(f"a picture is in {picture}")
