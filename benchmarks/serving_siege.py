"""The holder of the token asks while others besiege the server; then 20,000 requests in a row.

    python benchmarks/serving_siege.py RUN [--half-open 1000] [--silent 1000] [--seconds 20]

Half-open connections have sent a part of a request, silent ones nothing.  Whoever is cut off
connects again, so that the siege lasts.  The ratio is that of waiting with and without the siege.
All traffic stays on the loopback address of this machine.
"""

import argparse
import json
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np
from common import finish
from serving_load import questions

TOKEN = "a-token-for-this-benchmark"
HALF = b"GET /api/info HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: "
WARM = 50  # requests before anything is measured


def start(run):
    """The server, which wants a token, in another process; its port."""
    command = [sys.executable, "-m", "bilink", "serve", str(run), "--port", "0"]
    environment = {**os.environ, "BILINK_TOKEN": TOKEN}
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    address = re.search(r"http://127\.0\.0\.1:(\d+)", server.stdout.readline())
    assert address, "the server did not start"
    return server, int(address[1])


def ask(port, path):
    """Seconds until one question is answered, from a new connection on."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    started = time.perf_counter()
    with urllib.request.urlopen(request, timeout=30) as answer:
        json.loads(answer.read())
    return time.perf_counter() - started


def ask_for(port, paths, seconds):
    """Seconds of each question that could be asked one after the other in that time."""
    found, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        found.append(ask(port, paths[len(found) % len(paths)]))
    return np.array(found)


class Siege(threading.Thread):
    """Connections that wait, and are made again when they are cut off."""

    def __init__(self, port, half_open, silent):
        super().__init__(daemon=True)
        self.port, self.wanted = port, [HALF] * half_open + [b""] * silent
        self.standing, self.cut_off, self.over = 0, 0, False

    def run(self):
        """Connect, and wait to be cut off."""
        waiting = selectors.DefaultSelector()
        todo = list(self.wanted)
        while not self.over:
            while todo and not self.over:
                data = todo.pop()
                try:
                    client = socket.create_connection(("127.0.0.1", self.port), timeout=5)
                    client.sendall(data)
                except OSError:
                    todo.append(data)
                    time.sleep(0.01)
                    break
                client.setblocking(False)
                waiting.register(client, selectors.EVENT_READ, data)
            self.standing = len(waiting.get_map())
            for key, _ in waiting.select(0.1):
                try:
                    if key.fileobj.recv(2**16):
                        continue
                except OSError:
                    pass
                waiting.unregister(key.fileobj)
                key.fileobj.close()
                todo.append(key.data)
                self.cut_off += 1
        for key in list(waiting.get_map().values()):
            key.fileobj.close()


def memory(server):
    """Megabytes that the server holds (Linux)."""
    pages = int(Path(f"/proc/{server.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def row(name, found):
    """What a person wants to know of some waiting times."""
    p50, p99 = np.percentile(found, [50, 99])
    return {
        "": name,
        "answers": len(found),
        "answers/s": len(found) / found.sum(),
        "p50, ms": 1000 * p50,
        "p99, ms": 1000 * p99,
        "longest, ms": 1000 * found.max(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--half-open", type=int, default=1000)
    parser.add_argument("--silent", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--requests", type=int, default=20_000)
    arguments = parser.parse_args()
    paths, graph = questions(arguments.run)
    server, port = start(arguments.run)
    try:
        for path in paths[:WARM]:
            ask(port, path)
        rows = [row("nobody else", ask_for(port, paths, arguments.seconds))]
        siege = Siege(port, arguments.half_open, arguments.silent)
        siege.start()
        rows.append(row("while they come", ask_for(port, paths, 2)))
        while siege.standing < 0.9 * len(siege.wanted):
            time.sleep(0.1)
        rows.append(row(f"{siege.standing:,} wait", ask_for(port, paths, arguments.seconds)))
        cut_off, siege.over = siege.cut_off, True
        siege.join()
        before = memory(server)
        many = np.array([ask(port, paths[i % len(paths)]) for i in range(arguments.requests)])
        growth = memory(server) - before
        rows.append(row(f"{arguments.requests:,} after it", many))
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(20)
    found = {
        "graph": graph.name,
        "cut off": cut_off,
        "p99 under siege / alone": rows[2]["p99, ms"] / rows[0]["p99, ms"],
        "server, MB": before,
        "growth after the requests, MB": growth,
    }
    finish("serving_siege", {"waiting of the token's holder": rows, "the server": [found]})


if __name__ == "__main__":
    main()
