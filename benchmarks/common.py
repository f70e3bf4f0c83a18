"""What the benchmarks share: asking a peer, timing, printing."""

import json
import os
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


def ask_peer(script, arrays, **question):
    """Run ``peers/script`` in a process of its own; arrays and answer travel through files."""
    if not find_spec("pykeen"):
        raise SystemExit("PyKEEN is not installed: make peers")
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "arrays.npz", **arrays)
        done = subprocess.run(
            [sys.executable, HERE / "peers" / script, folder],
            input=json.dumps(question),
            capture_output=True,
            text=True,
            env={**os.environ, "PYKEEN_HOME": folder},
        )
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        return json.loads(done.stdout.splitlines()[-1])


def best_time(function, repeat=3):
    """The shortest of several runs, in seconds."""
    times = []
    for _ in range(repeat):
        started = time.perf_counter()
        function()
        times.append(time.perf_counter() - started)
    return min(times)


def show(rows):
    """Print dictionaries as a Markdown table."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(_cell(row.get(column, "")) for column in columns) + " |")
    print(flush=True)


def finish(name, tables):
    """Print the tables once more, and keep them in results/."""
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    (results / f"{name}.json").write_text(json.dumps(tables, indent=1) + "\n")
    for title, rows in tables.items():
        print(f"\n{title}\n")
        show(rows)


def _cell(value):
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"
    return str(value)
