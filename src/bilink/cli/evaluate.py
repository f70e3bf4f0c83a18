"""bilink evaluate."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bilink._memory import parse_bytes
from bilink.cli.output import (
    METRIC_COLUMNS,
    check_new,
    keep_result,
    metric_cells,
    print_json,
    progress_bar,
    say,
    show_table,
    write_csv,
)


def evaluate(
    run: Annotated[Path, typer.Argument(help="The run folder.")],
    split: Annotated[str, typer.Option(help="train, valid or test.")] = "test",
    filter: Annotated[
        str,
        typer.Option(help="Splits whose other answers are left out; 'none' for the raw ranking."),
    ] = "train,valid,test",
    ties: Annotated[
        str, typer.Option(help="realistic (ties count half), optimistic or pessimistic.")
    ] = "realistic",
    against: Annotated[
        Path | None, typer.Option(help="Another run: test whether the difference is real.")
    ] = None,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", help="Write one line per relation to this new file.")
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(help="Memory for the score blocks.", show_default="512MB, or what is needed"),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="Number of threads.", show_default="all cores")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Rank the held-out triples: hide the head or the tail, and ask the model for it.

    For example, to evaluate a run, and to compare two on the same triples:

    - `bilink evaluate runs/first`

    - `bilink evaluate runs/first --against runs/second`
    """
    from bilink.evaluation.significance import paired_test
    from bilink.runs.loading import load

    check_new(csv_file, "--csv")
    protocol: dict[str, Any] = {
        "filter": () if filter == "none" else tuple(filter.split(",")),
        "ties": ties,
        "memory": None if memory is None else parse_bytes(memory),
        "threads": threads,
    }

    def rank(loaded: Any) -> Any:
        work = 2 * len(loaded.graph.split(split))
        with progress_bar(f"ranking {loaded.path}", work) as advance:
            return loaded.evaluate(split, progress=advance, **protocol)

    loaded = load(run)
    result = rank(loaded)
    found = {**result.to_dict(), "model": loaded.digest}
    keep_result(loaded, found)
    if csv_file is not None:
        write_csv(csv_file, result.per_relation())
    test = paired_test(result, rank(load(against))) if against is not None else None
    if json:
        print_json({**found, **({"against": vars(test)} if test else {})})
        return
    _show(found)
    if test:
        low, high = test.interval95
        say(
            f"\nMRR {test.difference:+.4f} against {against} (95 % interval {low:+.4f} to "
            f"{high:+.4f}, p = {test.p_value:.4f}; better on {test.better:,} triples, "
            f"worse on {test.worse:,})"
        )


def _show(found: dict[str, Any]) -> None:
    low, high = found["intervals95"]["mrr"]
    metrics = {
        "both sides": found["both"],
        "predict head": found["head"],
        "predict tail": found["tail"],
        "mean over relations": found["macro"],
    }
    for category, sides in found["categories"].items():
        metrics |= {f"{category}, predict {side}": values for side, values in sides.items()}
    rows = [[title, *metric_cells(values)] for title, values in metrics.items()]
    show_table(("", *METRIC_COLUMNS), rows)
    against = "filtered by " + "+".join(found["filter"]) if found["filter"] else "raw (no filter)"
    say(
        f"\n{found['queries']:,} queries of {found['split']} in {found['seconds']:.1f} s, "
        f"{against}, ties {found['ties']} ({found['tied_queries']:,} queries have some), "
        f"{found['triples_with_unseen_entities']:,} triples with entities unseen in training; "
        f"95 % interval of MRR {low:.3f} to {high:.3f}; graph {found['graph']}"
    )
