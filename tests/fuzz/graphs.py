"""The target graphs: files and folders of triples in every format, and archives of them."""

import hashlib
from pathlib import Path

from harness import SEEDS, Target, read_seeds

from bilink.data.download import extract
from bilink.data.loading import load_graph
from bilink.data.statistics import describe

TOKENS = (
    *(b"PAR1", b"head", b"relation", b"tail", b"label", b"subject", b"1", b"-1", b"+1"),
    *(b"@prefix e: <http://example.org/> .\n", b"@base <", b"<<", b">>", b" .\n", b"^^<", b"@en"),
    *(b'"""', b"[ e:a ", b"( e:a ", b"\\uD800", b"\\U00110000", b"<urn:bilink:entity:%FF%00>"),
)
SPLIT = hashlib.sha256((SEEDS / "graphs" / "tabs.tsv").read_bytes()).hexdigest()


def run(path: Path) -> None:
    """Load and describe a graph, or take one out of an archive."""
    if path.name.endswith(".tar.gz"):
        extract(path, {"train": SPLIT, "valid": SPLIT, "test": SPLIT})
        return
    graph = load_graph(path)
    assert graph.fingerprint
    if len(graph.entities) < 1000:
        describe(graph)


TARGET = Target(
    "graphs",
    read_seeds(SEEDS / "graphs"),
    run,
    TOKENS,
    environment={"BILINK_MAX_BYTES": "64MB"},
)
