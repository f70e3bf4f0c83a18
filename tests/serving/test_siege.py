"""The server under siege: clients that are slow, silent, many, or guess the token."""

import asyncio
import json
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from http.client import HTTPConnection, RemoteDisconnected

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")

from small import hostile_run

from bilink.serving import connections, guard
from bilink.serving.app import make_app
from bilink.serving.connections import make_server
from bilink.serving.guard import network
from bilink.serving.server import _listen
from bilink.serving.tokens import WrongTokens

TOKEN = "correct-horse"
HALF = b"GET / HTTP/1.1\r\nHost: loc"
MEMORY_OF_SYSTEM = 2**23  # bytes of an answer that the system's own buffers surely do not hold


@contextmanager
def served(app, **limits):
    """The port of a server for ``app`` on a thread of this process."""
    with _listen("127.0.0.1", 0) as listener:
        server = make_server(app, local=True, **limits)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(60)
            assert not thread.is_alive()


@pytest.fixture(scope="module")
def app():
    return make_app(hostile_run(), token=TOKEN)


@pytest.fixture
def impatient(monkeypatch):
    """All time-outs are short."""
    for name in ("REQUEST_SECONDS", "BODY_SECONDS", "READING_SECONDS"):
        monkeypatch.setattr(connections, name, 0.5)


def connect(port, data=b""):
    client = socket.create_connection(("127.0.0.1", port), timeout=60)
    client.sendall(data)
    return client


def was_closed(client):
    """Whether the server hangs up within the time-out of the client."""
    try:
        while client.recv(2**16):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


def is_open(client):
    client.setblocking(False)
    try:
        return bool(client.recv(1))
    except BlockingIOError:
        return True
    except OSError:
        return False


def ask(port, token=TOKEN, path="/api/info"):
    """The status and the answer of one request."""
    asking = HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        asking.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        answer = asking.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        asking.close()


# -- slow and silent ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"",
        HALF,
        b"POST /api/score HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",  # answered; then idle
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" + HALF,
    ],
)
def test_who_keeps_the_server_waiting_is_cut_off(app, impatient, data):
    with served(app) as port, connect(port, data) as client:
        assert was_closed(client)
        assert ask(port)[0] == 200


def test_a_header_that_comes_drop_by_drop_is_cut_off(app, impatient):
    def drip(client):
        for _ in range(1200):
            client.sendall(b"x")
            time.sleep(0.05)

    with served(app) as port, connect(port, HALF) as client, pytest.raises(ConnectionError):
        drip(client)


def test_a_body_that_stops_is_refused_with_a_sentence(app, monkeypatch):
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.3)
    head = f"POST /api/score HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
    half = f"{head}Content-Length: 9\r\n\r\n{{"
    with served(app) as port, connect(port, half.encode()) as client:
        answer = b"".join(iter(lambda: client.recv(2**16), b""))  # until it hangs up
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"took too long" in answer


def test_who_never_reads_is_cut_off(impatient):
    gone = threading.Event()

    async def long(scope, receive, send):
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            body = {"type": "http.response.body", "body": b"x" * MEMORY_OF_SYSTEM}
            await send({**body, "more_body": True})
            while (await receive())["type"] != "http.disconnect":
                pass
            gone.set()

    with served(long) as port, connect(port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n") as client:
        assert gone.wait(60)
        read = 0
        try:
            while data := client.recv(2**20):
                read += len(data)
        except ConnectionError:
            pass
        assert read < MEMORY_OF_SYSTEM


# -- many -----------------------------------------------------------------------------------------


def test_a_full_house_lets_the_one_leave_that_has_waited_longest(app):
    with served(app, total=8) as port:
        crowd = [connect(port, data) for data in (b"", HALF) * 4]
        assert ask(port)[0] == 200  # a newcomer, though all places are taken
        assert was_closed(crowd[0])
        assert all(is_open(client) for client in crowd[2:])
        for client in crowd:
            client.close()


def test_a_crowd_that_comes_back_does_not_shut_out_who_asks(app):
    with served(app, total=16) as port:
        enough = threading.Event()

        def besiege(data):
            while not enough.is_set():
                try:
                    with connect(port, data) as client:
                        was_closed(client)
                except OSError:
                    pass

        crowd = [threading.Thread(target=besiege, args=[d]) for d in (b"", HALF) * 24]
        for thread in crowd:
            thread.start()
        try:
            assert {ask(port)[0] for _ in range(30)} == {200}
        finally:
            enough.set()
            for _ in range(4 * len(crowd)):  # so that the last ones leave, too
                connect(port).close()
    for thread in crowd:
        thread.join(20)
    assert not any(thread.is_alive() for thread in crowd)


def slow_app(gate):
    async def answer(scope, receive, send):
        if scope["type"] == "http":
            while not gate.is_set():
                await asyncio.sleep(0.01)
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"done"})

    return answer


