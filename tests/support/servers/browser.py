"""A real browser for tests: Chromium without a window, spoken to in its DevTools protocol through two pipes.

The pipes need no driver, no port and no library. Whatever the page says on its console, every exception
and every request is kept.
"""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from select import select
from typing import Any

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless",
    "--no-sandbox",  # the tests may run as root, where the sandbox refuses to start
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--hide-scrollbars",
)
TIMEOUT_SECONDS = 60.0
WHAT_TO_INSTALL = "no browser: install Chromium (on Debian: apt-get install chromium)"


def program() -> str | None:
    """Return the browser's path, or None where there is none."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


needs_browser = pytest.mark.skipif(program() is None, reason=WHAT_TO_INSTALL)


@dataclass
class Browser:
    """One tab. `complaints` are errors and warnings of the page, `requests` the addresses it asked for."""

    to_browser: int
    from_browser: int
    session: str = ""
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    _events: list[str] = field(default_factory=list)
    _unread: bytes = b""
    _count: int = 0

    def call(self, method: str, **parameters: Any) -> Any:
        """Send one command and return its result; AssertionError when the browser refuses it."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        _write_all(self.to_browser, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._count:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def open(self, page: Path | str, *, width: int = 1280, dark: bool = False) -> None:
        """Show a page from disk or at an address in a window so many CSS pixels wide, and wait until it is loaded."""
        self.complaints.clear()
        self.requests.clear()
        self._events.clear()
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call(
            "Page.navigate", url="about:blank"
        )  # or an address that differs behind its # alone is not loaded anew
        while "Page.loadEventFired" not in self._events:
            self._next()
        self._events.clear()
        self.requests.clear()
        self.call("Page.navigate", url=page if isinstance(page, str) else page.as_uri())
        while "Page.loadEventFired" not in self._events:
            self._next()

    def run(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page; AssertionError when it throws."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, expression: str) -> Any:
        """Return the value of an expression once it is true; AssertionError when it never is."""
        until = time.monotonic() + TIMEOUT_SECONDS
        while not (found := self.run(expression)):
            assert time.monotonic() < until, f"never true: {expression}\n{self.run('document.body.innerText')}"
            time.sleep(0.05)
        return found

    def press(self, key: str, code: int) -> None:
        """Press and release a key, as a person does."""
        named = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text="\r" if key == "Enter" else "", **named)
        self.call("Input.dispatchKeyEvent", type="keyUp", **named)

    def point(self, x: float, y: float, *, click: bool = False) -> None:
        """Move the pointer to a place in the window, and click there."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        if click:
            for kind in ("mousePressed", "mouseReleased"):
                self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def picture(self, path: Path) -> None:
        """Write a picture of the whole page, as PNG."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))

    def printed(self) -> bytes:
        """Return the page as it would be printed, as PDF."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    def _next(self) -> dict[str, Any]:
        """Return the next message of the browser, having noted what it says of the page."""
        until = time.monotonic() + TIMEOUT_SECONDS
        while b"\0" not in self._unread:
            assert select([self.from_browser], [], [], max(until - time.monotonic(), 0))[0], "the browser is silent"
            data = os.read(self.from_browser, 1 << 20)
            assert data, "the browser has ended"
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, event: str, facts: dict[str, Any]) -> None:
        self._events.append(event)
        if event == "Runtime.consoleAPICalled" and facts["type"] in ("error", "warning", "assert"):
            self.complaints.append(str([each.get("value") for each in facts["args"]]))
        elif event == "Runtime.exceptionThrown":
            self.complaints.append(str(facts["exceptionDetails"]))
        elif event == "Log.entryAdded" and facts["entry"]["level"] in ("error", "warning"):
            self.complaints.append(facts["entry"]["text"])
        elif event == "Network.requestWillBeSent":
            self.requests.append(facts["request"]["url"])


@contextmanager
def browser() -> Iterator[Browser]:
    """Start the browser with a profile of its own and yield a tab; everything is gone afterwards."""
    path = program()
    assert path is not None, WHAT_TO_INSTALL
    theirs_in, to_browser = os.pipe()
    from_browser, theirs_out = os.pipe()
    with tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True) as profile:
        # The browser reads its descriptor 3 and writes its descriptor 4; a shell puts the pipes there.
        script = f'exec 3<&{theirs_in} 4>&{theirs_out}; exec "$0" "$@"'
        arguments = [path, *FLAGS, "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"]
        started = subprocess.Popen(
            ["/bin/bash", "-c", script, *arguments],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        try:
            yield _tab(Browser(to_browser, from_browser))
        finally:
            os.close(to_browser)  # the end of the pipe ends the browser
            try:
                started.wait(timeout=10)
            except subprocess.TimeoutExpired:
                started.kill()
                started.wait()
            os.close(from_browser)


def _tab(started: Browser) -> Browser:
    target = started.call("Target.createTarget", url="about:blank")["targetId"]
    started.session = started.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    for domain in ("Page", "Runtime", "Log", "Network"):
        started.call(f"{domain}.enable")
    return started


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
