"""A batch of 1,000 questions, two of them with wrong names, by a client made from the schema.

    python -m venv client && client/bin/pip install openapi-python-client
    client/bin/python tools/try_generated_client.py http://127.0.0.1:8000

The server must serve a run of ``atlas``.
"""

import importlib
import itertools
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RELATIONS = ("official language", "borders", "in continent", "uses currency", "spans time zone")
WRONG = {123: "Chle", 876: "Atlantis the Lost"}  # by their place in the batch


def generate(address, folder):
    """Make the client, and import it."""
    command = [sys.executable, "-m", "openapi_python_client", "generate"]
    command += ["--url", f"{address}/openapi.json", "--output-path", str(folder / "client")]
    command += ["--meta", "none"]
    subprocess.run(command, check=True, cwd=folder)
    sys.path.insert(0, str(folder))
    return importlib.import_module("client")


def main():
    address = sys.argv[1].rstrip("/")
    with tempfile.TemporaryDirectory() as name:
        made = generate(address, Path(name))
        models = importlib.import_module("client.models")
        search = importlib.import_module("client.api.graph.search").sync
        ask = importlib.import_module("client.api.questions.query_batch").sync
        client = made.Client(base_url=address, timeout=130)
        letters = "abcdefghijklmnoprstuvwz"
        names = {
            row.name
            for letter in letters
            for row in search(client=client, text=letter, k=100).matches
        }
        pairs = itertools.islice(itertools.product(sorted(names), RELATIONS), 1000)
        questions = [models.Question(head=head, relation=relation) for head, relation in pairs]
        for i, wrong in WRONG.items():
            questions[i].head = wrong
        started = time.perf_counter()
        found = ask(client=client, body=models.Questions(questions=questions))
        seconds = time.perf_counter() - started
    failed = {i: row.error for i, row in enumerate(found.results) if row.error is not None}
    answered = [row.answers for row in found.results if row.answers is not None]
    for i, error in failed.items():
        close = ", ".join(row.label for row in error.suggestions)
        print(f"question {i}: {error.code}: {error.error} (suggestions: {close or 'none'})")
    print(f"{len(questions)} questions in {seconds:.1f} s: {len(answered)} answers, ", end="")
    print(f"{len(failed)} errors; {sum(len(row.answers) for row in answered):,} rows")
    assert len(answered) == 998
    assert failed.keys() == WRONG.keys()


if __name__ == "__main__":
    main()
