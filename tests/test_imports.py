"""Packages import from those before them only, heavy ones in one place; public names resolve."""

import ast
import importlib
import subprocess
import sys
import types
from pathlib import Path

import bilink

ROOT = Path(bilink.__file__).parent
PACKAGES = [  # a package may import from itself and from those before it
    "foundations",
    "data",
    "models",
    "paths",
    "training",
    "evaluation",
    "ensembles",
    "queries",
    "theory",
    "runs",
    "distributed",
    "search",
    "serving",
    "cli",
]


def package(module):
    """The package of ``bilink.x.y``; the top level lends its version to everyone."""
    part = module.split(".")[1] if "." in module else ""
    return "foundations" if part == "errors" or part[:1] in ("_", "") else part


def imports(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_arrows_between_packages_point_one_way():
    wrong = []
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if len(parts) == 1 and parts[0] in ("__init__", "__main__"):
            continue  # the front door opens to all packages
        here = "foundations" if len(parts) == 1 else parts[0]
        for module in imports(path):
            if module.split(".")[0] == "bilink":
                there = package(module)
                if PACKAGES.index(there) > PACKAGES.index(here):
                    wrong.append(f"{'/'.join(parts)}.py imports {module}")
    assert not wrong


def test_heavy_packages_are_imported_in_one_place_each():
    homes = {
        "numba": {"_jit"},
        "matplotlib": {"_plot", "search"},  # where Optuna draws
        "threadpoolctl": {"_threads", "distributed"},  # each worker has its share
        "pyoxigraph": {"data"},
        "typer": {"cli"},
        "rich": {"cli"},
    }
    homes |= {name: {"serving"} for name in ("fastapi", "starlette", "uvicorn", "pydantic")}
    homes |= {"ray": {"distributed"}, "optuna": {"search"}, "faiss": {"queries"}}
    homes |= {"torch": {"training"}}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        for module in imports(path):
            allowed = homes.get(module.split(".")[0])
            assert allowed is None or parts[0] in allowed, f"{parts} imports {module}"


def test_importing_bilink_loads_no_heavy_package():
    code = (
        "import sys, bilink; "
        "print(','.join(m for m in ('numba', 'polars', 'scipy', 'typer', 'matplotlib') "
        "if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_the_front_door_opens():
    for name in bilink.__all__:
        assert getattr(bilink, name) is not None
    assert set(bilink.__all__) <= set(dir(bilink))


def public_names():
    for name in PACKAGES[1:]:
        made = importlib.import_module(f"bilink.{name}")
        yield from ((made, public) for public in made.__all__)


def test_every_package_says_what_is_public_and_that_is_little():
    names = list(public_names())
    for made, public in names:
        assert getattr(made, public) is not None, (made, public)
        # A module of the same name would take its place once it is imported.
        assert not isinstance(getattr(made, public), types.ModuleType), (made, public)
    assert len(names) + len(bilink.__all__) <= 250


def test_foundations_import_nothing_of_ours_but_each_other():
    for path in ROOT.glob("*.py"):
        if path.stem not in ("__init__", "__main__"):
            for module in imports(path):
                if module.split(".")[0] == "bilink":
                    assert package(module) == "foundations", f"{path.name} imports {module}"
