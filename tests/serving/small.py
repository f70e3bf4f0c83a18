"""A run for the tests of the server: random vectors, and names that mean harm."""

import numpy as np

from bilink.data.graph import Graph
from bilink.data.vocabulary import Vocabulary
from bilink.models.model import Model
from bilink.models.registry import family
from bilink.runs.run import Run
from conftest import random_graph

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "../../../etc/passwd",
    "a\nb\x1b[31m",
    "Ünïcödé Ŝtate",
    "'; DROP TABLE facts; --",
    "lone \ud800 surrogate",
)


class SmallRun(Run):
    """A model without training."""

    path = None

    def __init__(self, graph, seed=0, dim=8):
        self.graph = graph
        random = np.random.default_rng(seed)
        self.model = Model.empty("distmult", dim, len(graph.entities), len(graph.relations))
        self.model.entities[:] = random.normal(size=self.model.entities.shape)
        self.model.relations[:] = random.normal(size=self.model.relations.shape)
        assert self.model.family == family("distmult")

    @property
    def scorer(self):
        return self.model.scorer

    @property
    def models(self):
        return {"distmult": self.model}


def hostile_run(hostile=HOSTILE):
    """Some entities have names that a careless page or server would trip over."""
    plain = random_graph(n_entities=12, n_relations=3)
    names = (*hostile, *(f"e{i}" for i in range(len(hostile), 12)))
    labels = {"e6": "Twin", "e7": "Twin", "e8": "Eight <b>"}
    entities = Vocabulary("entity", names, labels)
    relations = Vocabulary("relation", ("r0", "<svg onload=alert(2)>", "r2"))
    return SmallRun(Graph("random <i>", entities, relations, plain.train, plain.valid, plain.test))


def large_run(n=100_000):
    """As many entities as a page must cope with."""
    random = np.random.default_rng(0)
    triples = random.integers(0, n, (3 * n, 3))
    triples[:, 1] %= 20
    entities = Vocabulary("entity", tuple(f"thing {i:06d} of kind {i % 97}" for i in range(n)))
    relations = Vocabulary("relation", tuple(f"relation {i}" for i in range(20)))
    return SmallRun(Graph("large", entities, relations, triples, triples[:0], triples[:0]), dim=32)
