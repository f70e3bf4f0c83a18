"""Look at the explorer in Chromium: one PNG for each view, size and colour scheme.

python tools/make_screenshots.py FOLDER RUN... [--only NAME] [--whole]

The runs are served with --review.  The first one is copied before, so that its decisions stay as
they are; a few new facts are decided in the copy, and it is updated.
"""

import argparse
import base64
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
SIZES = {"desktop": (1280, 860), "phone": (375, 780)}
ASKED = "?head=Chile&relation=official+language"
WHY = "document.querySelector('#answers [aria-expanded]').click()"
UNFOLD = "document.querySelectorAll('details').forEach((e) => { e.open = true; })"
LIKELY = (
    "[...document.querySelectorAll('button')].find((e) => e.textContent === 'Likely links').click()"
)
DECIDE = "document.querySelectorAll('.decide [data-kind=unsure]')[1].click()"
CURL = (
    "[...document.querySelectorAll('button')].find((e) => e.textContent === 'Copy as curl').click()"
)
FORM = "document.querySelectorAll('details')[0].open = true"
VIEWS = {  # address, and what is done there
    "welcome": ("", None),
    "query": (ASKED, None),
    "decided": (ASKED, DECIDE),
    "unfolded": ("?head=Austria&relation=borders", UNFOLD),
    "copied": (ASKED, CURL),
    "borders": ("?head=Austria&relation=borders&new=1", None),
    "pairs": ("?relation=borders", None),
    "which": ("?head=Austria&tail=Germany", None),
    "new": ("?view=new", None),
    "doubts": ("?view=doubts", None),
    "entity": ("?head=Zimbabwe&relation=official+language&card=entity:Zimbabwe", None),
    "relation": ("?head=Austria&relation=borders&card=relation:borders", None),
    "facts": ("?view=facts&head=Germany&relation=borders&side=tail", None),
    "graph": ("?view=graph&head=Germany", None),
    "likely": ("?view=graph&head=Chile", LIKELY),
    "map": ("?view=map", None),
    "position": ("?view=map&relation=borders&card=entity:Chile", None),
    "alone": ("?head=Chile", None),
    "wrong": ("?head=Chili&relation=borders", None),
    "judge": (f"{ASKED}&tail=Aymara", None),
    "why": ("?head=Zimbabwe&relation=official+language&new=1", WHY),
    "compare": ("?view=compare&head=Chile&relation=official+language", None),
    "queue": ("?view=review", None),
    "learning": ("?view=review&order=learning", None),
    "doubtful": ("?view=review&kind=doubts", None),
    "decisions": ("?view=review&part=decisions", UNFOLD),
    "update": ("?view=review&part=update", None),
    "docs": ("docs", FORM),
}


def browser(folder, size, dark=False):
    options = Options()
    options.binary_location = "/usr/bin/chromium"
    for flag in (*FLAGS, f"--user-data-dir={folder}", f"--window-size={size[0]},{size[1]}"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    return driver


def settled(driver, seconds=60):
    """Wait until nothing is being looked for."""
    script = (
        "return !document.querySelector('.waiting') && (document.body.dataset.ready "
        "? document.querySelector('#answers').childElementCount > 0 "
        ": Boolean(document.querySelector('details')))"
    )
    end = time.monotonic() + seconds
    while time.monotonic() < end and not driver.execute_script(script):
        time.sleep(0.1)
    time.sleep(0.3)


def ask(address, body=None):
    """What the server answers, to a POST if there is a body."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(address, data, headers)
    with urllib.request.urlopen(request, timeout=100) as answer:
        return json.load(answer)


def review(address):
    """Decide a few new facts, and have the run updated."""
    rows = ask(f"{address}api/v1/queue?k=6")["rows"]
    kinds = ("accept", "accept", "reject", "accept", "unsure", "reject")
    for row, kind in zip(rows, kinds, strict=True):
        wish = {name: row[name] for name in ("head", "relation", "tail")}
        wish |= {"decision": kind, "reason": "the atlas says so" if kind == "accept" else ""}
        ask(f"{address}api/v1/decisions", {"decisions": [wish]})
    ask(f"{address}api/v1/update", {})
    while ask(f"{address}api/v1/update")["state"] == "running":
        time.sleep(0.5)


def take(driver, name, address, script, path, whole):
    """One picture."""
    driver.get(address)
    settled(driver)
    if script:
        driver.execute_script(script)
        settled(driver)
    for entry in driver.get_log("browser"):
        print(name, entry["message"])
    if whole:
        picture = driver.execute_cdp_cmd(
            "Page.captureScreenshot", {"format": "png", "captureBeyondViewport": True}
        )
        path.write_bytes(base64.b64decode(picture["data"]))
    else:
        driver.save_screenshot(str(path))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("run", type=Path, nargs="+")
    parser.add_argument("--only", help="views, sizes and schemes whose names match this")
    parser.add_argument("--whole", action="store_true", help="the page to its end")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp())
    copy = place / arguments.run[0].name
    shutil.copytree(arguments.run[0], copy, ignore=shutil.ignore_patterns("decisions*", "updates"))
    runs = [str(copy), *map(str, arguments.run[1:])]
    command = [sys.executable, "-m", "bilink", "serve", *runs, "--review", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        address = re.search(r"http://\S+", server.stdout.readline())[0]
        review(address)
        for device, size in SIZES.items():
            for scheme in ("light", "dark"):
                names = {view: f"{view}-{device}-{scheme}" for view in VIEWS}
                wanted = [v for v in VIEWS if re.search(arguments.only or "", names[v])]
                if not wanted:
                    continue
                driver = browser(place / f"{device}-{scheme}", size, dark=scheme == "dark")
                try:
                    for view in wanted:
                        where, script = VIEWS[view]
                        path = arguments.folder / f"{names[view]}.png"
                        take(driver, names[view], address + where, script, path, arguments.whole)
                finally:
                    driver.quit()
    finally:
        server.terminate()
        server.wait(20)
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
