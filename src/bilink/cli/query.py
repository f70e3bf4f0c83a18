"""bilink query."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bilink._memory import parse_bytes
from bilink.cli.output import (
    check_out,
    complain,
    console,
    print_json,
    progress_bar,
    say,
    table,
)


def query(
    run: Annotated[Path, typer.Argument(help="The run folder.")],
    head: Annotated[str | None, typer.Option(help="The head asked about.")] = None,
    relation: Annotated[str | None, typer.Option(help="The relation asked about.")] = None,
    tail: Annotated[str | None, typer.Option(help="The tail asked about.")] = None,
    k: Annotated[int, typer.Option("-k", help="How many answers.")] = 10,
    new: Annotated[
        bool, typer.Option("--new", help="Leave out facts that the graph holds already.")
    ] = False,
    only: Annotated[
        str | None,
        typer.Option(
            help="Limit the answers: 'seen' (in that position of the relation), or a file of names."
        ),
    ] = None,
    any_entity: Annotated[
        bool,
        typer.Option(
            "--any-entity",
            help="Without probabilities: also show entities that do not fit the relation.",
        ),
    ] = False,
    questions: Annotated[
        Path | None,
        typer.Option(help="Ask each line of this file: head, relation, tail; ? is asked for."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write the answers to this new file: .tsv, .csv, .parquet, .json, .nt or .ttl."
        ),
    ] = None,
    missing: Annotated[
        float | None,
        typer.Option(
            help="Share of all facts thought missing, for probabilities.", show_default="0.1"
        ),
    ] = None,
    memory: Annotated[str, typer.Option(help="Memory for the search of pairs.")] = "1GB",
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Ask a run a question: give what you know, and get what you left out.

    For example, to ask for entities, for relations, for new pairs, for the most probable new facts
    of all relations, and whether a fact is true:

    - `bilink query runs/first --head Austria --relation borders`

    - `bilink query runs/first --head Austria --tail Italy`

    - `bilink query runs/first --relation borders --new`

    - `bilink query runs/first --new`

    - `bilink query runs/first --head Austria --relation borders --tail Italy`
    """
    from bilink.queries.answers import ENDINGS, read_names, read_questions
    from bilink.runs.loading import load

    check_out(out, ENDINGS)
    places = {"head": head, "relation": relation, "tail": tail}
    given = {place: name for place, name in places.items() if name is not None}
    if questions is not None and given:
        raise typer.BadParameter(f"give --questions or --{next(iter(given))}, not both")
    if out is not None and len(given) == 3:
        raise typer.BadParameter("--out is for lists of answers; for one fact there is --json")
    loaded = load(run)
    if len(given) == 3:
        found = loaded.explain(**given, k=k, missing=missing)
        print_json(found.to_dict()) if json else say(repr(found))
        return
    options: dict[str, Any] = {
        "k": k,
        "new": new,
        "any_entity": any_entity,
        "missing": missing,
        "memory": parse_bytes(memory),
    }
    if only is not None:
        options["only"] = only if only == "seen" else read_names(only)
    if questions is not None:
        lines = read_questions(questions)
        with progress_bar("asking", len(lines)) as advance:
            answers: Any = loaded.query_all(lines, progress=advance, **options)
    else:
        answers = _ask(loaded, given, options)
    if loaded.judge is None:
        complain(f"no probabilities: learn them with 'bilink calibrate {run}'", "dim")
    if out is not None:
        answers.write(out)
    if json:
        print_json(answers.to_dict())
        return
    for each in answers if questions is not None else [answers]:
        _show(each)


def _ask(run: Any, given: dict[str, str], options: dict[str, Any]) -> Any:
    count = run.to_search(**given, new=options["new"])
    with progress_bar("searching" if count else "asking", count or 1) as advance:
        return run.query(**given, progress=advance, **options)


def _show(answers: Any) -> None:
    from bilink.queries.answers import probability_note
    from bilink.queries.fitting import left_out_note

    rows = [
        [
            answer.label,
            str(answer.rank),
            f"{answer.score:.3f}",
            "" if answer.probability is None else f"{answer.probability:.1%}",
            "known" if answer.known else "new",
        ]
        for answer in answers
    ]
    say(answers.question, style="bold")
    console.print(table(("answer", "rank", "score", "probability", ""), rows))
    if answers.missing is not None:
        say(probability_note(answers.missing), style="dim")
    if answers.left_out:
        say(left_out_note(answers.left_out, "--any-entity"), style="dim")
