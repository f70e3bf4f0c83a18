"""A run as vectors: candidates and queries whose inner product is the score.

What a vector database or a nearest-neighbour index needs of any model or ensemble.  TransE takes
part by its lifted form (``models.form``).
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bilink._extras import needs
from bilink._files import filling, replacing, write_text
from bilink.data.graph import Graph
from bilink.errors import ConfigError
from bilink.models.scorer import SIDES, Scorer, Side
from bilink.queries.answers import FIELDS, Question

VERSION = 1
FILES = (
    *("candidates.npy", "queries.npy", "candidates.parquet", "queries.parquet", "index.faiss"),
    *("entities.json", "manifest.json"),
)
SAMPLE = 500  # questions that the recall of an index is measured with, and as many to tune it
EFFORTS = (32, 64, 128, 256, 512, 1024)  # candidates that a search of the index keeps in view
ENOUGH = 0.99  # the recall at which no more effort is tried
TOP = 10


@dataclass(frozen=True, eq=False)
class Vectors:
    """Candidates, one row per entity, and what turns questions into query vectors."""

    scorer: Scorer
    graph: Graph

    def __post_init__(self) -> None:
        if not self.scorer.is_product:
            what = self._kind()
            raise ConfigError(
                f"the scores are no inner products ({what}), so there are no vectors to export; "
                "take another model, for example transe, or another way to combine"
            )

    def _kind(self) -> str:
        form = self.scorer.form
        return f"they are a {form.name}" if not form.is_product else "rules add to them"

    @property
    def names(self) -> tuple[str, ...]:
        """The entity behind each row of ``candidates``."""
        return self.graph.entities.names

    @property
    def candidates(self) -> np.ndarray:
        """One row per entity."""
        return self.scorer.candidates

    def query(
        self, *, head: str | None = None, relation: str, tail: str | None = None
    ) -> np.ndarray:
        """The vector of (head, relation, ?) or (?, relation, tail)."""
        return self.queries([Question(head, relation, tail)])[0]

    def queries(self, questions: Sequence[Question]) -> np.ndarray:
        """One vector for each question, which asks for the head or for the tail."""
        rows = np.empty((len(questions), self.scorer.width), dtype=self.scorer.dtype)
        given, relations, sides = [], [], []
        for asked in questions:
            with asked.blamed():
                known = asked.head if asked.tail is None else asked.tail
                if (asked.head is None) == (asked.tail is None) or not (known and asked.relation):
                    raise ConfigError("a vector has a relation and either a head or a tail")
                sides.append("head" if asked.head is None else "tail")
                given.append(self.graph.entities.find(known))
                relations.append(self.graph.relations.find(asked.relation))
        for side in SIDES:
            where = np.array([s == side for s in sides], dtype=bool)
            ids = np.array(given, dtype=np.int64)[where], np.array(relations, np.int64)[where]
            rows[where] = self.scorer.queries(side, *ids)
        return rows


def export(
    vectors: Vectors,
    folder: str | Path,
    format: str = "numpy",
    questions: Sequence[Question] = (),
    seed: int = 0,
) -> dict[str, Any]:
    """Write candidates, names, a manifest and perhaps queries to a new ``folder``.

    Returns the manifest.  ``format`` is numpy, parquet or faiss.  With faiss, candidates are put
    in an HNSW index, whose recall of the exact ten best is measured on validation questions.
    """
    write = _FORMATS.get(format)
    if write is None:
        raise ConfigError(f"unknown format {format!r}; there are {', '.join(_FORMATS)}")
    folder = Path(folder)
    rows = vectors.queries(questions) if questions else None
    with filling(folder, FILES):
        files, found = write(vectors, folder, questions, rows, seed)
        write_text(folder / "entities.json", json.dumps(vectors.names, ensure_ascii=True) + "\n")
        manifest = _manifest(vectors, format, questions, files, found)
        write_text(folder / "manifest.json", json.dumps(manifest, indent=1) + "\n")
    return manifest


def _manifest(
    vectors: Vectors,
    kind: str,
    questions: Sequence[Question],
    files: Sequence[str],
    found: dict[str, Any],
) -> dict[str, Any]:
    return {
        "format": "bilink-vectors",
        "version": VERSION,
        "kind": kind,
        "score": "inner product of a query and a candidate; higher is more likely",
        "graph": vectors.graph.name,
        "fingerprint": vectors.graph.fingerprint,
        "entities": len(vectors.names),
        "width": vectors.scorer.width,
        "dtype": str(vectors.scorer.dtype),
        "queries": [list(question.given.values()) for question in questions],
        "files": ["entities.json", *files],
        **found,
    }


Written = tuple[list[str], dict[str, Any]]


def _write_numpy(
    vectors: Vectors,
    folder: Path,
    questions: Sequence[Question],
    rows: np.ndarray | None,
    seed: int,
) -> Written:
    arrays = {"candidates.npy": vectors.candidates, "queries.npy": rows}
    files = []
    for name, array in arrays.items():
        if array is not None:
            with replacing(folder / name) as temporary, open(temporary, "wb") as file:
                np.save(file, array, allow_pickle=False)
            files.append(name)
    return files, {}


def _write_parquet(
    vectors: Vectors,
    folder: Path,
    questions: Sequence[Question],
    rows: np.ndarray | None,
    seed: int,
) -> Written:
    import polars as pl

    labels = [vectors.graph.entities.label(i) for i in range(len(vectors.names))]
    frames = {
        "candidates.parquet": pl.DataFrame(
            {"entity": list(vectors.names), "label": labels, "vector": vectors.candidates}
        )
    }
    if rows is not None:
        asked = {
            name: pl.Series([question.given[name] for question in questions], dtype=pl.String)
            for name in FIELDS
        }
        frames["queries.parquet"] = pl.DataFrame({**asked, "vector": rows})
    for name, frame in frames.items():
        with replacing(folder / name) as temporary:
            frame.write_parquet(temporary)
    return list(frames), {}


def _write_faiss(
    vectors: Vectors,
    folder: Path,
    questions: Sequence[Question],
    rows: np.ndarray | None,
    seed: int,
) -> Written:
    with needs("faiss", extra="ann", purpose="an index for nearest neighbours"):
        import faiss
    index = faiss.IndexHNSWFlat(vectors.scorer.width, 32, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = 200
    index.add(np.ascontiguousarray(vectors.candidates, dtype=np.float32))
    found = _tuned(index, vectors, seed)
    with replacing(folder / "index.faiss") as temporary:
        faiss.write_index(index, str(temporary))
    files, _ = _write_numpy(vectors, folder, questions, rows, seed)
    return ["index.faiss", *files], found


_FORMATS: dict[str, Callable[..., Written]] = {
    "numpy": _write_numpy,
    "parquet": _write_parquet,
    "faiss": _write_faiss,
}


def _tuned(index: Any, vectors: Vectors, seed: int) -> dict[str, Any]:
    """Set how hard the index searches by some questions, and measure its recall with others."""
    tuning, measuring = (
        (queries, exact_top(vectors, queries)) for queries in _samples(vectors, seed)
    )
    for effort in EFFORTS:
        index.hnsw.efSearch = effort
        if _recall(index, *tuning) >= ENOUGH:
            break
    return {
        "index": f"HNSW, 32 links, search effort {effort} (efSearch)",
        f"recall@{TOP}": _recall(index, *measuring),
        "recall_questions": len(measuring[0]),
    }


def _samples(vectors: Vectors, seed: int) -> list[np.ndarray]:
    """Queries of validation facts, of training facts where there are none, in two halves."""
    graph, random = vectors.graph, np.random.default_rng(seed)
    facts = graph.valid if len(graph.valid) else graph.train
    chosen = facts[random.permutation(len(facts))[: 2 * SAMPLE]]
    halves = [chosen[0::2], chosen[1::2] if len(chosen) > 1 else chosen]
    given: dict[Side, int] = {"head": 2, "tail": 0}
    return [
        np.concatenate(
            [
                vectors.scorer.queries(s, half[i::2, given[s]], half[i::2, 1])
                for i, s in enumerate(SIDES)
            ]
        )
        for half in halves
    ]


def exact_top(vectors: Vectors, queries: np.ndarray) -> np.ndarray:
    """The ids of the ``TOP`` candidates with the largest inner products, in no order."""
    k = min(TOP, len(vectors.candidates))
    best = np.empty((len(queries), k), dtype=np.int64)
    for i, query in enumerate(queries):
        best[i] = np.argpartition(vectors.candidates @ query, -k)[-k:]
    return best


def _recall(index: Any, queries: np.ndarray, exact: np.ndarray) -> float:
    _, found = index.search(np.ascontiguousarray(queries, dtype=np.float32), exact.shape[1])
    hits = [len(np.intersect1d(*pair)) for pair in zip(found, exact, strict=True)]
    return float(np.sum(hits) / exact.size)
