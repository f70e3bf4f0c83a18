"""Reading one file of triples."""

import gzip
import warnings

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from bilink.data.files import read_triples
from bilink.errors import ConfigError, DataError, DataWarning

ROWS = [("ann", "knows", "bob"), ("bob", "likes", "cat")]
names = st.text(
    st.characters(codec="utf-8", exclude_characters="\t\n\r\0"), min_size=1, max_size=8
) | st.sampled_from(["NA", "null", "NaN", "1.0", "None", '"', '""', "#x", "\ufeffx", " ", "\\N"])
csv_names = st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), min_size=1, max_size=8)
triples_of = lambda part: st.lists(st.tuples(part, part, part), min_size=1, max_size=8)  # noqa: E731
round_trip = settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])


def write(path, content):
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def rows(path, **options):
    return read_triples(path, **options).frame.rows()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.tsv", "ann\tknows\tbob\nbob\tlikes\tcat\n"),
        ("x.txt", "ann knows bob\nbob likes cat"),
        ("x.csv", "ann,knows,bob\nbob,likes,cat\n"),
        ("x.csv", "ann;knows;bob\nbob;likes;cat\n"),
        ("x", "ann\tknows\tbob\r\nbob\tlikes\tcat\r\n"),
        ("x.tsv", "\ufeffann\tknows\tbob\n\n\nbob\tlikes\tcat\n\n"),
        ("x.csv", '"ann",knows,"bob"\n\n"bob","likes",cat\n'),
        ("x.tsv", "Head\tRelation\tTail\nann\tknows\tbob\nbob\tlikes\tcat\n"),
        ("x.csv", "object,subject,predicate\nbob,ann,knows\ncat,bob,likes\n"),
        ("x.csv", "source,label,target\nann,knows,bob\nbob,likes,cat\n"),
        ("x.csv", ",from,rel,to\n0,ann,knows,bob\n1,bob,likes,cat\n"),
    ],
)
def test_separators_headers_and_line_ends_are_recognised(tmp_path, name, content):
    assert rows(write(tmp_path / name, content)) == ROWS


def test_a_gzip_file_is_read_whatever_its_name(tmp_path):
    packed = gzip.compress(b"ann\tknows\tbob\nbob\tlikes\tcat\n")
    assert rows(write(tmp_path / "x.tsv.gz", packed)) == ROWS
    assert rows(write(tmp_path / "x.tsv", packed)) == ROWS


def test_columns_can_be_named_by_letters(tmp_path):
    path = write(tmp_path / "x.tsv", "ann\tbob\tknows\t7\nbob\tcat\tlikes\t8\n")
    assert rows(path, columns="htr_") == ROWS
    with pytest.raises(ConfigError, match="h, r and t once each"):
        rows(path, columns="hht")


def test_a_header_can_be_forced_or_denied(tmp_path):
    path = write(tmp_path / "x.tsv", "a\tb\tc\nann\tknows\tbob\n")
    assert rows(path, header=True) == ROWS[:1]
    path = write(tmp_path / "y.tsv", "s\tp\to\nann\tknows\tbob\n")
    assert rows(path, header=False) == [("s", "p", "o"), ROWS[0]]


def test_a_separator_can_be_given_by_name_or_as_a_character(tmp_path):
    path = write(tmp_path / "x.txt", "ann knows bob\n")
    assert rows(path, separator="space") == ROWS[:1]
    assert rows(write(tmp_path / "y.txt", "ann|knows|bob\n"), separator="|") == ROWS[:1]
    with pytest.raises(ConfigError, match="one ASCII character"):
        rows(path, separator="::")


def test_names_that_look_like_numbers_or_nulls_stay_as_they_are(tmp_path):
    path = write(tmp_path / "x.tsv", 'NA\tnull\tNaN\n1.0\t007\t"x\n1e5\tTrue\t2020-01-01\n')
    assert rows(path)[0] == ("NA", "null", "NaN")
    assert rows(path)[1] == ("1.0", "007", '"x')
    assert rows(path)[2] == ("1e5", "True", "2020-01-01")
    path = write(tmp_path / "x.csv", '"NA","null","1.0"\n"a,b","c ""d""","e\n\nf"\n')
    assert rows(path) == [("NA", "null", "1.0"), ("a,b", 'c "d"', "e\n\nf")]


def test_only_the_first_byte_order_mark_is_a_mark(tmp_path):
    path = write(tmp_path / "x.tsv", "\ufeff\ufeff\tknows\t\ufeffbob\n")
    assert rows(path) == [("\ufeff", "knows", "\ufeffbob")]


def test_a_fourth_column_of_signs_is_a_label(tmp_path):
    table = read_triples(write(tmp_path / "x.txt", "a\tr\tb\t1\na\tr\tc\t-1\nb\tr\tc\t+1\n"))
    assert table.labels.tolist() == [1, -1, 1]
    assert table.frame.width == 3
    table = read_triples(write(tmp_path / "y.csv", "head,label,relation,tail\na,-1,r,b\n"))
    assert (table.labels.tolist(), table.frame.rows()) == ([-1], [("a", "r", "b")])


