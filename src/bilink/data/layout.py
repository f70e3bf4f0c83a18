"""How a table of triples is laid out: its separator, its header, the order of its columns."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass

from bilink.data.text import QUOTING, SEPARATORS
from bilink.errors import ConfigError

SAMPLE_LINES = 100
SAMPLE_BYTES = 1 << 20
TRUTH = {"1": 1, "+1": 1, "-1": -1}  # the fourth column of WN11 and FB13

HEADS = ("head", "h", "subject", "subj", "s", "source", "src", "from")
RELATIONS = (
    *("relation", "rel", "r", "predicate", "pred", "p", "property", "relationship"),
    *("edge", "edge_type", "link", "interaction", "type"),
)
TAILS = ("tail", "t", "object", "obj", "o", "target", "dst", "dest", "destination", "to")
ROLES = {
    folded: role
    for role, names in (("h", HEADS), ("r", RELATIONS), ("t", TAILS))
    for name in names
    for folded in (name, f"{name}_id")
}


@dataclass(frozen=True)
class Layout:
    """What is needed to read one table."""

    separator: str
    width: int
    header: bool
    order: tuple[int, int, int]  # the positions of head, relation and tail
    truth: int | None = None  # the position of the ±1 column
    share: float = 1.0  # of the sampled lines that have this width


def detect(
    data: bytes, columns: str | None, separator: str | None, header: bool | None
) -> Layout | None:
    """The layout of ``data`` from its first lines and from what the caller knows.

    None where no separator gives any line the right number of fields.
    """
    lines = _sample(data)
    candidates = [separator_character(separator)] if separator else list(SEPARATORS.values())
    tabbed = any("\t" in line for line in lines)
    if tabbed and not separator:
        candidates.remove(" ")  # beside tabs, spaces belong to the names
    layouts = [_layout(lines, character, columns, header) for character in candidates]
    best = max(layouts, key=lambda layout: layout.share)  # the first of the best
    return best if best.share or separator or tabbed else None


def _sample(data: bytes) -> list[str]:
    lines = data[:SAMPLE_BYTES].decode(errors="ignore").split("\n")
    if len(data) > SAMPLE_BYTES:
        lines.pop()  # it may be cut
    return [line for line in lines if line][:SAMPLE_LINES]


def _layout(lines: list[str], separator: str, columns: str | None, header: bool | None) -> Layout:
    rows = _split(lines, separator)
    named = columns_by_name(rows[0]) if rows and header is not False else None
    body = rows[1:] if named or header else rows
    order = columns_by_letter(columns) if columns else named or (0, 1, 2)
    width = len(columns) if columns else len(rows[0]) if named else 3
    truth = None
    if named and not columns:
        truth = _truth_by_name(rows[0], body)
    elif sum(len(row) == width + 1 and row[-1] in TRUTH for row in body) * 2 > len(body):
        truth, width = width, width + 1
    share = sum(len(row) == width for row in rows) / len(rows) if rows else 0.0
    return Layout(separator, width, bool(named or header), order, truth, share)


def _split(lines: list[str], separator: str) -> list[list[str]]:
    if separator not in QUOTING:
        return [line.split(separator) for line in lines]
    try:
        return [row for row in csv.reader((f"{x}\n" for x in lines), delimiter=separator) if row]
    except csv.Error:  # a field of more than 128 KiB, surely not this separator
        return []


def _truth_by_name(names: Sequence[str], body: list[list[str]]) -> int | None:
    """The position of a column called "label" whose values are all ±1."""
    for i, name in enumerate(names):
        if _fold(name) in ("label", "truth", "y"):
            values = {row[i] for row in body if len(row) > i}
            if values and values <= TRUTH.keys():
                return i
    return None


def columns_by_name(names: Sequence[str]) -> tuple[int, int, int] | None:
    """Positions of head, relation and tail in a header, or None where the names are not known."""
    places: dict[str, list[int]] = {"h": [], "r": [], "t": []}
    for i, name in enumerate(names):
        if role := ROLES.get(_fold(name)):
            places[role].append(i)
    if not places["r"] and len(names) == 3 and "label" in map(_fold, names):
        places["r"] = [i for i, name in enumerate(names) if _fold(name) == "label"]
    if all(len(found) == 1 for found in places.values()):
        return places["h"][0], places["r"][0], places["t"][0]
    return None


def columns_by_letter(columns: str) -> tuple[int, int, int]:
    """Positions of head, relation and tail from letters: "htr"; "_" is a column to pass over."""
    if sorted(columns.replace("_", "")) != ["h", "r", "t"]:
        raise ConfigError(
            f"columns must name h, r and t once each, with _ for a column to pass over, "
            f'for example "hrt" or "htr_", not {columns!r}'
        )
    return columns.index("h"), columns.index("r"), columns.index("t")


def separator_character(separator: str) -> str:
    """The character of a separator given by its name ("tab") or as itself."""
    character = SEPARATORS.get(separator, "\t" if separator == "\\t" else separator)
    if len(character) != 1 or not character.isascii() or character in '"\n\r':
        raise ConfigError(
            f"separator must be {', '.join(SEPARATORS)} or one ASCII character, not {separator!r}"
        )
    return character


def _fold(name: str) -> str:
    return name.strip().lstrip(":").casefold().replace(" ", "_")
