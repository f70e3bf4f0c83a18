"""Triples in N-Triples and Turtle files.

A name that is an IRI stands for itself.  Any other name is written as an IRI of our own, from which
reading makes the name again.  What is said about a triple, such as its probability, is written as
an rdf:Statement, which every RDF tool reads; RDF-star and RDF 1.2 exclude each other.
"""

import io
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import polars as pl

from bilink._extras import needs
from bilink._files import replacing
from bilink._text import counted, warn
from bilink.data.text import read_text
from bilink.errors import DataError

RDF_ENDINGS = (".nt", ".ttl")
OURS = "urn:bilink:"
ENTITY, RELATION = f"{OURS}entity:", f"{OURS}relation:"
PROBABILITY = f"{OURS}probability"
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_TYPE, _STATEMENT, _REIFIES = f"{_RDF}type", f"{_RDF}Statement", f"{_RDF}reifies"
_PARTS = tuple(_RDF + part for part in ("subject", "predicate", "object"))
# The random name that the parser gives to []: 128 bits in hexadecimal, without leading zeros.
_GENERATED = re.compile(r"[0-9a-f]{24,32}")

Prediction = tuple[str, str, str, float | None]  # head, relation, tail, probability


def pyoxigraph(purpose: str) -> Any:
    """The package that reads and writes RDF; an error that says what to install without it."""
    with needs("pyoxigraph", extra="rdf", purpose=purpose):
        import pyoxigraph
    return pyoxigraph


def _format(ox: Any, ending: str) -> Any:
    return {".nt": ox.RdfFormat.N_TRIPLES, ".ttl": ox.RdfFormat.TURTLE}[ending]


# -- reading ---------------------------------------------------------------------------------------


def read_rdf(path: Path, ending: str, columns: Iterable[str]) -> pl.DataFrame:
    """The links of a file as ``columns`` of names; the rest is left out with a warning."""
    ox = pyoxigraph(f"reading {path.name}")
    name = _Namer(ox)
    rows: list[tuple[str, str, str]] = []
    statements: set[str] = set()
    literals: list[str] = []  # their subjects
    things = (ox.NamedNode, ox.BlankNode)
    try:
        for quad in ox.parse(input=read_text(path), format=_format(ox, ending)):
            subject, predicate, value = quad.subject, quad.predicate.value, quad.object
            if not isinstance(subject, things):  # a triple, in RDF-star
                statements.add(str(subject))
            elif not isinstance(value, things):
                where = statements.add if predicate == _REIFIES else literals.append
                where(name(subject))
            else:
                rows.append((name(subject), name(quad.predicate), name(value)))
                if predicate in _PARTS or (predicate == _TYPE and value.value == _STATEMENT):
                    statements.add(name(subject))
    except SyntaxError as error:
        raise DataError(f"{path}:{error.lineno}: {error.msg}") from None
    if statements:
        rows = [row for row in rows if not {row[0], row[2]} & statements]
        warn(
            f"{path}: left out {counted(len(statements), 'statement')} about triples; links are "
            "between entities"
        )
    if skipped := sum(subject not in statements for subject in literals):
        warn(
            f"{path}: left out {counted(skipped, 'triple')} whose object is a literal; "
            "links are between entities"
        )
    return pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String), orient="row")


class _Namer:
    """The name of a node."""

    def __init__(self, ox: Any):
        self._blank_node = ox.BlankNode
        self._renamed: dict[str, str] = {}

    def __call__(self, node: Any) -> str:
        value = node.value
        if isinstance(node, self._blank_node):
            if _GENERATED.fullmatch(value):  # numbered, so that two readings agree
                return self._renamed.setdefault(value, f"_:anonymous{len(self._renamed) + 1}")
            return str(node)
        if value.startswith((ENTITY, RELATION)):
            return unquote(value.split(":", 3)[3])
        return value


# -- writing ---------------------------------------------------------------------------------------


def write_rdf(path: Path, triples: Iterable[Prediction]) -> None:
    """Write each triple once, with a statement of its probability where there is one."""
    content = rdf_content(triples, path.suffix.casefold())
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def rdf_content(triples: Iterable[Prediction], ending: str) -> bytes:
    """The same as the bytes of a file with this ending."""
    ox = pyoxigraph(f"writing a {ending} file")
    once: dict[tuple[str, str, str], float | None] = {}
    for head, relation, tail, probability in triples:
        once.setdefault((head, relation, tail), probability)
    buffer = io.BytesIO()
    ox.serialize(_statements(ox, once), buffer, _format(ox, ending))
    return buffer.getvalue()


def _statements(
    ox: Any, probabilities: Mapping[tuple[str, str, str], float | None]
) -> Iterator[Any]:
    iri = ox.NamedNode
    for number, ((head, relation, tail), probability) in enumerate(probabilities.items(), start=1):
        parts = _iri(ox, head, ENTITY), _iri(ox, relation, RELATION), _iri(ox, tail, ENTITY)
        yield ox.Triple(*parts)
        if probability is not None:
            statement = ox.BlankNode(f"statement{number}")
            yield ox.Triple(statement, iri(_TYPE), iri(_STATEMENT))
            for role, part in zip(_PARTS, parts, strict=True):
                yield ox.Triple(statement, iri(role), part)
            yield ox.Triple(statement, iri(PROBABILITY), ox.Literal(probability))


def _iri(ox: Any, name: str, prefix: str) -> Any:
    """The name itself, if it is an IRI but none of ours."""
    if not name.startswith(OURS):
        try:
            return ox.NamedNode(name)
        except ValueError:
            pass
    return ox.NamedNode(prefix + quote(name, safe=""))
