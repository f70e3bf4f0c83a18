"""bilink train, bilink resume."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bilink._text import duration
from bilink.cli.data import Columns, Separator
from bilink.cli.output import (
    complain,
    console,
    print_json,
    progress_bar,
    say,
    show_bytes,
    stop_at_signal,
    table,
    training_bar,
)

PREVIEWED = 1_000_000  # training triples up to which paths are counted before a model is trained
Options = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A training option; repeat for more."),
]


def train(
    data: Annotated[
        str | None,
        typer.Argument(help="Folder with train/valid/test files, a single file, or a name."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="complex, rescal, distmult, hole, transe, transe-l1, cp, simple, analogy, "
            "rotate, quate, transh, transr, transg, ntn, each also with -reciprocal behind it; "
            "rgcn; paths, for rules; or auto, the best that a budget buys.",
            show_default="auto; complex if options of a model are given",
        ),
    ] = None,
    dim: Annotated[
        int | None, typer.Option(help="Size of the embeddings.", show_default="100")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the run.", show_default="runs/DATA-MODEL")
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="paper, margin, softmax, sampled or rgcn.",
            show_default="what suits model and graph",
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            help="The time for all of it, such as 90s, 10m or 1h; 0 only counts rules.",
            show_default="by the size of the graph",
        ),
    ] = None,
    parts: Annotated[
        int | None,
        typer.Option(
            help="Train in so many parts of the entities, two of which are in memory at a time.",
            show_default="1",
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(help="Train in as few parts as fit into so much memory, such as 4GB."),
    ] = None,
    options: Options = None,
    config: Annotated[
        Path | None, typer.Option(help="Repeat the run of this config.toml; --set overrides it.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a former run.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the estimate of memory and time, then stop.")
    ] = False,
    columns: Columns = None,
    separator: Separator = None,
    list_options: Annotated[
        bool, typer.Option("--list-options", help="Print the options of --set and their defaults.")
    ] = False,
) -> None:
    """Train a model on a graph.

    Without a model, rules are counted, models trained and combined: the best that a budget buys.
    For example; the last one lists all options of `--set`:

    - `bilink train atlas --out runs/first`

    - `bilink train atlas --budget 5m --out runs/better`

    - `bilink train wn18 --model transe --dim 200 --set epochs=500 --set margin=0.5 --out runs/t`

    - `bilink train wikidata5m --model complex --memory 4GB --out runs/large`

    - `bilink train --list-options`
    """
    from bilink.errors import ConfigError
    from bilink.runs.auto import is_auto, minutes_of
    from bilink.runs.config import read_config_file
    from bilink.runs.job import prepare
    from bilink.runs.paths import preview_paths
    from bilink.runs.tuning import tuned
    from bilink.training.config import MarginConfig, parse_options

    given = parse_options(options or [])
    if parts is not None:
        given["parts"] = str(parts)
    if memory is not None and (model or "").lower() in ("paths", "ptranse"):
        raise ConfigError(f"{model} takes no --memory; leave it out, or name another model")
    if list_options:
        _list_options(model or "complex", preset, given)
        return
    if model is not None and model.lower() == "paths":
        settings = preset or config or dim or dry_run or budget is not None
        _train_paths(data, given, out, force, settings, columns=columns, separator=separator)
        return
    if model is not None and model.lower() == "ptranse":
        refused = config or dry_run or budget is not None
        how = {"preset": preset, "columns": columns, "separator": separator}
        _train_ptranse(data, dim, given, out, force, refused, how)
        return
    if is_auto(model, bool(given or preset or config or memory) or dim is not None):
        how = {"columns": columns, "separator": separator}
        _train_auto(data, budget, out, force, dry_run, how)
        return
    job = prepare(
        data,
        model,
        dim,
        given,
        preset=preset,
        former=read_config_file(config) if config is not None else None,
        memory=memory,
        columns=columns,
        separator=separator,
    )
    complain(repr(job.graph))
    if len(job.graph.train) <= PREVIEWED:
        for line in preview_paths(job.graph).sentences():
            complain(line)
    if (minutes := minutes_of(budget)) is not None:
        job = job.fitted_to(60 * minutes)
    elif not (preset or config or dry_run):
        with stop_at_signal() as should_stop:
            job = tuned(job, given, complain, should_stop)
    plan = job.plan()
    _show_plan(plan, job.config.dim, isinstance(job.config.training, MarginConfig))
    if job.config.training.parts > 1:
        complain(f"in {job.config.training.parts} parts, two of which are in memory at a time")
    if job.validation_triples < min(job.config.training.validation_triples, len(job.graph.valid)):
        complain(f"validation ranks {job.validation_triples:,} triples, to save time", "dim")
    if dry_run:
        return
    out = out or Path("runs") / f"{job.graph.name}-{(model or job.config.model).lower()}"
    with stop_at_signal() as should_stop, training_bar(plan.epochs) as bar:
        hooks: Any = {"on_epoch": bar, "on_progress": bar.within, "should_stop": should_stop}
        run = job.run(out=out, force=force, **hooks)
    _report(run)


def _train_auto(
    data: str | None,
    budget: str | None,
    out: Path | None,
    force: bool,
    dry_run: bool,
    how: dict[str, Any],
) -> None:
    from bilink.data.loading import load_graph
    from bilink.errors import ConfigError
    from bilink.runs.auto import default_minutes, minutes_of, train_auto

    if data is None:
        raise ConfigError("name the graph to train on, for example: bilink train atlas")
    minutes = minutes_of(budget)
    if dry_run:
        graph = load_graph(data, **{key: value for key, value in how.items() if value is not None})
        minutes = default_minutes(graph) if minutes is None else minutes
        complain(f"{graph!r}\nbudget: {duration(60 * minutes)}")
        return
    with stop_at_signal() as should_stop, training_bar(1, lines=False) as on_epoch:
        made = train_auto(
            data,
            minutes,
            out=out or Path("runs") / f"{Path(data).stem}-auto",
            force=force,
            say=complain,
            on_epoch=on_epoch,
            should_stop=should_stop,
            **how,
        )
    say(f"the best on validation: {made.name}, in {duration(made.seconds)}")
    say(f"the run is in {made.run.path}\nnext: bilink evaluate {made.run.path}")


def _train_paths(
    data: str | None,
    given: dict[str, Any],
    out: Path | None,
    force: bool,
    more: Any,
    **reading: Any,
) -> None:
    from bilink.data.loading import load_graph
    from bilink.errors import ConfigError
    from bilink.paths.mining import parts_of
    from bilink.runs.paths import split_options, train_paths

    if data is None or more:
        raise ConfigError(
            "--model paths takes a graph and --set options of its own; for example: "
            "bilink train atlas --model paths --set length=2"
        )
    graph = load_graph(data, **{key: value for key, value in reading.items() if value is not None})
    complain(repr(graph))
    mining, _ = split_options(given)
    with progress_bar("counting", parts_of(graph, mining)) as advance:
        run = train_paths(
            graph,
            given,
            out=out or Path("runs") / f"{graph.name}-paths",
            force=force,
            say=complain,
            progress=advance,
            source={"source": data, **{k: v for k, v in reading.items() if v is not None}},
        )
    say(f"the run is in {run.path}\nnext: bilink rules {run.path}; bilink evaluate {run.path}")


def _train_ptranse(
    data: str | None,
    dim: int | None,
    given: dict[str, Any],
    out: Path | None,
    force: bool,
    more: Any,
    how: dict[str, Any],
) -> None:
    from bilink.errors import ConfigError
    from bilink.runs.ptranse import prepare_ptranse

    if data is None or more:
        raise ConfigError(
            "--model ptranse takes a graph, --dim, --preset and --set; for example: "
            "bilink train atlas --model ptranse --set length=3"
        )
    made = prepare_ptranse(data, dim, given, say=complain, **how)
    epochs = made.job.config.training.epochs
    with stop_at_signal() as should_stop, training_bar(epochs) as on_epoch:
        run = made.run(
            out=out or Path("runs") / f"{made.job.graph.name}-ptranse",
            force=force,
            on_epoch=on_epoch,
            should_stop=should_stop,
        )
    say(f"the run is in {run.path}\nnext: bilink rules {run.path}; bilink evaluate {run.path}")


def resume(
    run: Annotated[Path, typer.Argument(help="The run folder.")],
    options: Options = None,
    json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
) -> None:
    """Go on with a run that was interrupted, or make a finished one longer.

    For example:

    - `bilink resume runs/first`

    - `bilink resume runs/first --set epochs=1000`
    """
    from bilink.runs import job
    from bilink.runs.folder import RunFolder
    from bilink.training.config import parse_options

    settings = parse_options(options or [])
    folder = RunFolder(run)
    training = folder.read_config().training.with_options(settings)
    done = len(folder.read_history())
    with stop_at_signal() as should_stop, training_bar(training.epochs, done) as bar:
        hooks: Any = {"on_epoch": bar, "on_progress": bar.within, "should_stop": should_stop}
        result = job.resume(run, options=settings, **hooks)
    if json:
        print_json({"run": str(run), "stopped": result.stopped, **vars(result.progress)})
    else:
        _report(result)


def _list_options(model: str, name: str | None, given: dict[str, str]) -> None:
    from bilink.errors import ConfigError
    from bilink.training.config import option_help
    from bilink.training.presets import choose, decoder, started

    if model == "paths":
        from bilink.paths.rules import option_help as path_help

        found = table(("option", "default", "meaning"), path_help())
        found.columns[-1].justify = "left"
        console.print(found)
        return
    if model == "auto":
        raise ConfigError("auto takes a --budget and chooses all options; name a model")
    model, name = decoder(model, name, given)
    name = name or choose(model, 100, None, given)
    config = started(name, model, given)
    found = table(("option", f"default ({name})", "meaning"), option_help(config))
    found.columns[-1].justify = "left"
    console.print(found)


def _show_plan(plan: Any, dim: int, lock_free: bool) -> None:
    complain(
        f"{plan.title} of dim {dim}: {plan.parameters:,} parameters, about "
        f"{show_bytes(plan.memory)} of memory, at most {duration(plan.seconds)} "
        f"on {plan.threads} thread(s)"
    )
    if plan.threads > 1 and lock_free:
        complain("several threads: fast, but not exactly repeatable (--set threads=1 is)", "dim")


def _report(run: Any) -> None:
    if run.stopped == "interrupted":
        epoch = run.progress.epoch
        say(f"interrupted after epoch {epoch}; go on with: bilink resume {run.path}")
        raise typer.Exit(130)
    seconds = sum(record["seconds"] for record in run.history) or run.progress.seconds
    say(f"{run.stopped} ({duration(seconds)} of training)")
    say(f"the run is in {run.path}\nnext: bilink evaluate {run.path}")
