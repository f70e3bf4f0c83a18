"""Requests per second and latency of top-10 (h, r, ?) over HTTP, from wrk on the same machine.

    python benchmarks/serving_load.py RUN [--connections 8] [--seconds 20]

The server's CPU time per request is what other work on the machine disturbs least.  Every request
is another question: heads and relations of the run's own facts, drawn at random, and
no two the same as far as the graph has enough, so that no cache can help.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
from common import finish

LUA = """
local paths = {}
for line in io.lines(os.getenv("BILINK_PATHS")) do paths[#paths + 1] = line end
local thread_count = 0
function setup(thread) thread:set("offset", thread_count); thread_count = thread_count + 1 end
local place = 0
request = function()
  place = place + 1
  return wrk.format("GET", paths[(offset * 7919 + place) % #paths + 1])
end
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    '{"requests": %d, "microseconds": %d, "bytes": %d, "not 2xx": %d, "socket errors": %d, ' ..
    '"p50": %g, "p90": %g, "p99": %g, "max": %g}\\n',
    summary.requests, summary.duration, summary.bytes, e.status,
    e.connect + e.read + e.write + e.timeout,
    latency:percentile(50), latency:percentile(90), latency:percentile(99), latency.max))
end
"""


def questions(run, limit=20_000):
    """Paths of distinct questions."""
    from bilink.runs.loading import load

    graph = load(run).graph
    pairs = np.unique(graph.triples[:, :2], axis=0)
    pairs = np.random.default_rng(0).permutation(pairs)[:limit]
    names, verbs = graph.entities.names, graph.relations.names
    rows = [{"head": names[h], "relation": verbs[r], "k": 10} for h, r in pairs.tolist()]
    return [f"/api/v1/query?{urlencode(row)}" for row in rows], graph


def start(run):
    """The server in another process, and its address once it answers."""
    command = [sys.executable, "-m", "bilink", "serve", str(run), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    address = re.search(r"http://[^/]+", server.stdout.readline())
    assert address, "the server did not start"
    for _ in range(100):
        try:
            urllib.request.urlopen(address[0] + "/api/v1/info", timeout=5).read()
            return server, address[0]
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("the server does not answer")


def cpu_seconds(server):
    """What the server has computed so far (Linux)."""
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wrk(address, paths, connections, seconds):
    """What wrk measures."""
    with tempfile.TemporaryDirectory() as folder:
        script, listed = Path(folder) / "ask.lua", Path(folder) / "paths"
        script.write_text(LUA)
        listed.write_text("\n".join(paths) + "\n")
        done = subprocess.run(
            ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", script, address],
            capture_output=True,
            text=True,
            env={**os.environ, "BILINK_PATHS": str(listed)},
            check=True,
        )
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 4, 8, 16])
    parser.add_argument("--seconds", type=int, default=20)
    arguments = parser.parse_args()
    if not shutil.which("wrk"):
        sys.exit("this benchmark needs wrk")
    paths, graph = questions(arguments.run)
    copy = Path(tempfile.mkdtemp()) / "run"  # the server keeps its probabilities in it
    shutil.copytree(arguments.run, copy, ignore=shutil.ignore_patterns("checkpoint*", ".lock"))
    server, address = start(copy)
    rows = []
    try:
        wrk(address, paths[::-1], 2, 2)  # warm
        for connections in arguments.connections:
            before = cpu_seconds(server)
            found = wrk(address, paths, connections, arguments.seconds)
            spent = cpu_seconds(server) - before
            rows.append(
                {
                    "graph": graph.name,
                    "entities": len(graph.entities),
                    "cores": os.cpu_count(),
                    "connections": connections,
                    "requests": found["requests"],
                    "distinct questions": len(paths),
                    "requests/s": found["requests"] / found["microseconds"] * 1e6,
                    **{f"{key}, ms": found[key] / 1000 for key in ("p50", "p90", "p99", "max")},
                    "server CPU, ms/request": 1000 * spent / found["requests"],
                    "failed": found["not 2xx"] + found["socket errors"],
                }
            )
            print(rows[-1], flush=True)
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(10)
        shutil.rmtree(copy.parent)
    finish("serving_load", {"top-10 (h, r, ?) over HTTP": rows})


if __name__ == "__main__":
    main()
