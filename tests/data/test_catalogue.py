"""Graphs known by name, and their download from a server that may misbehave."""

import hashlib
import io
import os
import tarfile
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bilink.data import catalogue, download
from bilink.data.loading import load_graph
from bilink.errors import DataError

SPLITS = {
    "train": b"a\tr\tb\nb\tr\tc\nc\tr\ta\n" * 1000,
    "valid": b"a\tr\tc\n",
    "test": b"b\tr\ta\n",
}
SUMS = tuple(hashlib.sha256(data).hexdigest() for data in SPLITS.values())


def archive(files=None, compression="gz"):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=f"w:{compression}") as tar:
        for name, data in (files or {f"toy/{s}.txt": d for s, d in SPLITS.items()}).items():
            member = tarfile.TarInfo(name)
            if isinstance(data, str):
                member.type, member.linkname, data = tarfile.SYMTYPE, data, b""
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


class Server(ThreadingHTTPServer):
    """Serves ``content``; each request is cut after the next of ``cuts`` bytes, if there is one."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.content, self.ranges, self.etag = archive(compression=""), True, '"v1"'
        self.cuts, self.statuses, self.location, self.log = [], [], None, []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/toy.tar.gz"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server, asked = self.server, self.headers.get("Range")
        server.log.append(asked)
        if server.statuses:
            self.send_response(server.statuses.pop(0))
            if server.location:
                self.send_header("Location", server.location)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        resumes = asked and server.ranges and self.headers.get("If-Range") == server.etag
        start = int(asked[6:-1]) if resumes else 0
        body = server.content[start:]
        self.send_response(206 if resumes else 200)
        if resumes:
            total = len(server.content)
            self.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
        if server.etag:
            self.send_header("ETag", server.etag)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: server.cuts.pop(0)] if server.cuts else body)

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    with Server() as running:
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        yield running
        running.shutdown()


@pytest.fixture
def cache(tmp_path, monkeypatch, server):
    toy = replace(catalogue.ENTRIES["nations"], name="toy", sha256=SUMS, urls=(server.url,))
    monkeypatch.setattr(catalogue, "ENTRIES", {**catalogue.ENTRIES, "toy": toy})
    monkeypatch.setattr(download, "WAIT", 0.0)
    monkeypatch.delenv("BILINK_DATA", raising=False)
    monkeypatch.setenv("BILINK_CACHE", str(tmp_path))
    return tmp_path / "datasets"


def assert_complete(cache):
    found = {path.stem: path.read_bytes() for path in (cache / "toy").iterdir()}
    assert found == SPLITS
    assert [path.name for path in cache.iterdir()] == ["toy"]  # and nothing half done


def test_a_graph_is_downloaded_verified_and_then_found(cache, server):
    with pytest.raises(DataError, match="fetch it with: bilink data get toy"):
        catalogue.resolve("toy")
    seen = []
    folder = catalogue.get("toy", progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (len(server.content), len(server.content))
    assert folder == catalogue.resolve("TOY") == catalogue.verify("toy") == cache / "toy"
    assert_complete(cache)
    catalogue.get("toy")
    assert len(server.log) == 1  # the second time there was nothing to fetch


@pytest.mark.parametrize("compression", ["", "gz", "bz2"])
def test_crlf_line_ends_and_original_names_are_accepted(cache, server, compression):
    files = {
        f"FB15k/freebase_mtr100_mte100-{split}.txt": data.replace(b"\n", b"\r\n")
        for split, data in SPLITS.items()
    }
    server.content = archive(files, compression)
    catalogue.get("toy")
    assert_complete(cache)


def test_a_download_goes_on_where_it_was_cut(cache, server):
    server.cuts = [5000, 1000]
    catalogue.get("toy")
    assert server.log == [None, "bytes=5000-", "bytes=6000-"]
    assert_complete(cache)


def test_a_download_goes_on_in_another_call(cache, server):
    server.cuts = [5000, 0, 0, 0]
    with pytest.raises(DataError, match=r"ended after 5,000 of .* bytes \(4 attempts\)"):
        catalogue.get("toy")
    assert not (cache / "toy").exists()
    catalogue.get("toy")
    assert server.log[-1] == "bytes=5000-"
    assert_complete(cache)


@pytest.mark.parametrize(("ranges", "etag"), [(False, '"v1"'), (True, None), (True, 'W/"weak"')])
def test_a_server_that_cannot_resume_makes_it_start_again(cache, server, ranges, etag):
    server.ranges, server.etag, server.cuts = ranges, etag, [5000]
    catalogue.get("toy")
    assert_complete(cache)


def test_a_file_that_changed_in_between_is_fetched_from_the_start(cache, server):
    server.content, right = b"old" * 5000, server.content
    server.cuts = [5000, 0, 0, 0]
    with pytest.raises(DataError):
        catalogue.get("toy")
    server.content, server.etag = right, '"v2"'
    catalogue.get("toy")
    assert_complete(cache)


def test_passing_faults_are_tried_again_and_lasting_ones_are_not(cache, server):
    server.statuses = [503, 416]
    catalogue.get("toy")
    assert_complete(cache)
    (cache / "toy").rename(cache / "old")
    server.statuses, server.log = [404], []
    with pytest.raises(DataError, match="the server answers 404"):
        catalogue.get("toy")
    assert len(server.log) == 1


def test_the_next_address_is_tried_where_one_fails(cache, server, monkeypatch):
    toy = catalogue.ENTRIES["toy"]
    entries = {"toy": replace(toy, urls=(server.url + "?1", server.url))}
    monkeypatch.setattr(catalogue, "ENTRIES", entries)
    server.statuses = [404]
    catalogue.get("toy")
    assert_complete(cache)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (archive({"train.txt": b"x", "valid.txt": b"y", "test.txt": b"z"}), "no train or valid or"),
        (archive({"train.txt": SPLITS["train"]}), "no valid or test split with the expected check"),
        (archive()[:100], "corrupt"),
        (b"<html>not found</html>", "corrupt"),
    ],
)
def test_wrong_content_is_refused_and_removed(cache, server, content, message):
    server.content = content
    with pytest.raises(DataError, match=message):
        catalogue.get("toy")
    assert list(cache.iterdir()) == []


def test_a_hostile_archive_writes_nothing_outside(cache, server, tmp_path):
    good = {f"../../{split}.txt": data for split, data in SPLITS.items()}
    server.content = archive(
        {"train.txt": "/etc/passwd", "../../evil.txt": b"x", "/tmp/bilink-evil": b"x", **good}
    )
    catalogue.get("toy")
    assert_complete(cache)  # the contents are right, and the names were not used as paths
    assert [path.name for path in tmp_path.iterdir()] == ["datasets"]


def test_sizes_are_limited(cache, server, monkeypatch):
    monkeypatch.setattr(download, "UNPACKED_LIMIT", 1000)
    with pytest.raises(DataError, match="unpacks to more than 1,000 bytes"):
        catalogue.get("toy")
    monkeypatch.setattr(download, "ARCHIVE_LIMIT", 1000)
    with pytest.raises(DataError, match="more than expected"):
        catalogue.get("toy")
    assert list(cache.iterdir()) == []


def test_only_https_is_fetched_even_after_a_redirect(cache, server, tmp_path):
    for url in ("http://example.org/x", "file:///etc/passwd", "ftp://localhost/x"):
        with pytest.raises(DataError, match="only https is allowed"):
            download.fetch(url, tmp_path / "x")
    server.statuses, server.location = [302], "http://example.org/x"
    with pytest.raises(DataError, match="only https is allowed"):
        catalogue.get("toy")


def test_bilink_data_goes_before_the_cache(cache, tmp_path, monkeypatch):
    catalogue.get("toy")
    monkeypatch.setenv("BILINK_DATA", str(tmp_path / "mine"))
    assert catalogue.resolve("toy") == cache / "toy"
    (tmp_path / "mine" / "toy").mkdir(parents=True)
    assert catalogue.resolve("toy") == tmp_path / "mine" / "toy"
    with pytest.raises(DataError, match="the train split of toy is missing"):
        catalogue.verify("toy")


def test_a_changed_file_is_noticed(cache):
    folder = catalogue.get("toy")
    (folder / "valid.txt").write_bytes(b"a\tr\tb\n")
    with pytest.raises(DataError, match=r"valid.txt: this is not the published valid split of toy"):
        catalogue.get("toy")


def test_unknown_names_get_a_suggestion(cache):
    with pytest.raises(DataError, match="did you mean wn18rr"):
        catalogue.resolve("wn18r")
    with pytest.raises(DataError, match=r"'zzz' is neither .* \(atlas, wn18, "):
        load_graph("zzz")


def test_a_graph_without_an_address_says_where_to_put_it(cache):
    with pytest.raises(DataError, match=r"hsgene cannot be downloaded; .* BILINK_DATA"):
        catalogue.get("hsgene")


def test_the_embedded_graph_is_as_the_catalogue_says():
    if not catalogue._embedded_folder("atlas").is_dir():
        pytest.skip("the embedded graph is not in this checkout")
    assert_sizes(catalogue.entry("atlas"))


def test_a_missing_embedded_graph_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr(catalogue, "_embedded_folder", lambda name: tmp_path / name)
    with pytest.raises(DataError, match="the embedded graph atlas is missing"):
        catalogue.resolve("atlas")


def assert_sizes(entry):
    graph = load_graph(entry.name)
    assert len(graph.entities) == entry.entities
    assert len(graph.relations) == entry.relations
    assert (len(graph.train), len(graph.valid), len(graph.test)) == entry.triples


@pytest.mark.realdata
@pytest.mark.skipif("BILINK_DATA" not in os.environ, reason="BILINK_DATA is not set")
@pytest.mark.filterwarnings("ignore::bilink.errors.DataWarning")
@pytest.mark.parametrize("name", [name for name in catalogue.ENTRIES if name != "atlas"])
def test_the_published_graphs_are_as_the_catalogue_says(name):
    catalogue.verify(name)
    assert_sizes(catalogue.entry(name))