def test_a_label_that_is_no_sign_is_named_by_its_line(tmp_path):
    path = write(tmp_path / "x.tsv", "a\tr\tb\t1\n\na\tr\tc\t-1\nb\tr\tc\t7\n")
    with pytest.raises(DataError, match=r"x.tsv:4: the label of a triple must be 1 or -1"):
        read_triples(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "a\tr\tb\n\na\tr\n" + "a\tr\tb\n" * 9,
            r"x.tsv:3: expected head, relation and tail separated by tabs, found 2 fields: "
            r"'a\\tr'. "
            "If the columns are separated by spaces, pass --separator space.",
        ),
        ("a\tr\tb\n" * 500 + "x\ty\tz\tw\n", r"x.tsv:501: .* found 4 fields"),
        ("a b c\tr\tb\tc\n", r"x.tsv:1: .* by tabs, found 4 fields.*--columns hrt_"),
        ("a\tr\tb\nc\n" * 9, r"x.tsv:2: .* found 1 field: 'c' \(and 8 more lines like it\)"),
        ("a\tr\tb\na\t\tb\n", r"x.tsv:2: the relation is empty"),
        ("a\tr\tb\n\n\tr\tb\na\tr\t\n", r"x.tsv:3: the head is empty"),
        ("one\ntwo\n", r"x.tsv:1: expected head, relation and tail separated by tabs, commas"),
        ("", r"x.tsv: the file is empty"),
        ("\n \n\r\n", r"x.tsv: the file is empty"),
        (b"a\tr\tb\na\tr\t\xe9t\xe9\n", r"x.tsv:2: byte 0xe9 is not valid UTF-8.*iconv"),
        ("a\tr\tb\n".encode("utf-16"), r"x.tsv: the file is UTF-16.*iconv"),
        ("a\tr\tb\n".encode("utf-16-le"), r"x.tsv:1: found a NUL byte"),
        (b"a\tr\tb\nPK\0\1", r"x.tsv:2: found a NUL byte, so this is a binary file"),
        (b"\x1f\x8b" + b"rubbish" * 9, r"x.tsv: the gzip file is corrupt or cut short"),
        (gzip.compress(b"a\tr\tb\n" * 99)[:-9], r"x.tsv: the gzip file is corrupt or cut short"),
    ],
)
def test_a_bad_line_is_named_exactly(tmp_path, content, message):
    with pytest.raises(DataError, match=message):
        read_triples(write(tmp_path / "x.tsv", content))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('a,r,b\nx"y,r,b\n', r"x.csv:2: a double quote stands inside a field"),
        ('a,r,b\n"x,r,b\n', r"x.csv:2: a double quote .* never closed"),
        ('a,r,"b\nc"\nd,r,"e"f\n', r"x.csv:3: a double quote stands inside a field"),
        ('a,r,"b\nc"\nd,r\n', r"x.csv:3: expected .* by commas, found 2 fields"),
        ('a,r,b\n"",r,b\n', r"x.csv:2: the head is empty"),
    ],
)
def test_quotes_that_would_swallow_fields_are_refused(tmp_path, content, message):
    with pytest.raises(DataError, match=message):
        read_triples(write(tmp_path / "x.csv", content))


def test_spaces_at_the_edge_of_a_name_are_kept_and_reported(tmp_path):
    path = write(tmp_path / "x.csv", "a,r,b\na, r, b\n")
    with pytest.warns(DataWarning, match=r"x.csv:2: 2 names with a space"):
        assert rows(path)[1] == ("a", " r", " b")


def test_missing_files_folders_and_false_gzip_names_are_named(tmp_path):
    for name in ("no.tsv", "no.parquet"):
        with pytest.raises(DataError, match="no such file"):
            read_triples(tmp_path / name)
    with pytest.raises(DataError, match="a folder"):
        read_triples(tmp_path)
    with pytest.raises(DataError, match="the name says gzip"):
        read_triples(write(tmp_path / "x.gz", "a\tr\tb\n"))


@round_trip
@given(triples=triples_of(names))
def test_any_names_survive_a_tsv_file(tmp_path, triples):
    path = write(tmp_path / "x.tsv", "".join("\t".join(row) + "\n" for row in triples))
    assume(path.read_bytes().strip())  # a file of white space alone is an empty file
    if path.read_bytes().startswith(b"\xef\xbb\xbf"):
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())  # this one is part of the name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        assert rows(path, separator="tab", header=False, columns="hrt") == triples


def naive(lines):
    """The rows of a TSV file line by line, or the number of the first line at fault."""
    found = [(number, line.split("\t")) for number, line in enumerate(lines, start=1) if line]
    ragged = [number for number, fields in found if len(fields) != 3]
    if ragged:
        return ragged[0]
    empty = [number for column in range(3) for number, fields in found if not fields[column]]
    return empty[0] if empty else [tuple(fields) for _, fields in found]


