"""Say what wheel and sdist hold, and complain about what is missing or does not belong there."""

import re
import sys
import tarfile
import zipfile
from pathlib import Path

NEEDED = {
    ".whl": (
        "bilink/py.typed",
        "bilink/cli/demo.py",
        "bilink/data/catalogue.toml",
        "bilink/data/atlas/README.md",
        "bilink/serving/page/index.html",
        "/licenses/LICENSE",
        "/entry_points.txt",
    ),
    ".gz": (
        "/pyproject.toml",
        "/README.md",
        "/LICENSE",
        "/src/bilink/__init__.py",
        "/tests/here.py",
    ),
}
STRANGE = re.compile(r"__pycache__|\.pyc$|node_modules|\.venv|\.ipynb_checkpoints")
LARGEST = 20e6  # bytes


def names(path: Path) -> list[str]:
    """The files in an archive."""
    if path.suffix == ".whl":
        return zipfile.ZipFile(path).namelist()
    with tarfile.open(path) as archive:
        return archive.getnames()


def problems(path: Path) -> list[str]:
    """What is wrong with an archive."""
    held = names(path)
    missing = [part for part in NEEDED[path.suffix] if not any(part in name for name in held)]
    found = [f"{path.name} lacks {part}" for part in missing]
    found += [f"{path.name} holds {name}" for name in held if STRANGE.search(name)]
    if path.stat().st_size > LARGEST:
        found.append(f"{path.name} has {path.stat().st_size / 1e6:.1f} MB")
    if path.suffix == ".whl":
        found += [
            f"{path.name} holds {name}"
            for name in held
            if not re.match(r"bilink(-[^/]*\.dist-info)?/", name)
        ]
    return found


def main() -> int:
    """Check the archives that are named."""
    wrong = []
    for path in map(Path, sys.argv[1:]):
        print(f"{path.name}: {len(names(path))} files, {path.stat().st_size / 1e6:.1f} MB")
        wrong += problems(path)
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
