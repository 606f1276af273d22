"""How does a test look at a page in a real browser? Over the DevTools pipe: no port, no package."""

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
Scheme = Literal["light", "dark"]


class Browser:
    """One tab. `complaints` and `requests` hold what it said and asked for since `show`."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._write, self._read = to_browser, from_browser
        self._buffer, self._sent, self._session = b"", 0, ""
        self._events: list[str] = []
        self.complaints: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def show(self, page: Path, *, width: int = 1280, scheme: Scheme = "light") -> None:
        """Open a file and wait until it is loaded."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900,
                  deviceScaleFactor=1, mobile=width < 600)  # fmt: skip
        scheme_feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[scheme_feature])
        self.complaints.clear()
        self.requests.clear()
        self._events.clear()
        self.call("Page.navigate", url=page.resolve().as_uri())
        while "Page.loadEventFired" not in self._events:
            self._note(self._message())

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression on the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)  # fmt: skip
        if "exceptionDetails" in answer:
            raise ValueError(f"expression must not throw, got {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def picture(self, path: Path, *, top: int = 0, height: int = 900) -> None:
        """Save a strip of the page as PNG."""
        width = self.ask("innerWidth")
        clip = {"x": 0, "y": top, "width": width, "height": height, "scale": 1}
        shot = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send one command and wait for its answer."""
        self._sent += 1
        message = {"id": self._sent, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self._sent:
                break
            self._note(answer)
        if "error" in answer:
            raise ValueError(f"{method} must succeed, got {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            read = os.read(self._read, 1 << 20)
            if not read:
                raise EOFError("the browser ended")
            self._buffer += read
        line, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(line)
        return found

    def _note(self, event: dict[str, Any]) -> None:
        method, told = event.get("method", ""), event.get("params", {})
        self._events.append(method)
        if method == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        elif method in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"):
            self.complaints.append(json.dumps(told))


@contextmanager
def chromium(profile: Path) -> Iterator[Browser]:
    """A headless Chromium with a fresh profile in the folder `profile`; it ends with the block."""
    if PROGRAM is None:
        raise ValueError("chromium must be on the PATH, found none")
    its_read, our_write = os.pipe()
    our_read, its_write = os.pipe()
    wire = f'exec "$0" "$@" 3</dev/fd/{its_read} 4>/dev/fd/{its_write}'
    process = subprocess.Popen(
        ["sh", "-c", wire, PROGRAM, *FLAGS, f"--user-data-dir={profile}"],
        pass_fds=(its_read, its_write), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(its_read)
    os.close(its_write)
    try:
        browser = Browser(our_write, our_read)
        yield browser
        browser.call("Browser.close")
    finally:
        process.terminate()
        process.wait()
        os.close(our_write)
        os.close(our_read)
