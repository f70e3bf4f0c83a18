"""bilink demo."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from bilink.cli.output import METRIC_COLUMNS, metric_cells, say, show_table, training_bar

MODELS = {"rescal": 50, "distmult": 100, "hole": 100, "complex": 50, "transe": 100}  # with dim
DEFAULT_OUT = Path("runs/demo")
QUESTIONS = (
    ("Which languages are spoken in Chile?", {"head": "Chile", "relation": "official language"}),
    ("Which countries border Austria?", {"head": "Austria", "relation": "borders"}),
    ("Which countries use the euro?", {"tail": "Euro", "relation": "uses currency"}),
)


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the runs.")] = DEFAULT_OUT,
    epochs: Annotated[int, typer.Option(help="Passes over the graph, for each model.")] = 40,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite runs in --out; not needed for runs/demo.")
    ] = False,
) -> None:
    """Train five models on an atlas of the world, combine them, and ask them questions.

    For example:

    - `bilink demo`
    """
    from bilink.data.loading import load_graph
    from bilink.runs.combined import combine
    from bilink.runs.job import train

    started = time.perf_counter()
    force = force or out == DEFAULT_OUT
    graph = load_graph("atlas")
    say(f"{graph!r}\n")
    runs: list[Any] = []
    rows = []
    for model, dim in MODELS.items():
        with training_bar(epochs) as on_epoch:
            run = train(
                graph, model, dim, out=out / model, force=force, epochs=epochs, on_epoch=on_epoch
            )
        runs.append(run)
        title, took = f"{run.model.family.title}, dim {dim}", sum(r["seconds"] for r in run.history)
        rows.append([title, *metric_cells(run.evaluate().metrics()), f"{took:.1f} s"])
        say(f"trained {title} in {took:.1f} s", style="dim")
    moment = time.perf_counter()
    everything = combine(runs, out=out / "ensemble", force=force)
    took = time.perf_counter() - moment
    rows.append(
        ["all five together", *metric_cells(everything.evaluate().metrics()), f"{took:.1f} s"]
    )
    say("")
    show_table(("test triples", *METRIC_COLUMNS, "training"), rows)
    say("\nQuestions to all five together:")
    for text, question in QUESTIONS:
        _answer(everything, text, question)
    _farewell(everything, out, time.perf_counter() - started)


def _answer(run: Any, text: str, question: dict[str, str]) -> None:
    """Show the answers, and which of them the model was not trained on."""
    held_out = {tuple(t) for split in ("valid", "test") for t in run.graph.split(split).tolist()}
    entity, relation = run.graph.entities.find, run.graph.relations.find
    say(f"\n{text}", style="bold")
    rows = []
    for a in run.query(**question, k=9):
        triple = (entity(a.head), relation(a.relation), entity(a.tail))
        mark = "true, held out" if triple in held_out else "in training" if a.known else "new"
        rows.append([a.label, f"{a.score:.2f}", mark])
    show_table(("answer", "score", ""), rows)


def _farewell(run: Any, out: Path, seconds: float) -> None:
    say(
        f"\nAll of this took {seconds:.0f} s. The runs are in {out}. Go on with, for example:\n"
        f'  bilink query {run.path} --head Peru --relation "official language"\n'
        f"  bilink evaluate {run.path}\n"
        f"  bilink audit {run.path}\n"
        "  bilink data describe atlas\n"
        "  bilink train YOUR_FILE.tsv --out runs/mine\n"
        "Explore it in the browser:\n"
        f"  bilink serve {run.path} --open"
    )
