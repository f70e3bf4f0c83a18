"""bilink theory."""

import typer

from bilink.cli import theory_graph

app = typer.Typer(help="Theory that can be run on a graph.", no_args_is_help=True)
app.command("describe")(theory_graph.describe)
app.command("construct")(theory_graph.construct)
