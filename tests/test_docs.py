"""What is written is finished, and its links lead somewhere."""

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("benchmarks/*.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_have_no_placeholders_and_no_dead_links(page):
    text = page.read_text(encoding="utf-8")
    assert not re.findall(r"@[A-Z]+@", text)
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_the_first_example_of_the_readme_prints_what_it_shows():
    """But for digits, which may differ in the last place."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    code, shown = re.search(
        r"```python\n(.*?)```\n\n```text\n(.*?)…\n```", text, re.DOTALL
    ).groups()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})

    def words(lines):
        return [re.sub(r"[\d.]+|\s+", " ", line).split() for line in lines.splitlines()]

    assert words(printed.getvalue())[: len(words(shown))] == words(shown)
