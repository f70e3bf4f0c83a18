"""A picture of what the theory says about a graph."""

from pathlib import Path

from bilink._extras import needs
from bilink._files import replacing
from bilink.theory.describe import GraphTheory

_MOST = 30  # relations that are drawn
_BLUE, _GREY, _RED = "#2a6f97", "#adb5bd", "#c1121f"


def draw_theory(found: GraphTheory, path: Path) -> None:
    """Write the rounding ranks of the largest relations, and the sizes, to an image file."""
    with needs("matplotlib", extra="plot", purpose="the picture of a graph"):
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    shown = sorted(found.relations, key=lambda r: -r.facts)[:_MOST][::-1]
    height = 1.2 + 0.24 * max(len(shown), 6)
    figure, (ranks, bars) = pyplot.subplots(
        1, 2, figsize=(11, height), width_ratios=(3, 2), layout="constrained"
    )
    for y, relation in enumerate(shown):
        bounds = relation.rounding_rank
        ranks.plot([bounds.lower, bounds.upper], [y, y], color=_GREY, linewidth=4, zorder=1)
        ranks.plot(bounds.upper, y, "o", color=_BLUE, zorder=2)
        ranks.plot(bounds.lower, y, "|", color=_RED, markersize=9, zorder=2)
    labels = [f"{r.relation[-40:]}  ({r.facts:,})".replace("$", r"\$") for r in shown]
    ranks.set_yticks(range(len(shown)), labels, fontsize=7)
    ranks.set_xlim(left=0)
    ranks.set_xlabel("rounding rank: proved bounds")
    ranks.set_title(f"{found.name}: dimensions that tell facts from non-facts", fontsize=9)
    names = ("rescal", "complex", "hole")
    here, paper = found.sizes, found.paper_sizes
    for x, name in enumerate(names):
        bars.bar(
            x - 0.2, paper[name], 0.38, color=_GREY, label="paper's formula" if not x else None
        )
        bars.bar(x + 0.2, here[name], 0.38, color=_BLUE, label="here" if not x else None)
        for shift, value in ((-0.2, paper[name]), (0.2, here[name])):
            bars.text(x + shift, value, f"{value:,}", ha="center", va="bottom", fontsize=8)
    bars.axhline(found.entities, color=_RED, linewidth=1, linestyle="--")
    bars.text(2.4, found.entities, "entities", color=_RED, ha="right", va="bottom", fontsize=8)
    bars.set_yscale("log")
    bars.set_xticks(range(3), ("RESCAL", "ComplEx", "HolE"))
    bars.set_title("size that is enough for all facts", fontsize=9)
    bars.legend(fontsize=8)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=110, format=path.suffix.lstrip(".") or "png")
    pyplot.close(figure)
