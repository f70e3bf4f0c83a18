"""The one gate to matplotlib."""

from pathlib import Path
from typing import Any

from bilink._extras import needs
from bilink._files import replacing


def new_figure(purpose: str, **options: Any) -> Any:
    """An empty matplotlib figure, or a sentence that says what to install for ``purpose``."""
    check_matplotlib(purpose)
    from matplotlib.figure import Figure

    return Figure(layout="constrained", **options)


def check_matplotlib(purpose: str) -> None:
    """Complain now, rather than after the work, where there is no matplotlib."""
    with needs("matplotlib", extra="plot", purpose=purpose):
        import matplotlib  # noqa: F401


def save_figure(figure: Any, path: Path, dpi: int = 120) -> None:
    """Write a figure in the format that the file's name asks for, whole or not at all."""
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=dpi, format=path.suffix.lstrip(".") or "png")
