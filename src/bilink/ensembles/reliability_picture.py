"""The reliability diagram: what was called likely, and what came true of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bilink._extras import needs
from bilink._files import replacing

COLOURS = ("#adb5bd", "#c1121f", "#2a6f97")  # the plain sigmoid, one line for all, ours
TITLES = {"sigmoid": "plain sigmoid", "global": "one line for all", "platt": "a line per relation"}
ASKED = {"facts": "is this fact true?", "answers": "is this answer right?"}


def draw_reliability(comparisons: list[dict[str, Any]], path: Path) -> None:
    """One panel for each result of ``compare_calibrations``, one curve for each rival."""
    with needs("matplotlib", extra="plot", purpose="the picture of a calibration"):
        from matplotlib.figure import Figure
    count = len(comparisons)
    figure = Figure(figsize=(4.2 * count, 4.4), layout="constrained")
    panels = figure.subplots(1, count, squeeze=False)[0]
    for axes, found in zip(panels, comparisons, strict=True):
        _draw_panel(axes, found)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=120, format=path.suffix.lstrip(".") or "png")


def _draw_panel(axes: Any, found: Mapping[str, Any]) -> None:
    axes.plot([0, 1], [0, 1], color="#dee2e6", linewidth=1, zorder=0)
    for colour, (name, result) in zip(COLOURS, found["results"].items(), strict=False):
        title = TITLES.get(name, name)
        error = f"{title}: {result['ece_within_relations']:.3f}"
        x = [part["predicted"] for part in result["bins"]]
        y = [part["observed"] for part in result["bins"]]
        axes.plot(x, y, "o-", color=colour, label=error, markersize=4, linewidth=1.6)
    heading = found.get("title", ASKED[found["asked"]])
    axes.set_title(heading, loc="left", fontsize=10)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.set_xlabel("probability")
    axes.set_ylabel(f"share of true triples ({found['split']})")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(
        title="error within relations",
        fontsize=8,
        title_fontsize=8,
        frameon=False,
        loc="upper left",
    )
