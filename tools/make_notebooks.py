"""Make the notebooks in `examples/` from the tutorials in `docs/tutorials/`.

    python tools/make_notebooks.py

A tutorial and its notebook are one text: the tests run the former and compare the latter with it.
"""

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
TUTORIALS = ("company", "baseline", "theory")
START = """# bilink has to be installed for this kernel; the files are those of the repository.
%cd -q .."""


def cells(text: str) -> list[dict[str, Any]]:
    """Prose becomes Markdown, commands and Python become code, and what they print is left out."""
    found = [cell("code", START)]
    for i, part in enumerate(re.split(r"^```(\w+)\n(.*?)^```\n", text, flags=re.S | re.M)):
        match i % 3:
            case 0 if part.strip():
                found.append(cell("markdown", linked(part.strip())))
            case 1:
                language = part
            case 2 if language == "sh":
                lines = re.sub(r"^(?=bilink)", "!", part.strip(), flags=re.M)
                found.append(cell("code", lines))
            case 2 if language == "python":
                found.append(cell("code", part.strip()))
            case 2 if language == "bash":
                found.append(cell("markdown", f"```bash\n{part}```"))
    for number, each in enumerate(found):
        each["id"] = f"cell-{number}"
    return found


def linked(text: str) -> str:
    """The text with links that lead on from the folder `examples`."""

    def link(found: re.Match[str]) -> str:
        target, _, anchor = found[1].partition("#")
        if target.startswith("http"):
            return found[0]
        path = (ROOT / "docs" / "tutorials" / target).resolve().relative_to(ROOT)
        place = path.name if path.parts[0] == "examples" else f"../{path.as_posix()}"
        return f"]({place}{'#' if anchor else ''}{anchor})"

    return re.sub(r"\]\(([^)\s]+)\)", link, text)


def cell(kind: str, source: str) -> dict[str, Any]:
    """One cell without results."""
    made: dict[str, Any] = {"cell_type": kind, "metadata": {}}
    if kind == "code":
        made |= {"execution_count": None, "outputs": []}
    return made | {"source": source.splitlines(keepends=True)}


def notebook(name: str) -> str:
    """The notebook of a tutorial, as the text of its file."""
    text = (ROOT / "docs" / "tutorials" / f"{name}.md").read_text(encoding="utf-8")
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    made = {
        "cells": cells(text),
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(made, ensure_ascii=False, indent=1) + "\n"


def main() -> None:
    """Write the notebooks."""
    for name in TUTORIALS:
        path = ROOT / "examples" / f"{name}.ipynb"
        path.write_text(notebook(name), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
