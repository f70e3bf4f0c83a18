"""Look at the explorer in Chromium: one PNG for each view, size and colour scheme.

python tools/make_screenshots.py RUN FOLDER [--only NAME]
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
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
SIZES = {"desktop": (1280, 860), "phone": (360, 780)}
VIEWS = {
    "welcome": "",
    "query": "?head=Chile&relation=official+language",
    "borders": "?head=Austria&relation=borders&new=1",
    "pairs": "?relation=borders",
    "which": "?head=Austria&tail=Germany",
    "new": "?view=new",
    "doubts": "?view=doubts",
    "entity": "?head=Zimbabwe&relation=official+language&card=entity:Zimbabwe",
    "relation": "?head=Austria&relation=borders&card=relation:borders",
    "map": "?view=map",
    "position": "?view=map&relation=borders&card=entity:Chile",
    "alone": "?head=Chile",
    "wrong": "?head=Chili&relation=borders",
    "judge": "?head=Chile&relation=official+language&tail=Aymara",
    "why": "?head=Zimbabwe&relation=official+language&new=1",
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
        "return document.body.dataset.ready && !document.querySelector('.waiting') "
        "&& document.querySelector('#answers').childElementCount > 0"
    )
    end = time.monotonic() + seconds
    while time.monotonic() < end and not driver.execute_script(script):
        time.sleep(0.1)
    time.sleep(0.2)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", help="views, sizes and schemes whose names hold this")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "bilink", "serve", str(arguments.run), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        address = re.search(r"http://\S+", server.stdout.readline())[0]
        for device, size in SIZES.items():
            for scheme in ("light", "dark"):
                names = {view: f"{view}-{device}-{scheme}" for view in VIEWS}
                wanted = [v for v in VIEWS if re.search(arguments.only or "", names[v])]
                if not wanted:
                    continue
                with tempfile.TemporaryDirectory() as folder:
                    driver = browser(folder, size, dark=scheme == "dark")
                    try:
                        for view in wanted:
                            driver.get(address + VIEWS[view])
                            settled(driver)
                            if view == "why":
                                driver.find_element("css selector", ".rows button").click()
                                settled(driver)
                            for entry in driver.get_log("browser"):
                                print(names[view], entry["message"])
                            driver.save_screenshot(str(arguments.folder / f"{names[view]}.png"))
                    finally:
                        driver.quit()
    finally:
        server.terminate()
        server.wait(10)


if __name__ == "__main__":
    main()
