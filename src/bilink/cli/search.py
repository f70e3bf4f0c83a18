"""bilink search."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from bilink.cli.data import Columns, Separator
from bilink.cli.output import complain, error_console, print_json, say, show_table, stop_at_signal


def search(
    data: Annotated[
        str, typer.Argument(help="Folder with train/valid/test files, a single file, or a name.")
    ],
    space: Annotated[Path, typer.Option(help="The space file (TOML): what to choose from.")],
    out: Annotated[Path, typer.Option(help="Folder for the search; the winner is OUT/best.")],
    trials: Annotated[
        int | None,
        typer.Option(help="Number of trials.", show_default="the file's, or 20; all of a grid"),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="mrr, mr, hits@1, hits@3, hits@10 or amri, on valid.",
            show_default="the file's, or mrr",
        ),
    ] = None,
    workers: Annotated[
        str, typer.Option(help="Processes on this machine, or ray, or ray://HOST:PORT.")
    ] = "1",
    columns: Columns = None,
    separator: Separator = None,
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Search for the best settings, then train the winner.

    The same command continues a search that was interrupted; with more `--trials` it makes it
    longer. For example:

    - `bilink search wn18 --space space.toml --out searches/first --workers 2`
    """
    from bilink.data.loading import load_graph
    from bilink.distributed.executor import executor_for
    from bilink.search.loop import search as run_search
    from bilink.search.space import read_space
    from bilink.search.trials import require_optuna

    choices = read_space(space, trials=trials, metric=metric)
    executor = executor_for(workers, choices.threads)
    require_optuna()  # before the graph is loaded, which may take long
    given: dict[str, Any] = {"source": data, "columns": columns, "separator": separator}
    source = {key: value for key, value in given.items() if value is not None}
    graph = load_graph(**source)
    complain(repr(graph))
    with stop_at_signal() as should_stop, _bar(choices.metric) as (on_progress, on_epoch):
        result = run_search(
            graph,
            choices,
            out,
            executor=executor,
            source=source,
            on_progress=on_progress,
            on_epoch=on_epoch,
            should_stop=should_stop,
        )
    if json:
        print_json(dict(result.report))
    else:
        _show(result, out)
    if result.run is None:
        complain("interrupted; the same command goes on from here")
        raise typer.Exit(130)


@contextmanager
def _bar(metric: str) -> Iterator[tuple[Callable[[Any], None], Callable[[dict[str, Any]], None]]]:
    """A bar of trials with the best so far; where there is no terminal, a line for each trial."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

    def line(trial: Any) -> str:
        value = "" if trial.value is None else f", {metric} {trial.value:.4f}"
        chosen = ", ".join(
            f"{key} {x:.4g}" if isinstance(x, float) else f"{key} {x}"
            for key, x in trial.chosen.items()
        )
        cause = f": {trial.cause}" if trial.cause else ""
        return f"trial {trial.number} {trial.state}{value} ({chosen}){cause}"

    if not error_console.is_terminal:
        yield lambda now: complain(line(now.latest)) if now.latest else None, lambda record: None
        return
    bars = BarColumn(20), MofNCompleteColumn()
    columns = ("trials", *bars, "{task.fields[state]}", TimeElapsedColumn())
    with Progress(*columns, console=error_console, transient=True) as bar:
        task = bar.add_task("", total=None, state="")

        def on_progress(now: Any) -> None:
            best = ""
            if now.best:
                best = f"best {metric} {now.best.value:.4f} (trial {now.best.number})"
            bar.update(task, completed=now.ended, total=now.wanted, state=best)

        def on_epoch(record: dict[str, Any]) -> None:
            bar.update(task, state=f"training the winner, epoch {record['epoch']}")

        yield on_progress, on_epoch


def _show(result: Any, out: Path) -> None:
    report = result.report
    if result.best is None:
        return
    metric, best = report["metric"], result.best
    rows = [[key, str(value)] for key, value in best.settings.items()]
    show_table(("setting", "value"), rows)
    states = ", ".join(f"{number} {state}" for state, number in report["states"].items())
    say(f"\nbest of {states}: trial {best.number}, {metric} {best.value:.4f} on valid")
    say(f"the report is in {out / 'report.md'}")
    if result.run is not None:
        say(f"the winner is in {result.run.path}\nnext: bilink evaluate {result.run.path}")
