"""N-Triples and Turtle, read by pyoxigraph."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from bilink._extras import needs
from bilink._text import counted, warn
from bilink.data.text import read_text
from bilink.errors import DataError

if TYPE_CHECKING:
    import polars as pl

# The random name that the parser gives to []: 128 bits in hexadecimal, without leading zeros.
GENERATED = re.compile(r"[0-9a-f]{24,32}")


def read_rdf(path: Path, kind: str) -> "pl.DataFrame":
    """The links of an RDF file; IRIs become plain strings, literals are left out with a warning."""
    with needs("pyoxigraph", extra="rdf", purpose=f"reading {path.name}"):
        import pyoxigraph as ox
    import polars as pl

    form = {"nt": ox.RdfFormat.N_TRIPLES, "ttl": ox.RdfFormat.TURTLE}[kind]
    rows: list[tuple[str, str, str]] = []
    skipped = 0
    renamed: dict[str, str] = {}

    def name(node: "ox.NamedNode | ox.BlankNode") -> str:
        if isinstance(node, ox.NamedNode):
            return node.value
        if GENERATED.fullmatch(node.value):  # numbered, so that two readings agree
            return renamed.setdefault(node.value, f"_:anonymous{len(renamed) + 1}")
        return str(node)

    things = (ox.NamedNode, ox.BlankNode)
    try:
        for quad in ox.parse(input=read_text(path), format=form):
            if isinstance(quad.subject, things) and isinstance(quad.object, things):
                rows.append((name(quad.subject), quad.predicate.value, name(quad.object)))
            else:
                skipped += 1
    except SyntaxError as error:
        raise DataError(f"{path}:{error.lineno}: {error.msg}") from None
    if skipped:
        warn(
            f"{path}: left out {counted(skipped, 'triple')} whose object is a literal; "
            "links are between entities"
        )
    schema = {"head": pl.String, "relation": pl.String, "tail": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")
