"""The records as a picture: quality against minutes, with the figures of others as lines."""

import json
from itertools import accumulate
from pathlib import Path
from typing import Any

from bilink._extras import needs
from bilink._files import replacing
from bilink.study.records import Row, pieces_of, published_records, row_of
from bilink.study.wang2018 import Study

_COLOURS = {"C": "#1f6f8b", "D": "#5b8c5a", "H": "#8e6c8a", "R": "#d1603d", "T": "#c9a227"}
_ENSEMBLE = "#222222"


def draw_records(study: Study, path: Path) -> None:
    """Draw the way of each model on valid, on test if that was looked at, and where it came to."""
    with needs("matplotlib", extra="plot", purpose="a picture"):
        from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axis = figure.subplots()
    for name in sorted(pieces_of(study), key=lambda name: -row_of(study, name).mrr):
        row, colour = row_of(study, name), _COLOURS.get(name, _ENSEMBLE)
        tested, validated = tests(study.out / name / "way.json"), validations(study.out / name)
        for way, style in ((tested, "-"), (validated, "--")):
            if way:
                axis.plot(*zip(*way, strict=True), style, color=colour, linewidth=1)
        title = row.title if name in _COLOURS else "all together"
        dot = "o" if name in _COLOURS else "*"
        label = f"{title} {row.mrr:.3f}"
        axis.plot(row.minutes or 0.0, row.mrr, dot, color=colour, markersize=8, label=label)
    _draw_others(axis, published_records(study.data))
    _finish(axis, study.data)
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=120)


def _draw_others(axis: Any, others: list[Row]) -> None:
    """A line for each, with its name beside it; names that would overlap are moved apart."""
    for other in others:
        axis.axhline(other.mrr, color="#bbbbbb", linewidth=0.8, linestyle=":", zorder=0)
    low, high = axis.get_ylim()
    place = low
    for other in sorted(others, key=lambda row: row.mrr):
        place = max(other.mrr, place + 0.035 * (high - low))
        axis.annotate(
            f"{other.title}, {other.numbers}: {other.mrr:.3f}",
            (1.01, place),
            xycoords=("axes fraction", "data"),
            va="center",
            fontsize=7,
            color="#777777",
        )


def _finish(axis: Any, data: str) -> None:
    axis.set_xscale("log", subs=range(2, 10))
    axis.xaxis.get_major_locator().set_params(subs=(1, 2, 5))
    axis.xaxis.set_major_formatter("{x:g}")
    axis.xaxis.set_minor_formatter("")
    axis.set_xlabel("minutes of training on two cores")
    axis.set_ylabel("MRR")
    axis.set_title(
        f"{data}: test (dots, lines on the way), others (dotted);\n"
        "valid, not filtered by test, so lower (dashed)",
        fontsize=9,
        loc="left",
    )
    axis.grid(color="#eeeeee", linewidth=0.6)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(fontsize=8, frameon=False)


def tests(path: Path) -> list[tuple[float, float]]:
    """(minutes so far, test MRR) as ``study/time_to_quality.py`` has written them, if it has."""
    if not path.exists():
        return []
    rows = json.loads(path.read_text(encoding="utf-8"))["way"]
    return [(minutes, mrr) for _, minutes, mrr, _ in rows]


def validations(piece: Path) -> list[tuple[float, float]]:
    """(minutes so far, validation MRR) of a run, of which only the history is kept."""
    history = piece / "history.jsonl"
    if not history.exists():
        return []
    rows = [json.loads(line) for line in history.read_text(encoding="utf-8").splitlines()]
    minutes = accumulate(row["seconds"] / 60 for row in rows)
    found = [(time, row.get("validation_mrr")) for time, row in zip(minutes, rows, strict=True)]
    return [(time, mrr) for time, mrr in found if mrr is not None]
