"""An outside oracle: PyKEEN's evaluator on the same embeddings.

It runs where PyKEEN is installed, as it is by ``make peers`` and in CI.
"""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from bilink import Model, load_graph, rank_entities

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.slow
@pytest.mark.skipif(not find_spec("pykeen"), reason="PyKEEN is missing: pip install --group peers")
@pytest.mark.parametrize("name", ["transe", "distmult", "complex"])
def test_mrr_agrees_with_pykeen(name, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from common import ask_peer

    graph = load_graph("atlas")
    model = Model.empty(name, 16, len(graph.entities), len(graph.relations))
    random = np.random.default_rng(0)
    for array in (model.entities, model.relations):
        # Few distinct numbers, so that there are ties to disagree about.
        array[:] = random.integers(-2, 3, array.shape)
    arrays = {split: graph.split(split) for split in ("train", "valid", "test")}
    arrays |= {"entities": model.entities, "relations": model.relations}
    arrays["sizes"] = [len(graph.entities), len(graph.relations)]
    question = {"name": name, "triples": len(graph.test), "batch_size": 64}
    peer = ask_peer("pykeen_ranking.py", arrays, **question)
    ours = rank_entities(model.scorer, graph).metrics()["mrr"]
    assert ours == pytest.approx(peer["mrr"], abs=1e-4)
