"""A real browser without a window, driven through its DevTools protocol over two pipes."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from select import select
from time import monotonic
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--remote-debugging-pipe", "--window-size=1280,1000"),
)
SECONDS = 60.0
# the two pipes as files 3 and 4, whatever their numbers are
START = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(n), fcntl.F_DUPFD, 10) for n in sys.argv[1:3]]
for end, number in zip(ends, (3, 4)):
    os.dup2(end, number, inheritable=True)
os.execv(sys.argv[3], sys.argv[3:])
"""


def find() -> str | None:
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One page. `errors` are what it has said of its scripts, `asked` the addresses it wanted."""

    def __init__(self, program: str, profile: Path) -> None:
        # the browser reads its file 3 and writes to its file 4
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        flags = [*FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", START, str(theirs_in), str(theirs_out), program, *flags],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._number = 0
        self._buffer = b""
        self._session: str | None = None
        self.errors: list[str] = []
        self.asked: list[str] = []
        (target,) = (
            t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"
        )
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        os.close(self._out)
        os.killpg(self._process.pid, signal.SIGKILL)  # its helpers too
        self._process.wait()
        os.close(self._in)

    def call(self, method: str, **params: Any) -> Any:
        """A command's result."""
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        answer = self._until(lambda m: m.get("id") == number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def _until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        end = monotonic() + SECONDS
        while True:
            text, zero, rest = self._buffer.partition(b"\0")
            if zero:
                self._buffer = rest
                message = json.loads(text)
                self._note(message)
                if wanted(message):
                    return message  # type: ignore[no-any-return]
                continue
            if not select([self._in], [], [], max(0.0, end - monotonic()))[0]:
                raise TimeoutError(f"the browser said nothing for {SECONDS} s")
            more = os.read(self._in, 1 << 16)
            if not more:
                raise RuntimeError("the browser is gone")
            self._buffer += more

    def _note(self, message: dict[str, Any]) -> None:
        params = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif message.get("method") == "Network.requestWillBeSent":
            self.asked.append(params["request"]["url"])

    def open(self, page: Path) -> None:
        """Returns when all of it is loaded and its scripts have run."""
        self.errors, self.asked = [], []
        self.call("Page.navigate", url=page.as_uri())
        self._until(lambda m: m.get("method") == "Page.loadEventFired")

    def value(self, expression: str) -> Any:
        """Of a JavaScript expression, awaited."""
        got = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in got:
            raise RuntimeError(got["exceptionDetails"]["exception"]["description"])
        return got["result"].get("value")

    def settle(self) -> None:
        """Waits for two frames: what was asked for is drawn."""
        frame = "new Promise(done => requestAnimationFrame(done))"
        self.value(f"{frame}.then(() => {frame}).then(() => 1)")

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)
        self.settle()

    def click(self, x: float, y: float) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)

    def middle(self, expression: str) -> tuple[float, float]:
        """Where an element is in the window, scrolled to if need be."""
        x, y = self.value(
            f"(e => {{ e.scrollIntoView({{block: 'center'}}); const r = e.getBoundingClientRect();"
            f" return [r.left + r.width / 2, r.top + r.height / 2]; }})({expression})"
        )
        return x, y

    def screenshot(self) -> bytes:
        return base64.b64decode(self.call("Page.captureScreenshot")["data"])
