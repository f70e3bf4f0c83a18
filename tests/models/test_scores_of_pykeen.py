"""An outside oracle: PyKEEN's interaction functions on the same parameters.

It runs where PyKEEN is installed, as it is by ``make peers`` and in CI.
"""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from bilink import Model
from bilink.models.ntn import SLICES

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.slow
@pytest.mark.skipif(not find_spec("pykeen"), reason="PyKEEN is missing: pip install --group peers")
@pytest.mark.parametrize("name", ["transh", "transr", "ntn"])
def test_scores_agree_with_pykeen(name, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from common import ask_peer

    random = np.random.default_rng(0)
    model = Model.empty(name, 12, 40, 5)
    for array in (model.entities, model.relations):
        array[:] = random.normal(0, 0.5, array.shape)
    triples = np.stack([random.integers(0, n, 200) for n in (40, 5, 40)], axis=1)
    heads, relations, tails = triples.T
    arrays = {
        "heads": model.entities[heads],
        "relations": model.relations[relations],
        "tails": model.entities[tails],
    }
    theirs = ask_peer("pykeen_scores.py", arrays, name=name, slices=SLICES)["scores"]
    np.testing.assert_allclose(model.score(triples), theirs, rtol=1e-5, atol=1e-5)
