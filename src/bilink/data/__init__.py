"""From files to integer arrays: graphs, their index of facts, negatives, catalogue, statistics."""

from bilink._extras import lazy

_HOMES = {
    "SPLITS": "graph",
    "FactIndex": "index",
    "Graph": "graph",
    "KnownAnswers": "index",
    "Vocabulary": "vocabulary",
    "categories": "statistics",
    "describe": "statistics",
    "graph_from_triples": "loading",
    "known_answers": "index",
    "leakage": "statistics",
    "load_graph": "loading",
    "read_triples": "files",
    "related_relations": "statistics",
    "relation_statistics": "statistics",
    "sample_negatives": "negatives",
    "symmetry": "statistics",
    "write_graph_files": "loading",
}
__all__ = list(_HOMES)
__getattr__ = lazy(__name__, _HOMES)
