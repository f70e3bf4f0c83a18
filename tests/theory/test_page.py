"""The snippets of docs/theory.md give what the page says; the index names what exists."""

import ast
import doctest
import re
from importlib import import_module
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "theory.md"


def test_the_snippets_of_the_page_run():
    failed, tried = doctest.testfile(str(PAGE), module_relative=False)
    assert tried > 30
    assert failed == 0


def test_the_functions_and_tests_of_the_theorems_exist():
    trees = [
        ast.parse(path.read_text("utf-8")) for path in PAGE.parents[1].glob("tests/theory/*.py")
    ]
    tests = {node.name for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)}
    index = (PAGE.parent / "reference" / "theorems.md").read_text("utf-8")
    rows = [line.strip("|").split("|") for line in index.splitlines() if "`test_" in line]
    assert len(rows) > 15
    for _, functions, names in rows:
        for function in re.findall(r"`([\w.]+)`", functions):
            module, name = function.rsplit(".", 1)
            assert hasattr(import_module(f"bilink.theory.{module}"), name), function
        for name in re.findall(r"`(\w+)`", names):
            assert name in tests
