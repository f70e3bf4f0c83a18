"""Graphs from paths, catalogue names and memory; and back to files."""

from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from bilink._files import filling, replacing
from bilink._text import shortened
from bilink.data import catalogue
from bilink.data.graph import FRACTIONS, SPLITS, Graph, Split
from bilink.errors import DataError

_EDGE_ATTRIBUTES = ("relation", "label", "type")  # of NetworkX graphs, that may name a relation


def load_graph(
    source: str | Path,
    *,
    columns: str | None = None,
    separator: str | None = None,
    header: bool | None = None,
    seed: int = 0,
    fractions: tuple[float, float, float] = FRACTIONS,
    name: str | None = None,
) -> Graph:
    """Load a folder of train, valid and test files, a single file, or a graph of the catalogue.

    A path that exists goes before a name of the catalogue.  A single file is split by ``seed`` and
    ``fractions``; ``columns``, ``separator`` and ``header`` are as in ``read_triples``.

    Examples
    --------
    >>> import bilink
    >>> bilink.load_graph("atlas")
    Graph('atlas', 2,405 entities, 14 relations, 9,066 training, ...)
    """
    if not isinstance(source, str | PathLike):
        raise DataError(
            f"expected a path or a name, not {shortened(str(source))}; triples in memory are read "
            "by bilink.graph_from_triples"
        )
    path = Path(source)
    if not path.exists():
        if isinstance(source, Path) or len(path.parts) != 1 or path.suffix:
            raise DataError(f"{path}: there is no such file or folder")
        path = catalogue.resolve(str(source))
        name = name or catalogue.entry(str(source)).name
    if not path.is_dir() and not path.is_file():
        raise DataError(f"{path}: neither a file nor a folder; write the triples to a file first")
    # Readers are imported when a graph is read: polars takes longer to load than all of data.
    from bilink.data.building import build_graph
    from bilink.data.files import read_table
    from bilink.data.folders import read_folder

    options: dict[str, Any] = {"columns": columns, "separator": separator, "header": header}
    if path.is_dir():
        name = name or path.resolve().name
        tables, entity_labels, relation_labels = read_folder(path, **options)
        return build_graph(
            tables, name=name, entity_labels=entity_labels, relation_labels=relation_labels
        )
    name = name or path.name.removesuffix(".gz").rpartition(".")[0] or path.name
    table = read_table(path, **options)
    return build_graph([table], name=name, seed=seed, fractions=fractions)


def graph_or_source(data: Any) -> Graph | str | Path:
    """What to train on: a graph or the place of one as it is, and a graph of triples in memory.

    In memory means a data frame, an iterable of triples or a directed NetworkX graph.
    """
    if isinstance(data, Graph | str | Path):
        return data
    if isinstance(data, PathLike):
        return Path(data)
    if hasattr(data, "edges") and hasattr(data, "is_directed"):
        return graph_from_triples(_networkx_triples(data))
    if isinstance(data, Iterable) and not isinstance(data, bytes | Mapping):
        return graph_from_triples(data)
    raise DataError(
        "expected a file, a folder, a name that 'bilink data ls' shows, a data frame, triples or a "
        f"graph, not {shortened(str(data))}"
    )


def _networkx_triples(graph: Any) -> Iterator[tuple[str, str, str]]:
    """One triple for each edge; its key or an attribute is the relation."""
    if not graph.is_directed():
        raise DataError(
            "an undirected NetworkX graph does not say which end of an edge is the head; "
            "make a DiGraph of it"
        )
    edges = graph.edges(data=True, keys=True) if graph.is_multigraph() else graph.edges(data=True)
    for head, tail, *key, attributes in edges:
        named = [attributes.get(name) for name in _EDGE_ATTRIBUTES]
        relation = next((r for r in [*key, *named] if isinstance(r, str)), None)
        if relation is None:
            raise DataError(
                f"the edge from {head!r} to {tail!r} names no relation: give it a key, or one of "
                f"the attributes {', '.join(_EDGE_ATTRIBUTES)}"
            )
        yield head, relation, tail


def graph_from_triples(
    train: Any,
    valid: Any = None,
    test: Any = None,
    *,
    name: str = "graph",
    columns: str | None = None,
    seed: int = 0,
    fractions: tuple[float, float, float] = FRACTIONS,
    entity_labels: Mapping[str, str] | None = None,
    relation_labels: Mapping[str, str] | None = None,
) -> Graph:
    """A graph of triples in memory.

    Each split is an iterable of (head, relation, tail) strings, an array of strings of shape
    (n, 3), or a pandas or polars data frame.  Where only ``train`` is given it is split by ``seed``
    and ``fractions``; pass ``fractions=(1, 0, 0)`` to keep all of it for training.

    Examples
    --------
    >>> import bilink
    >>> facts = [("Monaco", "borders", "France"), ("Spain", "borders", "France")]
    >>> bilink.graph_from_triples(facts, fractions=(1, 0, 0))
    Graph('graph', 3 entities, 1 relation, 2 training, 0 validation and 0 test triples)
    """
    from bilink.data.building import build_graph
    from bilink.data.files import table_in_memory

    parts = [train] if valid is None and test is None else [train, valid, test]
    tables = [
        None if part is None else table_in_memory(part, f"{name} {split}", columns)
        for part, split in zip(parts, SPLITS, strict=False)
    ]
    labels = {"entity_labels": entity_labels, "relation_labels": relation_labels}
    return build_graph(tables, name=name, seed=seed, fractions=fractions, **labels)


def write_graph_files(graph: Graph, folder: str | Path) -> None:
    """Write train.tsv, valid.tsv and test.tsv, and the labels where there are any, to a new folder.

    A split with triples that are given as false gets a fourth column of 1 and -1.
    """
    folder = Path(folder)
    vocabularies = graph.entities, graph.relations
    for vocabulary in vocabularies:
        for name in vocabulary.names:
            if not name or "\t" in name or "\n" in name or "\r" in name:
                raise DataError(
                    f"the {vocabulary.kind} {name!r} cannot be written to a TSV file: it is empty "
                    "or contains a tab or a line end; rename it"
                )
    splits = {f"{split}.tsv": split for split in SPLITS}
    labels = {f"{vocabulary.kind}_labels.tsv": vocabulary.labels for vocabulary in vocabularies}
    with filling(folder, [*splits, *labels]):
        for name, split in splits.items():
            _write(folder / name, _rows(graph, split))
        for name, pairs in labels.items():
            if pairs:
                rows = (f"{key}\t{' '.join(label.split())}\n" for key, label in pairs.items())
                _write(folder / name, rows)


def _rows(graph: Graph, split: Split) -> Iterator[str]:
    """The lines of a split's file."""
    entities, relations = graph.entities.names, graph.relations.names
    parts = [(graph.split(split), "")]
    if split in graph.negatives:
        parts = [(graph.split(split), "\t1"), (graph.negatives[split], "\t-1")]
    for triples, label in parts:
        for h, r, t in triples.tolist():
            yield f"{entities[h]}\t{relations[r]}\t{entities[t]}{label}\n"


def _write(path: Path, lines: Iterable[str]) -> None:
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        file.writelines(lines)
