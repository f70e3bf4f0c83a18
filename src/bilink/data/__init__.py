"""From files to integer arrays: graphs, their index of facts, negatives, catalogue, statistics."""

from bilink._extras import lazy

_NAMES = {
    "files": ("read_triples",),
    "graph": ("Graph", "SPLITS"),
    "index": ("FactIndex", "KnownAnswers", "known_answers"),
    "loading": ("graph_from_triples", "load_graph", "write_graph_files"),
    "negatives": ("sample_negatives",),
    "statistics": (
        "categories",
        "describe",
        "leakage",
        "related_relations",
        "relation_statistics",
        "symmetry",
    ),
    "vocabulary": ("Vocabulary",),
}
__all__, __getattr__ = lazy(__name__, _NAMES)
