"""``bilink study`` finds the folder of the studies, or says where to get it."""

import ast
import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import bilink

ROOT = Path(__file__).parents[2]
PACKAGE = Path(bilink.__file__).parent


def imports(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("path", sorted((ROOT / "study").glob("*.py")), ids=lambda path: path.stem)
def test_every_script_finds_what_it_imports(path):
    importlib.import_module(f"study.{path.stem}" if path.stem != "__init__" else "study")


def test_the_studies_use_bilink_from_outside():
    for path in (ROOT / "study").glob("*.py"):
        private = [name for name in imports(path) if name.startswith("bilink._")]
        assert not private, path
    clients = [
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if any(name.split(".")[0] == "study" for name in imports(path))
    ]
    assert clients == ["cli/study.py"]


def run_study(*arguments, folder, package):
    """``bilink study``, in ``folder``, with the package below ``package``."""
    path = os.pathsep.join([str(package), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-m", "bilink", "study", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )


@pytest.fixture
def installed(tmp_path):
    """The package where nothing lies beside it, as after an installation."""
    place = tmp_path / "lib" / "site-packages"
    place.mkdir(parents=True)
    (place / "bilink").symlink_to(PACKAGE, target_is_directory=True)
    return place


@pytest.mark.parametrize("name", ["wang2018", "records"])
def test_without_a_checkout_there_is_one_sentence(name, installed, tmp_path):
    done = run_study(name, folder=tmp_path, package=installed)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("error: the studies are part of bilink's source checkout")
    assert len(done.stderr.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lib"]


def test_the_checkout_is_found_beside_the_package_or_in_this_folder(installed, tmp_path):
    refused = ("records", "--data", "umls", "--tables")
    for places in (
        {"folder": tmp_path, "package": PACKAGE.parent},
        {"folder": ROOT, "package": installed},
    ):
        done = run_study(*refused, **places)
        assert done.returncode == 1
        assert "there are no settings for 'umls', but for fb15k" in done.stderr


def rewritten(study, data, name, folder):
    """A table that the command writes from the committed results, and the committed one."""
    results = folder / "results"
    shutil.copytree(ROOT / "study/results" / study, results)
    committed = (results / name).read_text(encoding="utf-8")
    (results / name).unlink()
    options = ("--data", data, "--tables", "--no-pictures", "--out", str(results))
    done = run_study(study, *options, folder=folder, package=PACKAGE.parent)
    assert done.returncode == 0, done.stderr
    return (results / name).read_text(encoding="utf-8"), committed


def test_records_writes_the_committed_leaderboard(tmp_path):
    written, committed = rewritten("records", "fb15k", "leaderboard.md", tmp_path)
    assert written == committed


@pytest.mark.realdata
def test_wang2018_writes_the_committed_tables(real_data, tmp_path):
    written, committed = rewritten("wang2018", "wn18", "wn18/tables.md", tmp_path)
    assert written == committed