@round_trip
@given(st.lists(st.text(st.sampled_from('ab\t"'), max_size=7), min_size=1, max_size=6))
def test_any_text_of_tabs_is_read_as_line_by_line(tmp_path, lines):
    path = write(tmp_path / "x.tsv", "\n".join(lines))
    assume(path.read_bytes().strip())
    expected = naive(lines)
    if isinstance(expected, list):
        assert rows(path, separator="tab", header=False, columns="hrt") == expected
    else:
        with pytest.raises(DataError, match=rf"x.tsv:{expected}: "):
            rows(path, separator="tab", header=False, columns="hrt")


def test_a_name_that_is_a_carriage_return_alone_is_empty(tmp_path):
    with pytest.raises(DataError, match=r"x.tsv:2: the tail is empty"):
        rows(write(tmp_path / "x.tsv", "a\tr\tb\na\tr\t\r\r\n"))


@round_trip
@given(triples=triples_of(csv_names))
def test_any_names_survive_a_quoted_csv_file(tmp_path, triples):
    quoted = [",".join('"' + name.replace('"', '""') + '"' for name in row) for row in triples]
    path = write(tmp_path / "x.csv", "\n".join(quoted))
    assert rows(path, separator="comma", header=False, columns="hrt") == triples


@round_trip
@given(triples=triples_of(csv_names))
def test_any_names_survive_a_parquet_file(tmp_path, triples):
    frame = pl.DataFrame(triples, schema=["head", "relation", "tail"], orient="row")
    frame.select("tail", "head", "relation").write_parquet(tmp_path / "x.parquet")
    assert rows(tmp_path / "x.parquet") == triples


def test_parquet_columns_without_known_names_are_taken_in_order(tmp_path):
    path = tmp_path / "x.parquet"
    pl.DataFrame({"a": [1, 2], "b": ["r", "q"], "c": ["x", "y"], "label": [1, -1]}).write_parquet(
        path
    )
    table = read_triples(path)
    assert table.frame.rows() == [("1", "r", "x"), ("2", "q", "y")]
    assert np.array_equal(table.labels, [1, -1])
    assert rows(path, columns="trh")[0] == ("x", "r", "1")


def test_bad_parquet_files_are_refused(tmp_path):
    path = write(tmp_path / "x.parquet", b"PAR1 rubbish PAR1")
    with pytest.raises(DataError, match=r"x.parquet: cannot be read as Parquet"):
        read_triples(path)
    pl.DataFrame({"a": ["x"], "b": ["y"]}).write_parquet(path)
    with pytest.raises(DataError, match="expected columns head, relation and tail, found a, b"):
        read_triples(path)
    pl.DataFrame({"h": ["x", "x"], "r": ["y", None], "t": ["z", "z"]}).write_parquet(path)
    with pytest.raises(DataError, match="row 2: the relation is missing"):
        read_triples(path)
    pl.DataFrame({"h": [["x"]], "r": [{"y": 1}], "t": ["z"]}).write_parquet(path)
    with pytest.raises(DataError, match="not names"):
        read_triples(path)


def test_rdf_links_are_read_and_literals_left_out(tmp_path):
    pytest.importorskip("pyoxigraph")
    turtle = '@prefix : <http://x/> .\n:a :p :b ; :q "literal"@en, 5 .\n_:z :p [ :q :a ] .\n'
    path = write(tmp_path / "x.ttl.gz", gzip.compress(turtle.encode()))
    with pytest.warns(DataWarning, match="left out 2 triples whose object is a literal"):
        found = rows(path)
    assert ("http://x/a", "http://x/p", "http://x/b") in found
    assert {head for head, _, _ in found} == {"http://x/a", "_:z", "_:anonymous1"}


def test_a_bad_rdf_line_is_named(tmp_path):
    pytest.importorskip("pyoxigraph")
    path = write(tmp_path / "x.nt", "<http://a> <http://p> <http://b> .\n<http://a> <http://p> .\n")
    with pytest.raises(DataError, match=r"x.nt:2: "):
        read_triples(path)
    with pytest.raises(DataError, match="no such file"):
        read_triples(tmp_path / "no.nt")


@pytest.mark.parametrize("labels", [[1, -1, 0], [1.0, -1.0, None]])
def test_parquet_labels_that_are_neither_1_nor_minus_1_are_refused(tmp_path, labels):
    frame = pl.DataFrame(
        {"head": ["a"] * 3, "relation": ["r"] * 3, "tail": ["b", "c", "d"], "label": labels}
    )
    frame.write_parquet(tmp_path / "x.parquet")
    with pytest.raises(DataError, match="row 3: the label"):
        read_triples(tmp_path / "x.parquet")
    frame.head(2).write_parquet(tmp_path / "y.parquet")
    assert read_triples(tmp_path / "y.parquet").labels.tolist() == [1, -1]
