"""The kernels as plain Python: what coverage sees, and what the compiler is held against."""

import os
import subprocess
import sys

import pytest

CODE = """
import numpy as np, sys
sys.path.insert(0, "tests")
from conftest import random_graph
import bilink
np.seterr(over="ignore")
graph = random_graph(n_entities=6, n_relations=2, size=20)
several = "transh", "transr", "transg", "ntn"
for model in ("rescal", "distmult", "hole", "complex", "transe", "transe-l1", *several):
    for loss in ("margin",) if model in several else ("margin", "sigmoid-margin", "logistic"):
        run = bilink.train(graph, model, 3, epochs=2, threads=1, loss=loss, constraint="ball",
                           negatives=2, corrupt="bernoulli")
        scores = run.model.score(graph.triples)
        print(model, loss, *np.round(scores.astype(float), 4).tolist(),
              round(run.evaluate().metrics()["mrr"], 6))
for model in ("complex", "transe"):
    for negatives in (0, 3):
        run = bilink.train(graph, model, 3, epochs=2, threads=1, loss="softmax", init_scale=0.1,
                           negatives=negatives, **{"dropout": {"entity": 0.2}})
        scores = run.model.score(graph.triples)
        print(model, negatives, *np.round(scores.astype(float), 4).tolist())
members = [bilink.train(graph, m, 3, epochs=2, threads=1, preset="margin")
           for m in ("rescal", "transe")]
both = bilink.combine(members, shrinkage=1.0, random_negatives=4, hard_negatives=2)
for run in (members[0], both):
    for relation in ("r0", "r1"):
        found = run.query(relation=relation, k=4)
        print("pairs", relation, *(round(answer.score, 4) for answer in found))
print("both", "stack", *np.round(both.scorer.weights["head"], 4).ravel().tolist())
"""


@pytest.mark.slow
def test_compiled_and_interpreted_kernels_agree():
    def run(**env):
        done = subprocess.run(
            [sys.executable, "-c", CODE],
            capture_output=True,
            text=True,
            env={**os.environ, **env},
        )
        assert done.returncode == 0, done.stderr
        return [line.split() for line in done.stdout.splitlines()]

    compiled, interpreted = run(), run(NUMBA_DISABLE_JIT="1")
    assert len(compiled) == 31
    for one, other in zip(compiled, interpreted, strict=True):
        assert one[:2] == other[:2]
        for a, b in zip(one[2:], other[2:], strict=True):
            assert float(a) == pytest.approx(float(b), abs=2e-3), one[:2]
