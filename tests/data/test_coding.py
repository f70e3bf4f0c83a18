"""Large texts are numbered in one pass: the same graphs, warnings and errors as for small ones."""

import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bilink.data import coding, files
from bilink.data.coding import code
from bilink.data.files import CodedTable, read_table
from bilink.data.loading import load_graph
from bilink.data.text import Layout
from bilink.errors import BilinkError

TAB = Layout("\t", 3, False, (0, 1, 2))
in_folder = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
plain_names = st.text(
    st.characters(codec="utf-8", exclude_characters="\t\n\r\0"), min_size=1, max_size=20
).filter(lambda name: name == name.strip(" ") and not name.startswith("\ufeff"))
odd_names = st.sampled_from(["", " a", "a ", '"', '"x"', "\r", "\ufeffb", "ä" * 9, "NA", "\x85"])
many = st.lists(st.tuples(plain_names, plain_names, plain_names), min_size=1, max_size=30)


@pytest.fixture(autouse=True, scope="module")
def compiled():
    """Before Hypothesis watches each line."""
    code(b"a\tr\tb\n", TAB, Path("x"))


@contextmanager
def large_from(size):
    """Texts of so many bytes are large."""
    before, files.LARGE = files.LARGE, size
    try:
        yield
    finally:
        files.LARGE = before


def text_of(rows, separator="\t"):
    return "".join(separator.join(row) + "\n" for row in rows)


def outcome(path, **options):
    """The graph with its warnings, or the error, of a file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            graph = load_graph(path, **options)
        except BilinkError as error:
            return type(error), str(error)
    said = [str(warning.message) for warning in caught]
    arrays = [graph.split(split).tolist() for split in ("train", "valid", "test")]
    return said, arrays, graph.entities.names, graph.relations.names, graph.fingerprint


def both(path, **options):
    """The outcomes where texts are read field by field, and where they are numbered."""
    found = []
    for size in (10**9, 0):
        with large_from(size):
            found.append(outcome(path, **options))
    return found


@in_folder
@given(rows=many)
def test_names_and_numbers_are_those_of_the_text(tmp_path, rows):
    triples, entities, relations = code(text_of(rows).encode(), TAB, tmp_path)
    found = [(entities[h], relations[r], entities[t]) for h, r, t in triples.tolist()]
    assert found == rows
    assert entities == list(dict.fromkeys(name for h, _, t in rows for name in (h, t)))
    assert relations == list(dict.fromkeys(r for _, r, _ in rows))


@in_folder
@given(
    rows=many,
    separator=st.sampled_from("\t,; "),
    header=st.booleans(),
    order=st.permutations("hrt"),
)
def test_a_graph_is_the_same_however_it_is_read(tmp_path, rows, separator, header, order):
    path, columns = tmp_path / "x.txt", "".join(order)
    head = text_of([[{"h": "head", "r": "relation", "t": "tail"}[c] for c in order]], separator)
    path.write_bytes(((head if header else "") + text_of(rows, separator)).encode())
    assert len(set(map(str, both(path, columns=columns, header=header)))) == 1


@in_folder
@given(
    rows=st.lists(
        st.lists(plain_names | odd_names, min_size=2, max_size=4) | st.just([""]),
        min_size=1,
        max_size=6,
    )
)
def test_odd_texts_give_the_same_warnings_and_errors(tmp_path, rows):
    path = tmp_path / "x.tsv"
    path.write_bytes(text_of(rows).encode())
    wanted, found = both(path)
    assert found == wanted


@pytest.mark.parametrize(
    "text",
    [
        "a\tr\tb\n\nb\tr\tc\n",
        "\na\tr\tb\nb\tr\tc\n",
        "a\tr\tb\nb\tr\n",
        "a\tr\tb\tc\nb\tr\tc\td\n",
        "a\tr\t\nb\tr\tc\n",
        "a\tr \tb\nb\tr\tc\n",
        "a\tr\tb\t1\nb\tr\tc\t-1\n",
        '"a",r,b\nb,r,c\n',
        "a\tr\tb\r\nb\tr\tc\n",
        "a\tr\tb\rx\nb\tr\tc\n",
        "\ufeff\ufeffa\tr\tb\nb\tr\tc\n",
        "a\tr\tb\nb\tr\tc",
        "head\trelation\ttail\na\tr\tb\nb\tr\tc\n",
        "a\tr\tb\na\tr\tb\nc\tr\tb\n",
    ],
)
def test_special_texts_are_read_as_before(tmp_path, text):
    path = tmp_path / "x.csv"
    path.write_bytes(text.encode())
    wanted, found = both(path)
    assert found == wanted


def test_splits_share_their_names(tmp_path):
    for split, text in {
        "train": "a\tr\tb\nb\ts\tc\nc\tr\ta\n",
        "valid": "a\ts\tc\nb\ts\tc\n",
        "test": "d\tq\ta\nb\ts\tc\nc\tr\ta\n",
    }.items():
        (tmp_path / f"{split}.txt").write_text(text)
    wanted, found = both(tmp_path)
    assert found == wanted
    assert any("3 triples stand in more than one split" in line for line in found[0])


def test_tables_grow_and_long_names_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(coding, "_START", 8)
    names = [f"{prefix}{i}" for prefix in ("", "x" * 8, "y" * 40) for i in range(700)]
    rows = [(a, f"r{i % 90}", b) for i, (a, b) in enumerate(zip(names, names[::-1], strict=True))]
    triples, entities, relations = code(text_of(rows).encode(), TAB, tmp_path)
    assert len(set(entities)) == len(entities) == len(names)
    assert [(entities[h], relations[r], entities[t]) for h, r, t in triples.tolist()] == rows


def test_a_large_text_is_numbered_and_a_small_one_is_not(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_text("a\tr\tb\nb\tr\tc\n")
    assert not isinstance(read_table(path), CodedTable)
    with large_from(1):
        table = read_table(path)
    assert isinstance(table, CodedTable)
    np.testing.assert_array_equal(table.triples, [[0, 0, 1], [1, 0, 2]])
    assert len(table) == 2
    assert len(table.labelled(-1)) == 0
