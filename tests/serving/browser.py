"""A real Chromium for the tests of the page."""

import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, suppress

import pytest
from selenium import webdriver
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException

from bilink._threads import single_threaded_blas
from bilink.serving.app import make_app
from bilink.serving.connections import make_server
from bilink.serving.guard import LOOPBACK
from bilink.serving.server import _listen

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--window-size=1280,900",
)


@contextmanager
def served(run, review=False):
    """The address of a server for a run or several on a thread of this process."""
    with _listen("127.0.0.1", 0) as listener, single_threaded_blas():
        server = make_server(make_app(run, hosts=LOOPBACK, review=review), local=True)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join(60)


@contextmanager
def bilink_serve(*words):
    """The process of ``bilink serve``, and its address."""
    command = [sys.executable, "-m", "bilink", "serve", *map(str, words)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        printed = process.stdout.readline()
        yield process, re.search(r"http://\S+/", printed)[0]
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(20)


@contextmanager
def chromium():
    """A browser with an empty profile; a skip with the reason where there is none."""
    for program in ("chromium", "chromedriver"):
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        service = webdriver.ChromeService(shutil.which("chromedriver"))
        driver = webdriver.Chrome(options=options, service=service)
        try:
            yield Person(driver)
        finally:
            driver.quit()


class Person:
    """Someone in front of the page: types, clicks and reads."""

    def __init__(self, driver):
        self.driver = driver

    def open(self, address):
        self.driver.get(address)
        self.settle()

    def settle(self, seconds=60):
        """Wait until nothing is being looked for."""
        script = (
            "return document.body.dataset.ready === '1' && !document.querySelector('.waiting') && "
            "document.querySelector('#answers').childElementCount > 0"
        )
        self.until(lambda: self.driver.execute_script(script), seconds)

    def until(self, test, seconds=30):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with suppress(NoSuchElementException, StaleElementReferenceException):
                if found := test():  # else not yet
                    return found
            time.sleep(0.03)
        raise AssertionError("the page did not get there: " + self.text("main"))

    def find(self, selector):
        return self.driver.find_element("css selector", selector)

    def all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def text(self, selector):
        return self.find(selector).text

    def texts(self, selector):
        script = "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)"
        return self.driver.execute_script(script, selector)

    def click(self, selector, containing=""):
        chosen = [e for e in self.all(selector) if containing in e.text]
        assert chosen, f"no {selector} with {containing!r}"
        chosen[0].click()

    def type(self, box, *keys):
        self.find(f".box[data-role={box}] input").send_keys(*keys)

    def options(self, box):
        """The names that a box offers, once it offers any."""
        selector = f".box[data-role={box}] [role=option] .label"
        return self.until(lambda: self.texts(selector))

    def press(self, *keys):
        """Type into whatever has the focus."""
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def focus(self):
        """The text of what has the focus."""
        return self.driver.execute_script(
            "const e = document.activeElement; return e === document.body ? '' : e.textContent"
        )

    def screen(self, width=1280, height=900, mobile=False, dark=False):
        """Another screen, light or dark."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def address(self):
        return self.driver.execute_script("return location.search")

    def complaints(self):
        """What the browser complained about, such as a script that its policy stopped."""
        return [entry["message"] for entry in self.driver.get_log("browser")]
