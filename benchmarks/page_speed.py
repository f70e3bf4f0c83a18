"""How long someone in front of the page waits, on a graph of any size, measured in Chromium.

    python benchmarks/page_speed.py RUN [--times 10]

It serves a copy of the run with --review.  Each kind of view is opened several times, for another
entity, relation or text each time, so that nothing comes from a cache; times are from the click to
the frame that shows the answer, by the browser's own clock.  The first time is given apart, since
some of what it finds serves the later ones as well.
"""

import argparse
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
from common import finish
from selenium import webdriver

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage")

READY = "document.body.dataset.ready === '1'"
# To the paint after next frame in which ``wanted`` holds, in milliseconds, or null after a minute.
UNTIL = """
const [wanted, begin] = arguments, done = arguments[arguments.length - 1];
const holds = new Function("return " + wanted), started = performance.now();
new Function(begin)();
(function look() {
  if (holds()) requestAnimationFrame(() => done(performance.now() - started));
  else if (performance.now() - started > 60000) done(null);
  else requestAnimationFrame(look);
})();
"""
# As a click on a link to this address, or the way back to it.
GO = (
    "history.pushState(null, '', '?{query}');"
    "dispatchEvent(new PopStateEvent('popstate', {{state: null}}));"
)
TYPE = (
    "const box = document.querySelector('.box[data-role={role}] input'); box.focus();"
    "box.value = {text!r}; box.dispatchEvent(new InputEvent('input', {{bubbles: true}}));"
)
OPTIONS = (
    "[...document.querySelectorAll('.box[data-role={role}] [role=option] .label')]"
    ".some((e) => e.textContent.toLowerCase().includes({text!r}))"
)
SHOWN = "!document.querySelector('.waiting') && document.querySelector({selector!r})"


def drawn(run, times):
    """Names to ask for, as (name, label): entities of random facts, and relations in turn."""
    from bilink.runs.loading import load

    graph = load(run).graph
    random = np.random.default_rng(0)
    chosen = random.permutation(graph.triples)[: 4 * times]
    entities, relations = graph.entities, graph.relations
    heads = [entities.names[h] for h in dict.fromkeys(chosen[:, 0].tolist())]
    counts = np.bincount(graph.triples[:, 1], minlength=len(relations))
    verbs = [relations.names[r] for r in np.argsort(-counts)[:times]]
    return graph, heads, verbs


def open_browser(folder):
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in (*FLAGS, f"--user-data-dir={folder}", "--window-size=1280,900"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    driver.set_script_timeout(90)
    return driver


def first_paints(driver, address, times):
    """Milliseconds from the request to the first text, and until the page can be used."""
    paints, ready = [], []
    for _ in range(times):
        driver.get(address)
        driver.execute_async_script(UNTIL, READY, "")
        ready.append(driver.execute_script("return performance.now()"))
        paints.append(
            driver.execute_script(
                "return performance.getEntriesByName('first-contentful-paint')[0].startTime"
            )
        )
    return {"first paint": paints, "page ready": ready}


def go(driver, query, wanted):
    return driver.execute_async_script(UNTIL, wanted, GO.format(query=urlencode(query)))


def measured(driver, address, graph, heads, relations, times):
    """Milliseconds of each kind of wait, in the order in which they were measured."""
    found = first_paints(driver, address, times)
    typed = []
    for name in heads[:times]:
        text = graph.entities.label(graph.entities.find(name)).lower()[:4]
        script = TYPE.format(role="head", text=text)
        typed.append(
            driver.execute_async_script(UNTIL, OPTIONS.format(role="head", text=text), script)
        )
    found["type-ahead"] = typed
    driver.get(address)
    driver.execute_async_script(UNTIL, READY, "")
    some = "#answers .arranged .rows > li, #answers .note, #answers .folded"
    pairs = zip(heads, np.resize(relations, len(heads)).tolist(), strict=True)
    asked = [{"head": head, "relation": relation} for head, relation in pairs][:times]
    found["question"] = [go(driver, q, SHOWN.format(selector=some)) for q in asked]
    card = "#card h2"
    found["relation card"] = [
        go(
            driver,
            {"card": f"relation:{name}"},
            SHOWN.format(selector=card) + f" && {titled(graph.relations, name)}",
        )
        for name in relations
    ]
    found["entity card"] = [
        go(
            driver,
            {"card": f"entity:{name}"},
            SHOWN.format(selector=card) + f" && {titled(graph.entities, name)}",
        )
        for name in heads[times : 2 * times]
    ]
    queue = SHOWN.format(selector=".queue .what")
    found["review queue"] = []
    for _ in range(times):
        found["review queue"].append(go(driver, {"view": "review"}, queue))
        go(driver, {}, SHOWN.format(selector=".welcome, #answers h1"))
    go(driver, {"view": "review"}, queue)
    found["decision"] = [
        driver.execute_async_script(
            UNTIL,
            f"document.querySelector('.progress b')?.textContent === '{i + 1}'",
            "document.querySelector('.queue li:not([data-decision]) [data-kind=unsure]').click()",
        )
        for i in range(times)
    ]
    return found


def titled(names, name):
    label = names.label(names.find(name))
    return f"document.querySelector('#card h2').textContent === {label!r}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--times", type=int, default=10)
    arguments = parser.parse_args()
    graph, heads, relations = drawn(arguments.run, arguments.times)
    place = Path(tempfile.mkdtemp())
    skipped = shutil.ignore_patterns("checkpoint*", "decisions*", "updates", ".lock")
    shutil.copytree(arguments.run, place / "run", ignore=skipped)
    command = [sys.executable, "-m", "bilink", "serve", str(place / "run"), "--review"]
    server = subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        address = re.search(r"http://\S+/", server.stdout.readline())[0]
        driver = open_browser(place / "profile")
        try:
            found = measured(driver, address, graph, heads, relations, arguments.times)
        finally:
            driver.quit()
    finally:
        server.send_signal(signal.SIGINT)
        try:
            server.wait(60)
        except subprocess.TimeoutExpired:
            server.kill()
            print("the server had to be killed", file=sys.stderr)
        shutil.rmtree(place, ignore_errors=True)
    rows = []
    for what, times in found.items():
        times = [float("inf") if t is None else t for t in times]
        print(what, [round(t) for t in times if t < float("inf")], file=sys.stderr)
        later = times[1:]
        rows.append(
            {
                "until it is shown": what,
                "graph": graph.name,
                "entities": len(graph.entities),
                "times": len(times),
                "first, ms": times[0],
                "median of the others, ms": float(np.median(later)),
                "longest of the others, ms": max(later),
            }
        )
    finish("page_speed", {"the page in Chromium": rows})


if __name__ == "__main__":
    main()
