"""The tables of the study as pictures: published figures and ours on common scales."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from study.tables import CATEGORIES, SIDES, Piece, pieces
from study.wang2018 import NAMES, Study, published

_PUBLISHED = {"marker": "s", "color": "#6c757d", "markersize": 8, "markerfacecolor": "none"}
_COLOURS = {"improved": "#1f6f8b", "paper": "#d1603d", "searched": "#5b8c5a"}  # by recipe
_MARKERS = {None: "o", "stack": "o", "paper": "v", "best": "x", "average": "+", "platt": "1"}

Value = Callable[[Mapping[str, Any]], float | None]  # results of a piece → one number


@dataclass(frozen=True)
class _Panel:
    """One scale: our value of a piece, and the published values by name."""

    title: str
    ours: Value
    published: Mapping[str, float]
    log: bool = False


def draw(studies: Sequence[Study], folder: Path) -> list[Path]:
    """Write the pictures of one graph into ``folder``; returns their paths."""
    drawn = []
    for name, figure in figures(studies).items():
        drawn.append(folder / f"{name}.png")
        figure.savefig(drawn[-1], dpi=120)
    return drawn


def figures(studies: Sequence[Study]) -> dict[str, Any]:
    """The Matplotlib figures of one graph by name; none if no piece is done."""
    found = list(pieces(studies))
    panels = {
        "ranking": _ranking(studies),
        "categories": _categories(studies),
        "classification": _classification(studies),
    }
    return {name: _figure(found, some) for name, some in panels.items()} if found else {}


def _ranking(studies: Sequence[Study]) -> list[_Panel]:
    theirs = published()["ranking"].get(studies[0].data, {})
    columns = (
        ("Hits@10 (%)", "hits@10", 100),
        ("MRR (%)", "mrr", 100),
        ("MR, less is better", "mr", 1),
    )
    return [
        _Panel(
            title,
            lambda found, key=key, scale=scale: scale * found["test"]["both"][key],  # type: ignore[misc]
            {name: values[i] for name, values in theirs.items()},
            log=key == "mr",
        )
        for i, (title, key, scale) in enumerate(columns)
    ]


def _categories(studies: Sequence[Study]) -> list[_Panel]:
    theirs = published()["categories"].get(studies[0].data, {})

    def hits(side: str, category: str) -> Value:
        def value(found: Mapping[str, Any]) -> float | None:
            part = found["test"]["categories"].get(category)
            return 100 * part[side]["hits@10"] if part else None

        return value

    return [
        _Panel(
            f"{side}, {category}",
            hits(side, category),
            {name: sides[side][i] for name, sides in theirs.items()},
        )
        for side in SIDES
        for i, category in enumerate(CATEGORIES)
    ]


def _classification(studies: Sequence[Study]) -> list[_Panel]:
    theirs = published()["classification"].get(studies[0].data, {})
    kinds = {"classification_any_entity": "any entity", "classification": "entity in position"}
    return [
        _Panel(
            f"accuracy (%), false triples with {words}",
            lambda found, key=key: 100 * found[key]["accuracy"],  # type: ignore[misc]
            theirs,
        )
        for key, words in kinds.items()
    ]


def _figure(found: Sequence[Piece], panels: Sequence[_Panel]) -> Any:
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(piece.name for piece in found))
    columns = min(4, len(panels))
    lines = -(-len(panels) // columns)
    height = 1.3 + lines * (0.5 + 0.3 * len(names))
    figure = Figure(figsize=(2 + 2.9 * columns, height), layout="constrained")
    grid = figure.subplots(lines, columns, sharey=True, squeeze=False)
    for axis, panel in zip(grid.flat, panels, strict=True):
        _draw_panel(axis, panel, names, found)
    figure.legend(
        *_legend(grid.flat), loc="outside upper center", ncols=4, frameon=False, fontsize=8
    )
    return figure


def _draw_panel(axis: Any, panel: _Panel, names: Sequence[str], found: Sequence[Piece]) -> None:
    heights = {name: len(names) - 1 - i for i, name in enumerate(names)}
    for name, y in heights.items():
        if name in panel.published:
            axis.plot(panel.published[name], y, **_PUBLISHED, linestyle="", label="published")
    for piece in found:
        value = panel.ours(piece.found)
        if value is not None:
            axis.plot(value, heights[piece.name], **_style(piece), label=_label(piece))
    axis.set_yticks(range(len(names)), [NAMES.get(name, name) for name in reversed(names)])
    axis.set_ylim(-0.6, len(names) - 0.4)
    axis.set_title(panel.title, fontsize=9)
    if panel.log:
        axis.set_xscale("log")
        for ticks in (axis.xaxis.set_major_formatter, axis.xaxis.set_minor_formatter):
            ticks("{x:,.0f}")
    axis.tick_params(labelsize=8, left=False)
    axis.tick_params(which="minor", labelsize=6)
    axis.grid(axis="both", color="#e5e5e5", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.spines[["top", "right", "left"]].set_visible(False)


def _style(piece: Piece) -> dict[str, Any]:
    solid = piece.method in (None, "stack")
    colour = _COLOURS[piece.recipe]
    return {
        "marker": _MARKERS[piece.method],
        "color": colour,
        "markerfacecolor": colour if solid else "none",
        "markersize": 7 if solid else 6,
        "linestyle": "",
    }


def _label(piece: Piece) -> str:
    method = {None: "one model or stack", "stack": "one model or stack", "paper": "paper's fit"}
    return f"{piece.recipe}: {method.get(piece.method, piece.method)}"


def _legend(axes: Any) -> tuple[list[Any], list[str]]:
    """Each label once."""
    seen: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            seen.setdefault(label, handle)
    return list(seen.values()), list(seen)
