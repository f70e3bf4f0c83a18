"""The command line: one command per file, no logic."""

import io
import os
import signal
import sys
import warnings
from typing import Any

import typer
from typer.core import TyperGroup

from bilink._memory import LIBRARIES, address_space
from bilink.cli import (
    audit,
    calibrate,
    classify,
    data,
    demo,
    ensemble,
    evaluate,
    explain,
    export,
    query,
    review,
    rules,
    search,
    serve,
    study,
    theory,
    train,
    update,
)
from bilink.cli.output import complain
from bilink.errors import BilinkError, ConfigError, DataWarning

__all__ = ["app", "main"]


class Group(TyperGroup):
    """Commands whose help shows no type after a flag, which takes no value."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The options of the group itself."""
        return _without_flag_types(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, if there is one."""
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            _without_flag_types(command.get_params(ctx))
        return command


def _without_flag_types(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


app = typer.Typer(
    name="bilink",
    cls=Group,
    help="Predict missing links in knowledge graphs. Start with: bilink demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.command("demo")(demo.demo)
app.add_typer(data.app, name="data", cls=Group)
app.command("train")(train.train)
app.command("resume")(train.resume)
app.command("evaluate")(evaluate.evaluate)
app.command("classify")(classify.classify)
app.command("calibrate")(calibrate.calibrate)
app.command("ensemble")(ensemble.ensemble)
app.add_typer(study.app, name="study", cls=Group)
app.command("query")(query.query)
app.command("rules")(rules.rules)
app.command("serve")(serve.serve)
app.command("audit")(audit.audit)
app.command("explain")(explain.explain)
app.command("review")(review.review)
app.command("update")(update.update)
app.command("export")(export.export)
app.command("search")(search.search)
app.add_typer(theory.app, name="theory", cls=Group)


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version.")) -> None:
    if version:
        from bilink import __version__

        typer.echo(__version__)
        raise typer.Exit


def main() -> None:
    """Run a command; report an error in one sentence and with an exit code."""
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    _prepare_for_interrupts()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # names that a terminal cannot show are escaped
            stream.reconfigure(errors="backslashreplace")
    try:
        _check_address_space()
        app()
    except BilinkError as error:
        complain(f"error: {error}", "red")
        sys.exit(1)
    except BrokenPipeError:  # the reader, for example head, has closed the pipe
        sys.stderr.close()
        sys.exit(0)
    except MemoryError:
        complain("error: there is not enough memory for this; try a smaller --dim or graph", "red")
        sys.exit(1)
    except (OSError, UnicodeError) as error:  # a path that is too long, a disk that fails, …
        complain(f"error: {error}", "red")
        sys.exit(1)
    except KeyboardInterrupt:
        complain("interrupted")
        sys.exit(130)


def _check_address_space() -> None:
    """Libraries that cannot have their addresses hang or abort, and say nothing that helps."""
    if (most := address_space()) < LIBRARIES:
        raise ConfigError(
            f"a process may take {most / 1e9:.1f} GB of addresses here (ulimit -v), and the "
            f"libraries of bilink need {LIBRARIES / 1e9:.0f} GB; allow more"
        )


def _prepare_for_interrupts() -> None:
    """Let the first Ctrl-C end the command in order, and the second one at once."""

    def interrupt(number: int, frame: Any) -> None:
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
        raise KeyboardInterrupt

    def unraisable(found: Any) -> None:  # an interrupt inside a callback that cannot raise
        if not isinstance(found.exc_value, KeyboardInterrupt):
            sys.__unraisablehook__(found)

    signal.signal(signal.SIGINT, interrupt)
    sys.unraisablehook = unraisable


def _show_warning(message: Warning | str, category: type[Warning], *rest: Any) -> None:
    if issubclass(category, DataWarning):
        complain(f"warning: {message}", "yellow")
