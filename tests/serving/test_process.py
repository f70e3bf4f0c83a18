"""The server as a process: it starts, says where it is, survives rubbish, and ends."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

import bilink
from conftest import random_graph

pytest.importorskip("uvicorn", reason="uvicorn is not installed")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("process") / "run"
    bilink.train(random_graph(), "distmult", 4, epochs=1, threads=1, out=out)
    return out


def start(*arguments, **environment):
    command = [sys.executable, "-m", "bilink", "serve", *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, **pipes, text=True, env={**os.environ, **environment})


def get(address, **headers):
    request = urllib.request.Request(address, headers=headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def test_it_answers_after_rubbish_and_ends_when_told(run):
    server = start(run, "--port", "0")
    try:
        address = re.search(r"http://127\.0\.0\.1:(\d+)/", server.stdout.readline())
        assert address
        for rubbish in (
            b"\x16\x03\x01\x02\x00\x01\x00",  # someone speaks TLS
            b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 2**20,
            b"POST /api/score HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n{",
            b"POST /api/score HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
            b"GET /%00%ff/../x HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"\r\n" * 1000,
        ):
            with socket.create_connection(("127.0.0.1", int(address[1])), timeout=5) as client:
                try:
                    client.sendall(rubbish)
                    client.shutdown(socket.SHUT_WR)
                    assert b" 500 " not in client.recv(100)
                except OSError:
                    pass  # it hung up, as it may
        assert len(get(f"{address[0]}api/query?head=e1&relation=r1&k=5")["answers"]) == 5
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(60)
    assert "Traceback" not in server.stderr.read()


def test_away_from_home_it_makes_a_token_and_wants_it(run):
    server = start(run, "--port", "0", "--host", "0.0.0.0")
    try:
        found = re.search(r"http://0\.0\.0\.0:(\d+)/\?token=(\S+)", server.stdout.readline())
        address = f"http://127.0.0.1:{found[1]}/api/info"
        with pytest.raises(urllib.error.HTTPError, match="401"):
            get(address)
        assert get(address, Authorization=f"Bearer {found[2]}")["graph"] == "random"
    finally:
        server.kill()
        server.wait(60)


def test_a_token_of_the_environment_is_wanted_and_not_printed(run):
    server = start(run, "--port", "0", BILINK_TOKEN="not-for-the-log")
    try:
        printed = server.stdout.readline()
        address = re.search(r"http://127\.0\.0\.1:\d+/", printed)[0] + "api/info"
        assert "not-for-the-log" not in printed
        with pytest.raises(urllib.error.HTTPError, match="401"):
            get(address)
        assert get(address, Authorization="Bearer not-for-the-log")["graph"] == "random"
    finally:
        server.kill()
        server.wait(60)


def test_a_token_in_the_printed_address_is_quoted(run):
    server = start(run, "--port", "0", "--token", "a&b#c+d%41")
    try:
        address = re.search(r"http://\S+", server.stdout.readline())[0]
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        assert opener.open(address, timeout=30).status == 200
    finally:
        server.kill()
        server.wait(60)


def test_what_cannot_be_served_is_a_sentence(tmp_path):
    server = start(tmp_path / "nothing", "--port", "0")
    _, error = server.communicate(timeout=60)
    assert server.returncode == 1
    assert error.startswith("error: there is no run at")
