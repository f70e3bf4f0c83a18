"""bilink rules."""

from pathlib import Path
from typing import Annotated

import typer

from bilink.cli.output import console, print_json, say, table


def rules(
    run: Annotated[Path, typer.Argument(help="The run folder, of paths or with paths in it.")],
    relation: Annotated[str | None, typer.Option(help="Rules of this relation only.")] = None,
    k: Annotated[int, typer.Option("-k", help="How many rules.")] = 20,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print the rules of a run, the most confident first.

    A rule holds for some of the pairs for which its body holds. For example:

    - `bilink train atlas --model paths --out runs/paths`

    - `bilink rules runs/paths --relation borders`
    """
    from bilink.runs.loading import load

    found = load(run).rules(relation, k)
    if json:
        print_json(found.to_dict())
        return
    rows = [
        [
            f"{rule.head} ← {rule.body}",
            f"{rule.confidence:.3f}",
            f"{rule.support:,}",
            f"{rule.groundings:,}",
        ]
        for rule in found
    ]
    console.print(table(("rule", "confidence", "holds for", "of"), rows))
    examples = [rule for rule in found if rule.evidence][:3]
    for rule in examples:
        facts = "; ".join(" ".join(fact) for fact in rule.evidence)
        say(f"for example, {rule.body} ({facts})", style="dim")
