"""Text that is safe to print, for people and as JSON; close matches, counted nouns, warnings."""

import difflib
import html
import json
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from bilink.errors import DataWarning, in_one_line

_SHOWN = 50  # rows of a table in a notebook
_MANY = 20_000  # names; of more, only those with the same first or last letter may be close


def printable(text: str) -> str:
    """``text`` without what could steer a terminal, forge a line or turn the writing around."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def html_text(value: Any) -> str:
    """``value`` as HTML that shows it, whatever it holds; figures are short."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else html.escape(printable(str(value)))


def html_table(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], *, title: str = "", note: str = ""
) -> str:
    """A table for notebooks; of many rows, the first ones."""

    def line(cells: Sequence[Any], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{html_text(cell)}</{tag}>' for cell in cells)}</tr>"

    caption = f"<caption>{html_text(title)}</caption>" if title else ""
    body = "".join(line(row, "td") for row in rows[:_SHOWN])
    if len(rows) > _SHOWN:
        note = f"{len(rows) - _SHOWN:,} more. {note}"
    table = f"<table>{caption}<thead>{line(columns, 'th')}</thead><tbody>{body}</tbody></table>"
    return table + (f"<p>{html_text(note)}</p>" if note else "")


def json_text(value: Any, *, ascii_only: bool = False) -> str:
    """``value`` as JSON in one line; NaN becomes null.

    What is not printable is escaped, which changes nothing for a parser.
    """
    finite = json.loads(json.dumps(value), parse_constant=lambda name: None)
    text = json.dumps(finite, ensure_ascii=ascii_only)
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def shortened(text: str, width: int = 60) -> str:
    """``text`` in quotes, safe to print on a terminal, cut where it is long."""
    return repr(text if len(text) <= width else text[: width - 1] + "…")


def closest(text: str, names: Sequence[str], n: int = 3) -> list[str]:
    """Up to ``n`` names that look like ``text``, without regard to case."""
    if len(text) > 200:
        return []
    folded: dict[str, str] = {}
    begun, longest = text.casefold(), len(text) + max(4, len(text))
    for name in names:
        key = name.casefold()
        if len(name) <= longest or (begun and key.startswith(begun)):
            folded.setdefault(key, name)
    start = [name for key, name in folded.items() if begun and key.startswith(begun)][:n]
    ends = text.casefold()[:1], text.casefold()[-1:]
    near = [
        key for key in folded if len(folded) <= _MANY or key[:1] == ends[0] or key[-1:] == ends[1]
    ]
    close = difflib.get_close_matches(text.casefold(), near, n=n, cutoff=0.6)
    return list(dict.fromkeys([*start, *(folded[key] for key in close)]))[:n]


def counted(n: int, singular: str, plural: str | None = None) -> str:
    """``n`` with its noun: "1 triple", "2,000 triples"."""
    return f"{n:,} {singular if n == 1 else plural or singular + 's'}"


def duration(seconds: float) -> str:
    """80.2 → "80 s", 600 → "10 min"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def warn(message: str) -> None:
    """Issue a DataWarning that points at the first caller outside bilink."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] == "bilink":
        level, frame = level + 1, frame.f_back
    warnings.warn(in_one_line(message), DataWarning, stacklevel=level)
