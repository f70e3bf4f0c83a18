"""The snippets of docs/theory.md give what the page says."""

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "theory.md"


def test_the_snippets_of_the_page_run():
    failed, tried = doctest.testfile(str(PAGE), module_relative=False)
    assert tried > 30
    assert failed == 0
