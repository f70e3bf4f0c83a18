"""bilink demo."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from bilink.cli.output import (
    METRIC_COLUMNS,
    metric_cells,
    progress_bar,
    say,
    show_table,
    training_bar,
)

MODELS = {"rescal": 50, "distmult": 100, "hole": 100, "complex": 50, "transe": 100}  # with dim
DEFAULT_OUT = Path("runs/demo")
HIDDEN, WRONG = 0.1, 0.01  # shares of the facts
QUESTIONS = ("borders", "official language", "in time zone")  # about hidden facts of these
SHOWN = 20  # new facts and doubts


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the runs.")] = DEFAULT_OUT,
    epochs: Annotated[int, typer.Option(help="Passes over the graph, for each model.")] = 40,
    seed: Annotated[int, typer.Option(help="Another seed hides other facts.")] = 0,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite runs in --out; not needed for runs/demo.")
    ] = False,
) -> None:
    """Hide facts of an atlas of the world, plant errors, and see what is found of them.

    Five models and rules are learnt from the rest and combined. For example:

    - `bilink demo`
    """
    from bilink.data.building import split_triples
    from bilink.data.damage import hide_facts, plant_errors
    from bilink.data.graph import SPLITS
    from bilink.data.loading import load_graph

    started = time.perf_counter()
    whole = load_graph("atlas")
    part, hidden = hide_facts(whole, HIDDEN, seed)
    damaged, errors = plant_errors(part, WRONG, seed)
    sizes = len(whole.entities), len(whole.relations)
    splits = zip(SPLITS, split_triples(damaged.triples, *sizes, seed=seed), strict=True)
    graph = replace(damaged, **dict[str, Any](splits))  # as a file of a user is split
    say(f"{whole!r}")
    say(f"hidden: {len(hidden):,} facts; planted: {len(errors):,} errors\n")
    run = _train(graph, out, epochs, force or out == DEFAULT_OUT)
    names = whole.entities.names, whole.relations.names
    true, wrong = ({_named(names, row) for row in rows.tolist()} for rows in (hidden, errors))
    _ask(run, [_named(names, row) for row in hidden.tolist()])
    _new_facts(run, true)
    _doubts(run, wrong, epochs, seed)
    _farewell(run, out, time.perf_counter() - started)


def _named(names: Any, row: list[int]) -> tuple[str, str, str]:
    entities, relations = names
    return entities[row[0]], relations[row[1]], entities[row[2]]


def _train(graph: Any, out: Path, epochs: int, force: bool) -> Any:
    """Count rules, train the models, combine all of them, and show how well each ranks."""
    from bilink.runs.combined import combine
    from bilink.runs.job import prepare
    from bilink.runs.paths import train_paths

    moment = time.perf_counter()
    runs: list[Any] = [train_paths(graph, out=out / "paths", force=force, calibrate=False)]
    took = time.perf_counter() - moment
    rows = [["rules, counted", *metric_cells(runs[0].evaluate().metrics()), f"{took:.1f} s"]]
    for model, dim in MODELS.items():
        with training_bar(epochs) as on_epoch:
            job = prepare(graph, model, dim, {"epochs": epochs})
            run = job.run(out=out / model, force=force, on_epoch=on_epoch, calibrate=False)
        runs.append(run)
        title, took = f"{run.model.family.title}, dim {dim}", sum(r["seconds"] for r in run.history)
        rows.append([title, *metric_cells(run.evaluate().metrics()), f"{took:.1f} s"])
        say(f"trained {title} in {took:.1f} s", style="dim")
    moment = time.perf_counter()
    everything = combine(runs, out=out / "ensemble", force=force)
    took = time.perf_counter() - moment
    metrics = metric_cells(everything.evaluate().metrics())
    rows.append(["all of them together", *metrics, f"{took:.1f} s"])
    say("")
    show_table(("test triples", *METRIC_COLUMNS, "time"), rows)
    return everything


def _ask(run: Any, hidden: list[tuple[str, str, str]]) -> None:
    """Ask about one hidden fact of some relations, and show which answers are true."""
    true = set(hidden)
    for asked in QUESTIONS:
        head = next((h for h, r, _ in hidden if r == asked), None)
        if head is None:
            continue
        answers = run.query(head=head, relation=asked, k=6)
        say(f"\n{head}, {asked}?", style="bold")
        rows = []
        for a in answers:
            is_true = (a.head, a.relation, a.tail) in true
            mark = "known" if a.known else "new, and true: it was hidden" if is_true else "new"
            rows.append([a.label, _percent(a.probability), mark])
        show_table(("answer", "probability", ""), rows)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def _new_facts(run: Any, true: set[tuple[str, str, str]]) -> None:
    with progress_bar("searching", run.to_search(new=True)) as advance:
        found = run.new_facts(SHOWN, missing=HIDDEN, progress=advance)
    right = [(a.head, a.relation, a.tail) in true for a in found]
    say(f"\nThe {len(found)} most probable new facts of all:", style="bold")
    show_table(
        ("fact", "probability", ""),
        [
            [a.label, _percent(a.probability), "true" if ok else "not in the atlas"]
            for a, ok in zip(found, right, strict=True)
        ],
    )
    promised = sum(a.probability or 0 for a in found)
    say(f"{sum(right)} of {len(found)} are true; {promised:.1f} were promised.")
    if any(right):
        first = found[right.index(True)]
        say("\nWhy the first?", style="bold")
        say(repr(run.explain(first.head, first.relation, first.tail, k=2)))


def _doubts(run: Any, wrong: set[tuple[str, str, str]], epochs: int, seed: int) -> None:
    from bilink.runs.audit import FOLDS, audit

    with progress_bar("judging each fact by a model without it", FOLDS) as advance:
        seen: set[int] = set()

        def on_epoch(fold: int, record: dict[str, Any]) -> None:
            if fold not in seen:
                seen.add(fold)
                advance(1)

        found = audit(
            run, SHOWN, errors=WRONG, seed=seed, options={"epochs": epochs}, on_epoch=on_epoch
        )
    assert found is not None
    right = [(d.head, d.relation, d.tail) in wrong for d in found]
    say(f"\nThe {len(found)} facts that look most like errors:", style="bold")
    rows = []
    for doubt, ok in zip(found, right, strict=True):
        fact = f"{doubt.head_label}, {doubt.relation_label}, {doubt.tail_label}"
        rows.append([fact, _percent(doubt.probability), "planted" if ok else "true"])
    show_table(("fact", "true with", ""), rows)
    promised = sum(1 - doubt.probability for doubt in found)
    say(f"{sum(right)} of {len(found)} were planted; {promised:.1f} were promised.")


def _farewell(run: Any, out: Path, seconds: float) -> None:
    say(
        f"\nAll of this took {seconds:.0f} s. The runs are in {out}. Go on with, for example:\n"
        f'  bilink query {run.path} --head Peru --relation "official language"\n'
        f"  bilink query {run.path} --new --out new.csv\n"
        f"  bilink rules {run.path}\n"
        "  bilink train YOUR_FILE.tsv --out runs/mine\n"
        "See its new facts and doubts in the browser, and accept or reject them:\n"
        f"  bilink serve {run.path} --review --open"
    )