@pytest.mark.parametrize("limits", [{"total": 3}, {"total": 50, "per_address": 3}])
def test_only_if_all_are_being_answered_a_newcomer_is_refused(limits, impatient):
    gate, whole = threading.Event(), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    with served(slow_app(gate), **limits) as port:
        busy = [connect(port, whole) for _ in range(3)]
        time.sleep(3)  # longer than any time-out
        with connect(port) as late:
            refusal = late.recv(2**16)
        assert refusal.startswith(b"HTTP/1.1 503")
        assert "busy" in json.loads(refusal.partition(b"\r\n\r\n")[2])["error"]
        gate.set()
        for client in busy:
            assert client.recv(2**16).startswith(b"HTTP/1.1 200")
            client.close()


def test_addresses_of_one_network_count_as_one():
    assert network("192.0.2.7") == "192.0.2.7"
    assert network("2001:db8:1:2::7") == network("2001:db8:1:2:ffff::1") != network("2001:db8::")
    assert network("fe80::1%eth0") == network("fe80::2%eth0")
    assert network("") == ""


def test_few_open_files_mean_few_connections():
    pytest.importorskip("resource", reason="this system does not limit open files")
    code = (
        "import resource, sys; from bilink.serving.connections import most_connections\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, tuple(map(int, sys.argv[1:])))\n"
        "print(most_connections(), resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )

    def found(soft, hard):
        command = [sys.executable, "-c", code, str(soft), str(hard)]
        return [int(word) for word in subprocess.check_output(command).split()]

    allowed, limit = found(256, 1024)
    assert limit == 1024
    assert 500 < allowed < limit
    assert found(64, 64)[0] == connections.LEAST


def test_rubbish_in_a_body_after_the_answer_prints_nothing(app, capfd):
    head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    with served(app) as port, connect(port, head) as client:
        assert client.recv(2**16).startswith(b"HTTP/1.1 401")
        client.sendall(b"rubbish\r\n")
        assert was_closed(client)
    assert capfd.readouterr().err == ""


# -- wrong tokens ---------------------------------------------------------------------------------


def test_wrong_tokens_wait_longer_and_longer_but_not_for_ever(monkeypatch):
    wrong = WrongTokens()
    delays = [wrong.delay("here") for _ in range(5000)]
    assert delays[: wrong.FREE] == [0] * wrong.FREE
    assert delays == sorted(delays)
    assert 0 < delays[wrong.FREE] < delays[-1] == wrong.MOST
    assert wrong.delay("elsewhere") == 0
    later = time.monotonic() + 2 * wrong.MEMORY
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert wrong.delay("here") == 0


def test_the_memory_of_wrong_tokens_is_limited():
    wrong = WrongTokens()
    for i in range(3 * wrong.ADDRESSES):
        wrong.delay(f"address {i}")
    assert len(wrong._known) == wrong.ADDRESSES


def test_a_guesser_is_slowed_down_and_the_holder_beside_him_is_not(monkeypatch):
    monkeypatch.setattr(WrongTokens, "FIRST", 60.0)
    monkeypatch.setattr(WrongTokens, "MOST", 60.0)
    with served(make_app(hostile_run(), token=TOKEN), total=8) as port:
        for _ in range(WrongTokens.FREE):
            assert ask(port, "wrong-token")[0] == 401
        guess = b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer wrong-token\r\n\r\n"
        crowd = [connect(port, guess) for _ in range(8)]
        time.sleep(1)
        assert all(map(is_open, crowd))  # they wait, and fill the house, but may be sent away
        for _ in range(3):
            assert ask(port)[0] == 200
        assert not is_open(crowd[0])
        for client in crowd:
            client.close()


def test_a_connection_with_a_wrong_token_is_closed(app):
    with served(app) as port:
        asking = HTTPConnection("127.0.0.1", port, timeout=60)
        asking.request("GET", "/api/info", headers={"Authorization": "Bearer wrong"})
        assert asking.getresponse().getheader("connection") == "close"


# -- hosts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["Host: [::1\r\n", "Host: a b\r\n", "", "Host: a\r\nHost: b\r\n"])
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_request_without_a_proper_host_is_refused(app, host, version):
    request = f"GET / HTTP/{version}\r\n{host}\r\n".encode()
    with served(app) as port, connect(port, request) as client:
        assert client.recv(2**16).startswith(b"HTTP/1.1 400")


# -- the end --------------------------------------------------------------------------------------


def test_silent_clients_do_not_keep_the_server_from_ending(app, monkeypatch):
    for name in ("REQUEST_SECONDS", "BODY_SECONDS", "READING_SECONDS"):
        monkeypatch.setattr(connections, name, 3600)  # nobody leaves because of these
    with served(app) as port:
        crowd = [connect(port, data) for data in (b"", HALF)]
        ask(port)
    with pytest.raises((ConnectionError, RemoteDisconnected)):
        ask(port)
    for client in crowd:
        client.close()
