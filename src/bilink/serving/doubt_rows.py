"""The doubtful facts of a run as the page shows them, from the file that an audit left."""

from typing import Any

from bilink.data.vocabulary import printable
from bilink.runs.audit import kept_doubts
from bilink.runs.run import Run
from bilink.serving.numbers import finite

_NAMED = ("name", "label")


def doubts_of(run: Run) -> list[dict[str, Any]] | None:
    """Most doubtful first; None where nobody has looked for them."""
    kept = kept_doubts(run)
    return None if kept is None else [_doubt(row) for row in kept if _is_doubt(row)]


def _is_doubt(row: Any) -> bool:
    """Whether a row of the file is what it should be."""
    ends = ("head", "relation", "tail", "head_label", "relation_label", "tail_label")
    if not (isinstance(row, dict) and all(isinstance(row.get(end), str) for end in ends)):
        return False
    best = row.get("suggestion")
    numbers = [row.get("probability"), row.get("score")]
    if best is not None:
        if not (isinstance(best, dict) and all(isinstance(best.get(x), str) for x in _NAMED)):
            return False
        numbers.append(best.get("probability"))
    return all(number is None or isinstance(number, int | float) for number in numbers)


def _doubt(row: dict[str, Any]) -> dict[str, Any]:
    best = row.get("suggestion")
    names = ("head", "relation", "tail")
    return {
        **{name: row[name] for name in names},
        **{f"{name}_label": printable(row[f"{name}_label"]) for name in names},
        "probability": finite(row.get("probability")),
        "score": finite(row.get("score")),
        "side": row.get("side"),
        "suggestion": None
        if best is None
        else {
            "name": best["name"],
            "label": printable(best["label"]),
            "probability": finite(best.get("probability")),
        },
    }
