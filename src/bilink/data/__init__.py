"""From files to integer arrays: graphs, their index of facts, negatives, catalogue, statistics."""

from bilink.data.files import read_triples
from bilink.data.graph import SPLITS, Graph
from bilink.data.index import FactIndex, KnownAnswers, known_answers
from bilink.data.loading import graph_from_triples, load_graph, write_graph_files
from bilink.data.negatives import sample_negatives
from bilink.data.statistics import (
    categories,
    describe,
    leakage,
    related_relations,
    relation_statistics,
    symmetry,
)
from bilink.data.vocabulary import Vocabulary

__all__ = [
    "SPLITS",
    "FactIndex",
    "Graph",
    "KnownAnswers",
    "Vocabulary",
    "categories",
    "describe",
    "graph_from_triples",
    "known_answers",
    "leakage",
    "load_graph",
    "read_triples",
    "related_relations",
    "relation_statistics",
    "sample_negatives",
    "symmetry",
    "write_graph_files",
]
