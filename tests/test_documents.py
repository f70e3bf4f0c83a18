"""JSON and TOML that anybody may have written: a value of the right kind, or one sentence."""

import os
from dataclasses import dataclass

import pytest

from bilink._documents import (
    DEEPEST_KEY,
    parse_json,
    read_bytes,
    read_json,
    read_json_lines,
    read_toml,
)
from bilink.errors import LONGEST, ConfigError, RunError


@dataclass(frozen=True)
class Point:
    name: str
    x: float
    tags: list[str] | None = None


def test_values_have_the_types_that_are_asked_for(tmp_path):
    path = tmp_path / "point.json"
    path.write_text('{"name": "a", "x": 1, "more": true}')
    assert read_json(path, Point) == Point("a", 1.0)
    path.write_text('name = "a"\nx = 0.5\ntags = ["b"]')
    assert read_toml(path, Point) == Point("a", 0.5, ["b"])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Expecting value"),
        ("{", "damaged"),
        ("[]", "object"),
        ('{"x": 1}', "name"),
        ('{"name": 1, "x": 1}', "name"),
        ('{"name": "a", "x": "1"}', "x"),
        ('{"name": "a", "x": true}', "x"),
        ('{"name": "a", "x": NaN}', "not finite"),
        ('{"name": "a", "x": -Infinity}', "not finite"),
        ('{"name": "a", "x": 1e999}', "not finite"),
        ('{"name": "a", "x": 1' + 400 * "0" + "}", "range"),
        ('{"name": "a", "x": 1' + 5000 * "0" + "}", "digits"),
        ('{"name": "a", "x": 1, "tags": [2]}', "tags"),
        (100_000 * "[", "nested"),
        (100_000 * '{"name":', "nested"),
    ],
)
def test_any_other_json_is_one_sentence_with_the_file(tmp_path, text, reason):
    path = tmp_path / "point.json"
    path.write_text(text)
    with pytest.raises(RunError, match=reason) as refused:
        read_json(path, Point)
    assert str(refused.value).startswith(str(path))
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize(
    "text",
    [
        "x = ",
        'name = "a"',
        "name = 1979-05-27\nx = 1",
        f"x = {100_000 * '['}",
        f"x = 1{5000 * '0'}",
        f"{'.'.join(100_000 * 'a')} = 1",
        f"name = {{ {'.'.join(100_000 * 'a')} = 1 }}",
        f"[{'.'.join(100_000 * 'a')}]",
        'name = "' + 2**20 * "a" + '"\nx = 1',
    ],
)
def test_any_other_toml_is_one_sentence_with_the_file(tmp_path, text):
    path = tmp_path / "point.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        read_toml(path, Point, ConfigError)
    assert str(refused.value).startswith(str(path))
    assert len(str(refused.value)) < 500


def test_keys_that_people_write_are_not_too_deep(tmp_path):
    path = tmp_path / "deep.toml"
    path.write_text(f"{'.'.join(DEEPEST_KEY * 'a')} = '{30 * 'a.'}'")
    with pytest.raises(RunError, match="parts"):  # a text of that kind is not told from a key
        read_toml(path, dict)
    path.write_text(f"{'.'.join(DEEPEST_KEY * 'a')} = 1")
    assert read_toml(path, dict)


def test_text_that_is_not_utf_8_is_a_sentence(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(b'name = "\xff"')
    with pytest.raises(RunError, match="not UTF-8"):
        read_toml(path, dict)
    with pytest.raises(RunError, match="damaged"):
        read_json(path, dict)


def test_lines_are_read_up_to_the_first_damaged_one(tmp_path):
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": 2}\n{"a": NaN}\n{"a": 4}\n')
    assert read_json_lines(path, dict[str, int]) == [{"a": 1}, {"a": 2}]
    path.write_bytes(b'{"a": 1}\n{"a": 2')
    assert read_json_lines(path, dict[str, int]) == [{"a": 1}]


def test_only_regular_files_of_limited_size_are_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(RunError, match="no regular file"):
            read_bytes(tmp_path / name)
    with pytest.raises(RunError, match="No such file"):
        read_bytes(tmp_path / "none")
    with pytest.raises(RunError, match="null"):
        read_bytes(tmp_path / "a\0b")
    (tmp_path / "long").write_bytes(b"12345")
    assert read_bytes(tmp_path / "long", most=5) == b"12345"
    with pytest.raises(RunError, match="more than 4 bytes"):
        read_bytes(tmp_path / "long", most=4)


def test_lone_surrogates_in_names_are_kept(tmp_path):
    assert parse_json('"\\ud800"', str, "name") == "\ud800"
    assert parse_json('{"\\ud800": "a"}', dict[str, str], "labels") == {"\ud800": "a"}
    with pytest.raises(RunError, match="damaged"):
        parse_json('{"\\ud800": "a"}', Point, "point")


def test_messages_have_a_limit_whatever_they_quote():
    assert len(str(RunError("a" * 10**6))) <= LONGEST + 3
