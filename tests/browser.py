"""Chromium, driven through chromedriver by the WebDriver protocol: JSON over HTTP, no further package."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import pytest

FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *(
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-dev-shm-usage",
    ),
]
DRIVER = shutil.which("chromedriver")


def need():
    """Skip where there is no browser."""
    if DRIVER is None:
        pytest.skip("no chromedriver; install it with scripts/install_system.sh")


class Browser:
    """One window."""

    def __init__(self, driver, *flags, folder):
        self.driver = driver
        # Errors of the page, and every request it makes.
        logs = {"browser": "ALL", "performance": "ALL"}
        options = {"args": [*FLAGS, f"--user-data-dir={folder}", *flags]}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": logs}
        made = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.session = f"/session/{made['sessionId']}"

    def _call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.driver + path, data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{method} {path}: {error.read().decode()[:500]}") from error

    def open(self, url):
        self._call("POST", f"{self.session}/url", {"url": url})

    def run(self, script, *arguments):
        """What a script returns; `return` is up to it."""
        return self._call("POST", f"{self.session}/execute/sync", {"script": script, "args": arguments})

    def run_later(self, script, *arguments):
        """What a script hands to its last argument, a function."""
        return self._call("POST", f"{self.session}/execute/async", {"script": script, "args": arguments})

    def press(self, *keys):
        """Keys, one after the other, where the focus is."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._call(
            "POST",
            f"{self.session}/actions",
            {"actions": [{"type": "key", "id": "keys", "actions": actions}]},
        )

    def mouse(self, kind, x, y):
        """What a mouse does at a place: mouseMoved, mousePressed or mouseReleased, with its left button."""
        button = {"button": "left", "clickCount": 1} if kind != "mouseMoved" else {}
        self.devtools("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, **button})

    def resize(self, width, height, phone=False):
        """The page's size, not the window's, which has a least width."""
        shape = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone}
        self.devtools("Emulation.setDeviceMetricsOverride", shape)

    def prefer(self, **features):
        """Preferences of the reader, such as prefers_color_scheme="dark"."""
        listed = [{"name": key.replace("_", "-"), "value": value} for key, value in features.items()]
        self.devtools("Emulation.setEmulatedMedia", {"features": listed})

    def devtools(self, command, parameters):
        return self._call("POST", f"{self.session}/goog/cdp/execute", {"cmd": command, "params": parameters})

    def logged(self, kind):
        return self._call("POST", f"{self.session}/se/log", {"type": kind})

    def requests(self):
        """The addresses that were asked for since the last call."""
        events = [json.loads(each["message"])["message"] for each in self.logged("performance")]
        return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]

    def picture(self, whole=False):
        """A PNG of the page."""
        more = {"captureBeyondViewport": True} if whole else {}
        found = self.devtools("Page.captureScreenshot", {"format": "png", **more})
        return base64.b64decode(found["data"])

    def wait_for(self, script, seconds=20.0):
        """Wait until an expression is true; its value."""
        end = time.monotonic() + seconds
        while not (found := self.run(f"return {script}")):
            assert time.monotonic() < end, script
            time.sleep(0.05)
        return found

    def close(self):
        self._call("DELETE", self.session)


@contextlib.contextmanager
def opened(*flags):
    """A browser with an empty profile."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="domkl-browser-", ignore_cleanup_errors=True) as folder:
        environ = {**os.environ, "HOME": folder}
        process = subprocess.Popen(
            [DRIVER, f"--port={port}"], env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            _await(port)
            browser = Browser(f"http://127.0.0.1:{port}", *flags, folder=f"{folder}/profile")
            try:
                yield browser
            finally:
                browser.close()
        finally:
            process.terminate()
            process.wait(20)


def _await(port, seconds=20.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        time.sleep(0.05)
    raise TimeoutError("chromedriver does not listen")
