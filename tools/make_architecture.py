"""Draw which package imports which, from the code: docs/architecture.png."""

import ast
from pathlib import Path

from bilink._plot import new_figure, save_figure

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src" / "bilink"
# Column and layer of each package: what is below may be imported by what is above.
PLACES = {
    "foundations": (1, 0),
    "data": (1, 1),
    "distributed": (0, 2),
    "models": (1, 2),
    "training": (0, 3),
    "evaluation": (1, 3),
    "paths": (2, 3),
    "theory": (1, 4),
    "ensembles": (2, 4),
    "queries": (2, 5),
    "runs": (1, 6),
    "search": (1, 7),
    "serving": (2, 8),
    "cli": (1, 8),
}
ABOUT = {
    "foundations": "errors, files, threads, kernels",
    "data": "files → integer arrays",
    "models": "what a score is",
    "paths": "rules, counted and walked",
    "training": "how parameters move",
    "evaluation": "how good a scorer is",
    "ensembles": "scorers of scorers",
    "queries": "questions to a scorer",
    "theory": "statements that run",
    "runs": "a run and its folder",
    "distributed": "where work runs",
    "search": "hyper-parameters",
    "serving": "HTTP and the page",
    "cli": "one command per file",
}


def package_of(module: str) -> str:
    part = module.split(".")[1] if "." in module else ""
    return "foundations" if part == "errors" or part[:1] in ("_", "") else part


def arrows() -> dict[tuple[str, str], int]:
    """How many import statements lead from one package to another."""
    found: dict[tuple[str, str], int] = {}
    for path in SOURCES.rglob("*.py"):
        parts = path.relative_to(SOURCES).parts
        if parts in (("__init__.py",), ("__main__.py",)):
            continue
        here = "foundations" if len(parts) == 1 else parts[0]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bilink"):
                there = package_of(node.module or "")
                if there != here:
                    found[here, there] = found.get((here, there), 0) + 1
    return found


def essential(pairs: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """The arrows that no chain of others stands for."""

    def reaches(here: str, there: str, without: tuple[str, str]) -> bool:
        steps = [b for a, b in pairs if a == here and (a, b) != without]
        return there in steps or any(reaches(step, there, without) for step in steps)

    return {pair for pair in pairs if not reaches(*pair, without=pair)}


def draw(path: Path) -> None:
    places = {name: (2.4 * (x - 1), 1.3 * y) for name, (x, y) in PLACES.items()}
    figure = new_figure("the picture of the architecture", figsize=(7, 8.6))
    axes = figure.subplots()
    axes.set_axis_off()
    for here, there in sorted(essential(set(arrows()))):
        (x0, y0), (x1, y1) = places[here], places[there]
        level = y0 == y1
        arrow = {"arrowstyle": "-|>", "color": "#2a6f97", "linewidth": 1.4, "shrinkB": 2}
        axes.annotate(
            "",
            xy=(x1 + 0.9 * (x0 > x1) - 0.9 * (x0 < x1), y1) if level else (x1, y1 + 0.36),
            xytext=(x0 - 0.9 * (x0 > x1) + 0.9 * (x0 < x1), y0) if level else (x0, y0 - 0.36),
            arrowprops=arrow,
        )
    for name, (x, y) in places.items():
        top = [path for path in SOURCES.glob("*.py") if not path.name.startswith("__")]
        files = top if name == "foundations" else list((SOURCES / name).rglob("*.py"))
        lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)
        axes.text(
            x,
            y,
            f"{name}\n{ABOUT[name]}\n{len(files)} files, {lines:,} lines",
            ha="center",
            va="center",
            fontsize=9,
            linespacing=1.4,
            bbox={"boxstyle": "round,pad=0.4", "facecolor": "#f1f5f9", "edgecolor": "#64748b"},
            zorder=3,
        )
    axes.set_xlim(-3.5, 3.5)
    axes.set_ylim(-0.6, 1.3 * 9 - 0.7)
    save_figure(figure, path, dpi=110)


if __name__ == "__main__":
    draw(ROOT / "docs" / "architecture.png")
