"""The pages on architecture and models name files and functions that exist."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
STEPS = sorted(set(re.findall(r"`([\w/]+\.py):([\w.]+)`", PAGE)))


@pytest.mark.parametrize(("path", "name"), STEPS, ids=":".join)
def test_a_step_of_a_walk_exists(path, name):
    if path.startswith("serving/"):
        pytest.importorskip("fastapi", reason="the extra serve is not installed")
    found = importlib.import_module("bilink." + path.removesuffix(".py").replace("/", "."))
    for part in name.split("."):
        found = getattr(found, part)


def test_there_are_six_walks():
    walks = PAGE.split("## Six walks")[1].split("\n## ")[0]
    assert walks.count("\n### ") == 6
    assert len(STEPS) > 35


def test_every_package_is_on_the_page():
    for path in (ROOT / "src" / "bilink").iterdir():
        if (path / "__init__.py").exists():
            assert f"  {path.name}/" in PAGE


def test_the_page_on_models_shows_the_file_as_it_is():
    page = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    source = (ROOT / "src" / "bilink" / "models" / "distmult.py").read_text(encoding="utf-8")
    assert f"```python\n{source}```" in page


def test_every_model_is_in_the_table_and_in_the_help():
    from bilink.models.registry import FAMILIES

    page = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    text = (ROOT / "src" / "bilink" / "cli" / "train.py").read_text(encoding="utf-8")
    for name in FAMILIES:
        assert f"| `{name}` |" in page
        assert name in text
