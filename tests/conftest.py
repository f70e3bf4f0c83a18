"""What the tests share."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from bilink.data.graph import Graph
from bilink.data.vocabulary import Vocabulary

# Compiling a kernel in the first example is no reason to call a test slow.
settings.register_profile(
    "bilink",
    deadline=None,
    derandomize=True,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("bilink")


def random_graph(seed=0, n_entities=12, n_relations=3, size=60):
    """A graph without meaning: distinct random triples, cut into three splits."""
    random = np.random.default_rng(seed)
    columns = [random.integers(0, high, size) for high in (n_entities, n_relations, n_entities)]
    triples = random.permutation(np.unique(np.stack(columns, axis=1), axis=0))
    cuts = np.split(triples, [int(0.7 * len(triples)), int(0.85 * len(triples))])
    return Graph(
        "random",
        Vocabulary("entity", tuple(f"e{i}" for i in range(n_entities))),
        Vocabulary("relation", tuple(f"r{i}" for i in range(n_relations))),
        *cuts,
    )


@pytest.fixture
def graph():
    return random_graph()


@pytest.fixture(scope="session")
def real_data():
    """The folder of benchmark graphs, or a skip with the reason."""
    folder = os.environ.get("BILINK_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("BILINK_DATA is not set: the benchmark graphs are not here")
    return Path(folder)


@pytest.fixture(scope="session")
def demo(tmp_path_factory):
    """What `bilink demo` printed, after one epoch of each model, and the folder of its runs."""
    out = tmp_path_factory.mktemp("demo") / "demo"
    command = [sys.executable, "-m", "bilink", "demo", "--epochs", "1", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    return done.stdout, out


@pytest.fixture
def disk(tmp_path):
    """A small disk, and a function that mounts it again with other options."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(options):
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder]
        if subprocess.run(command, capture_output=True).returncode:
            pytest.skip("mounting a small disk is not allowed here")

    mount("size=100k")
    try:
        yield folder, mount
    finally:
        subprocess.run(["umount", folder], check=True)
