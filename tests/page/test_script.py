"""The script of the page: unit tests, lint and types, where node and its tools are."""

import ast
import json
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "src" / "bilink" / "serving" / "page"
TOOLS = ROOT / "tools" / "page"
node = shutil.which("node")
needs_node = pytest.mark.skipif(node is None, reason="node is not installed")
needs_tools = pytest.mark.skipif(
    not (TOOLS / "node_modules").is_dir(), reason="`make page` installs what checks the script"
)


def run(*command, cwd=ROOT):
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return done.stdout


@needs_node
def test_units():
    run(node, "--test", *map(str, sorted(Path(__file__).parent.glob("*.test.js"))))


@needs_node
def test_python_reads_the_names_that_the_page_writes():
    names = [
        "it's",
        'a "b"',
        "\\",
        "a\nb\x1b",
        "שלום",
        "\u202egnp",
        "\U000e0041",
        "'''\"\"\"",
        "{x}",
    ]
    script = (
        f"import {{ pythonString }} from {json.dumps((PAGE / 'format.js').as_uri())};"
        f"console.log(JSON.stringify({json.dumps(names)}.map(pythonString)))"
    )
    written = json.loads(run(node, "--input-type=module", "-e", script))
    assert [ast.literal_eval(text) for text in written] == names


@needs_node
@needs_tools
@pytest.mark.parametrize("check", ["lint", "types"])
def test_checks(check):
    run("npm", "run", "--silent", check, cwd=TOOLS)


def test_no_text_becomes_markup():
    for file in PAGE.glob("*.js"):
        text = file.read_text(encoding="utf-8")
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert word not in text, f"{file.name}: {word}"
