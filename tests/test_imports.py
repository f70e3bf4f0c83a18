"""Rooms import from rooms before them only, heavy friends wait outside, the front door opens."""

import ast
import subprocess
import sys
from pathlib import Path

import bilink

ROOT = Path(bilink.__file__).parent
ROOMS = [  # a room may import from itself and from those before it
    "cellar",
    "data",
    "models",
    "ranking",
    "training",
    "evaluation",
    "ensembles",
    "queries",
    "theory",
    "runs",
    "distributed",
    "search",
    "study",
    "serving",
    "cli",
]
CELLAR = {"errors", "_jit", "_extras", "_files"}


def room(module):
    """The room of ``bilink.x.y``; the package itself lends its version to everyone."""
    part = module.split(".")[1] if "." in module else ""
    return "cellar" if part in CELLAR or not part else part


def imports(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_arrows_between_rooms_point_one_way():
    wrong = []
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if len(parts) == 1 and parts[0] in ("__init__", "__main__"):
            continue  # the front door opens to all rooms
        here = "cellar" if len(parts) == 1 else parts[0]
        for module in imports(path):
            if module.split(".")[0] == "bilink":
                there = room(module)
                if ROOMS.index(there) > ROOMS.index(here):
                    wrong.append(f"{'/'.join(parts)}.py imports {module}")
    assert not wrong


def test_heavy_friends_are_imported_in_one_room_each():
    homes = {
        "numba": {"_jit"},
        "pyoxigraph": {"data"},
        "typer": {"cli"},
        "rich": {"cli"},
    }
    homes |= {name: {"serving"} for name in ("fastapi", "starlette", "uvicorn", "pydantic")}
    homes |= {"ray": {"distributed"}, "optuna": {"search"}, "faiss": {"queries"}}
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
