"""Triples in RDF files: what is written is read again, with the same names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bilink.data.files import read_triples
from bilink.data.rdf import PROBABILITY, write_rdf
from bilink.errors import DataWarning

ox = pytest.importorskip("pyoxigraph", reason="the extra rdf is not installed")

NAMES = (
    "Austria",
    "Côte d'Ivoire",
    "http://example.org/a#b",
    "urn:isbn:0",
    "urn:bilink:entity:Austria",
    "_:b1",
    'with "quotes", <brackets>, \\ and a space ',
    "two\nlines\tand a tab",
    "50%25",
    "a:b",
    "日本",
)
ENDINGS = (".nt", ".ttl")


def rows(path):
    return read_triples(path).frame.rows()


@pytest.mark.parametrize("ending", ENDINGS)
def test_any_name_is_read_as_it_was_written(tmp_path, ending):
    triples = [(name, relation, "x") for name in NAMES for relation in NAMES]
    write_rdf(tmp_path / f"a{ending}", [(*triple, None) for triple in triples])
    assert rows(tmp_path / f"a{ending}") == triples


@given(st.lists(st.tuples(*[st.text(min_size=1)] * 3), min_size=1), st.sampled_from(ENDINGS))
def test_whatever_is_written_is_read_again(tmp_path, triples, ending):
    path = tmp_path / f"b{ending}"
    write_rdf(path, [(*triple, None) for triple in triples])
    assert rows(path) == list(dict.fromkeys(triples))


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_probability_is_a_statement_about_its_triple(tmp_path, ending):
    path, chance = tmp_path / f"c{ending}", 0.1234567890123456
    triples = [("Austria", "borders", "Italy"), ("http://x/a", "http://x/p", "http://x/b")]
    write_rdf(path, [(*triples[0], chance), (*triples[1], None), (*triples[0], 0.5)])
    with pytest.warns(DataWarning, match="left out 1 statement about triples") as warnings:
        assert rows(path) == triples
    assert len(warnings) == 1
    found = {
        quad.predicate.value.rpartition("#")[2]: quad.object
        for quad in ox.parse(path=str(path))
        if isinstance(quad.subject, ox.BlankNode)
    }
    assert found["subject"].value == "urn:bilink:entity:Austria"
    assert found["predicate"].value == "urn:bilink:relation:borders"
    assert found["object"].value == "urn:bilink:entity:Italy"
    assert found["type"].value.endswith("#Statement")
    assert float(found[PROBABILITY].value) == chance
    assert b"http://x/a" in path.read_bytes()


def test_statements_of_others_are_left_out_with_what_is_said_about_them(tmp_path):
    turtle = """
    @prefix : <http://x/> .
    @prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
    :says :source _:s ; :name "literal" .
    _:s :certainty 0.5 ; :by :me ; rdf:subject :a ; rdf:predicate :p ; rdf:object :c .
    :a :p :b .
    """
    (tmp_path / "d.ttl").write_text(turtle)
    with pytest.warns(DataWarning) as warnings:
        assert rows(tmp_path / "d.ttl") == [("http://x/a", "http://x/p", "http://x/b")]
    first, second = (str(warning.message) for warning in warnings)
    assert "1 statement about triples" in first
    assert "1 triple whose object is a literal" in second


def test_annotations_of_rdf_1_2_are_left_out(tmp_path):
    if ox.__version__ < "0.5":
        pytest.skip("this pyoxigraph does not know RDF 1.2")
    turtle = "@prefix : <http://x/> .\n:a :p :b {| :certainty 0.5 ; :by :me |} .\n"
    (tmp_path / "e.ttl").write_text(turtle)
    with pytest.warns(DataWarning, match="left out 1 statement about triples"):
        assert rows(tmp_path / "e.ttl") == [("http://x/a", "http://x/p", "http://x/b")]
