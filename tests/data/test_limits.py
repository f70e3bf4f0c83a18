"""How much a file may hold, before memory is taken for it."""

import gzip

import pytest

from bilink import _documents
from bilink.data import limits
from bilink.data.loading import load_graph
from bilink.data.text import read_pairs
from bilink.errors import ConfigError, DataError, RunError


def rows(n):
    return b"".join(b"e%d\tr\te%d\n" % (i, i * 7 % n) for i in range(n))


def write(path, content):
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("content", [rows(1000), gzip.compress(rows(1000))])
def test_a_file_over_the_limit_is_refused_and_the_limit_can_be_changed(
    tmp_path, monkeypatch, content
):
    path = write(tmp_path / "graph.tsv", content)
    monkeypatch.setenv("BILINK_MAX_BYTES", "5kB")
    with pytest.raises(DataError, match=r"more than 5,000 bytes when unpacked.*MAX_BYTES="):
        load_graph(path)
    monkeypatch.setenv("BILINK_MAX_BYTES", "1MB")
    assert load_graph(path).triples.shape == (1000, 3)


def test_a_bomb_is_not_unpacked(tmp_path, monkeypatch):
    path = write(tmp_path / "graph.tsv.gz", gzip.compress(bytes(50_000_000)))
    monkeypatch.setenv("BILINK_MAX_BYTES", "20MB")
    monkeypatch.setattr(limits, "_BLOCK", 1 << 20)
    sizes = []
    check = limits.check_bytes
    monkeypatch.setattr(limits, "check_bytes", lambda p, n: (sizes.append(n), check(p, n)))
    with pytest.raises(DataError, match="more than 20,000,000 bytes"):
        load_graph(path)
    assert max(sizes) < 22_000_000


@pytest.mark.parametrize("content", [b"\n" * 5000 + rows(3), b"a" + b"\t" * 5000 + b"\n"])
def test_a_file_of_nothing_but_separators_is_refused(tmp_path, monkeypatch, content):
    path = write(tmp_path / "graph.tsv", content)
    monkeypatch.setenv("BILINK_MAX_BYTES", "10kB")
    with pytest.raises(DataError, match=r"more than 1,250 fields or empty lines.*MAX_BYTES="):
        load_graph(path)
    if content[:1] == b"\n":
        monkeypatch.setenv("BILINK_MAX_BYTES", "100kB")
        assert len(load_graph(path).triples) == 3


def test_labels_are_limited_too(tmp_path, monkeypatch):
    monkeypatch.setenv("BILINK_MAX_BYTES", "10kB")
    with pytest.raises(DataError, match="fields or empty lines"):
        read_pairs(write(tmp_path / "entity_labels.tsv", b"a\tb\n" * 1000))


def test_what_does_not_fit_into_memory_is_refused(tmp_path, monkeypatch):
    path = write(tmp_path / "graph.tsv", rows(1000))
    monkeypatch.setattr(limits, "available_memory", lambda: 1e5)
    with pytest.raises(DataError, match=r"takes about \d+kB of memory, and 100kB are left"):
        load_graph(path)
    monkeypatch.setattr(_documents, "available_memory", lambda: 10)
    with pytest.raises(RunError, match="too many for the memory that is left"):
        _documents.read_json(write(tmp_path / "a.json", b"[1]"), list[int])


@pytest.mark.parametrize("size", ["many", "-1", "3XB", "9" * 40])
def test_a_limit_that_is_no_size_is_refused(monkeypatch, size):
    monkeypatch.setenv("BILINK_MAX_BYTES", size)
    with pytest.raises(ConfigError, match="must be a size, for example 8GB"):
        limits.most_bytes()
