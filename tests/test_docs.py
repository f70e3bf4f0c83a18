"""What is written is finished, its links lead somewhere, and its examples do what they show."""

import contextlib
import csv
import io
import re
import shlex
from pathlib import Path

import pytest

from bilink.cli import app

ROOT = Path(__file__).parent.parent
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")]
LESSONS = [*ROOT.glob("docs/tutorials/*.md"), *ROOT.glob("docs/howto/*.md")]
EXTRAS = {"exports.md": "pyoxigraph", "frames.md": "networkx"}  # what a page needs


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_have_no_placeholders_and_no_dead_links(page):
    text = page.read_text(encoding="utf-8")
    assert not re.findall(r"@[A-Z]+@", text)
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_every_page_is_in_the_menu_of_the_site():
    docs = ROOT / "docs"
    menu = "\n".join(re.findall(r"```\{toctree\}(.*?)```", (docs / "index.md").read_text(), re.S))
    for page in docs.rglob("*.md"):
        name = page.relative_to(docs).with_suffix("").as_posix()
        assert name == "index" or name in menu.split(), f"add {name} to docs/index.md"


def blocks(page):
    """Each block of a page with its language; what a block of code prints may follow it."""
    found = re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text("utf-8"), re.S | re.M)
    for i, (language, code) in enumerate(found):
        follows = found[i + 1] if i + 1 < len(found) else ("", "")
        yield language, code, follows[1] if follows[0] == "text" else None


def words(text):
    """Words up to an ellipsis; digits may differ in the last place."""
    return re.sub(r"[\d.]+", " ", text.partition("…")[0]).split()


def run_python(code, names, shown):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, names)
    if shown is not None:
        expected = words(shown)
        assert words(printed.getvalue())[: len(expected)] == expected


def run_commands(code):
    for line in code.replace("\\\n", " ").splitlines():
        name, *arguments = shlex.split(line, comments=True)
        assert name == "bilink", "commands that are not to be run are in blocks called bash"
        app(arguments, standalone_mode=False)


def test_the_first_example_of_the_readme_prints_what_it_shows(monkeypatch):
    monkeypatch.chdir(ROOT)
    page = blocks(ROOT / "README.md")
    code, shown = next(block[1:] for block in page if block[0] == "python")
    assert shown
    run_python(code, {}, shown)


def test_the_readme_has_at_most_180_lines():
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 180


def test_what_was_taken_out_of_the_company_is_found_as_the_readme_says():
    import bilink

    with (ROOT / "examples" / "company_hidden.csv").open(encoding="utf-8", newline="") as file:
        hidden = [tuple(row) for row in csv.reader(file)][1:]
    run = bilink.train(ROOT / "examples" / "company.csv", model="paths")
    answers = run.query_all([(h, r, None) for h, r, _ in hidden], new=True, k=1)
    first = [(a[0].head, a[0].relation, a[0].tail) for a in answers]
    assert len(hidden) == 63
    assert set(first) <= set(hidden)


@pytest.mark.filterwarnings("ignore::bilink.errors.DataWarning")  # what is left out of a file
@pytest.mark.parametrize("page", LESSONS, ids=lambda page: page.name)
def test_the_examples_of_tutorials_and_how_tos_run(page, tmp_path, monkeypatch, capsys):
    """Blocks called sh are commands to be run, those called bash are not."""
    if page.name in EXTRAS:
        pytest.importorskip(EXTRAS[page.name])
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    label = "http://www.w3.org/2000/01/rdf-schema#label"
    facts = "".join(f"<urn:e{i}> <urn:r> <urn:e{i + 1}> .\n" for i in range(9))
    (tmp_path / "dump.nt").write_text(f'{facts}<urn:e1> <{label}> "One" .\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    names = {}
    for language, code, shown in blocks(page):
        if language == "python":
            run_python(code, names, shown)
        elif language == "sh":
            run_commands(code)
    capsys.readouterr()


def test_the_notebooks_are_the_tutorials():
    from tools.make_notebooks import TUTORIALS, notebook

    for name in TUTORIALS:
        text = (ROOT / "examples" / f"{name}.ipynb").read_text(encoding="utf-8")
        assert text == notebook(name), "run: python tools/make_notebooks.py"
