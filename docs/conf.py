"""The documentation site: `make docs`.

The source folder is the whole repository and not `docs/`, so that a link such as
`../benchmarks/README.md` leads somewhere both on the site and in the repository.
"""

import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "src"))

import bilink  # noqa: E402

project = "bilink"
author = "the authors of bilink"
copyright = "the authors of bilink; Apache-2.0"
version = release = bilink.__version__

root_doc = "docs/index"
include_patterns = [
    "docs/**.md",
    "benchmarks/README.md",
    "study/results/**.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
]
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
smartquotes = False  # `--set` is no dash
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
maximum_signature_line_length = 70
autodoc_member_order = "bysource"
napoleon_google_docstring = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"

html_theme = "furo"
html_title = f"bilink {version}"
html_static_path = ["_static"]
html_css_files = ["bilink.css"]
html_show_sphinx = False
templates_path = []

# The address of the repository, for links to its folders: none is known, so it is asked for.
REPOSITORY = os.environ.get("BILINK_REPOSITORY", "").rstrip("/")


COMMANDS = "The help of every command stands here when the site is built, by `make docs`."


def commands() -> str:
    """The help of every command, as Markdown."""
    import typer
    from typer.cli import get_docs_for_click

    from bilink.cli import app

    group = typer.main.get_command(app)
    text = get_docs_for_click(obj=group, ctx=typer.Context(group, info_name="bilink"))
    text = re.sub(r"\*\*Commands\*\*:\n\n(\* .*\n)+\n", "", text)  # one line each, cut off
    text = re.sub(r"^(#+) `(.*)`$", r"\1 \2", text, flags=re.MULTILINE)
    return text[text.index("\n## ") :]


def adapt(app: object, name: str, source: list[str]) -> None:
    """Put in what is made when the site is built, and mend links that only a repository has."""
    text = source[0].replace(COMMANDS, commands())
    folder = (ROOT / name).parent

    def link(found: re.Match[str]) -> str:
        title, target = found.groups()
        place = folder / target
        if target.startswith(("http", "#")) or not (place.is_dir() or place.name == "LICENSE"):
            return found[0]
        path = place.resolve().relative_to(ROOT).as_posix()
        return f"[{title}]({REPOSITORY}/tree/main/{path})" if REPOSITORY else f"{title}, `{path}`"

    if name.count("/") > 2:  # tables of single studies: other pages link to them, the menu does not
        text = f"---\norphan: true\n---\n{text}"
    source[0] = re.sub(r"(?<!!)\[([^\]\n]+)\]\(([^)#\s]+)\)", link, text)


def add_entrance(app: "Sphinx", error: Exception | None) -> None:  # type: ignore[name-defined]  # noqa: F821
    """Lead whoever opens the folder of the site to its first page."""
    if error is None and app.builder.format == "html":
        entrance = '<!doctype html><meta http-equiv="refresh" content="0; url=docs/index.html">\n'
        (Path(app.outdir) / "index.html").write_text(entrance, encoding="utf-8")


def setup(app: "Sphinx") -> None:  # type: ignore[name-defined]  # noqa: F821
    """Called by Sphinx."""
    app.connect("source-read", adapt)
    app.connect("build-finished", add_entrance)
