"""A page in a real Chromium, driven over its debugging pipe: it waits for conditions and not for seconds."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.servers import run_folder

__all__ = ["Browser"]

_PATIENCE_S = 90.0


class Browser:
    """One page; `is_dark` and the size are those that the page sees."""

    def __init__(self, folder: Path, *, width: int = 1200, height: int = 900, is_dark: bool = False) -> None:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        command = [
            "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
            "--remote-debugging-pipe", f"--user-data-dir={folder / 'profile'}", f"--window-size={width},{height}",
        ]  # fmt: skip
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{to_read} 4>&{to_write}', "bash", *command],
            pass_fds=(to_read, to_write), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "TMPDIR": str(run_folder())},  # where it leaves folders; short, for one has its socket
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self._rest, self._n, self._session = b"", 0, ""
        self.errors: list[str] = []
        self.requested: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Network", "Page"):
            self.call(f"{domain}.enable")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)

    def call(self, method: str, **parameters: Any) -> Any:
        """A command of the protocol; what it answers."""
        self._n += 1
        message = {"id": self._n, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            found = self._next()
            if found.get("id") == self._n:
                if method == "Runtime.evaluate" and "navigated" in found.get("error", {}).get("message", ""):
                    return {"result": {}}  # the page that was asked is gone, and the next one is not there yet
                assert "error" not in found, found["error"]
                return found["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            data = os.read(self._read, 1 << 16)
            assert data, "Chromium has ended"
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(line)
        if found.get("method") == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(found["params"]["exceptionDetails"])[:500])
        if found.get("method") == "Network.requestWillBeSent":
            self.requested.append(found["params"]["request"]["url"])
        return found

    def open(self, url: str) -> None:
        """Goes to an address."""
        self.call("Page.navigate", url=url)

    def value(self, script: str) -> Any:
        """What JavaScript gives."""
        return self.call("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def wait(self, script: str) -> Any:
        """Until JavaScript gives something true; that."""
        until = time.monotonic() + _PATIENCE_S
        while not (found := self.value(f"!!({script})")):
            assert time.monotonic() < until, (
                f"{script} never came; {self.errors} {self.value('document.body.innerText')}"
            )
            time.sleep(0.1)
        return found

    def picture(self, path: Path, *, is_whole: bool = False) -> None:
        """What can be seen, or the whole page, as PNG."""
        data = self.call("Page.captureScreenshot", captureBeyondViewport=is_whole)["data"]
        path.write_bytes(base64.b64decode(data))

    def drawn(self, path: Path) -> dict[str, tuple[float, float]]:
        """Of a page in a file the plots that are shown: id -> width and height in pixels of its picture."""
        self.open(path.as_uri())
        self.wait("document.readyState === 'complete' && document.querySelector('svg')")
        script = """[...document.querySelectorAll('[id^="plot-"]')].map(
            each => [each.id, each.querySelector('svg')?.getBoundingClientRect()]).map(
            ([id, box]) => [id, box?.width ?? 0, box?.height ?? 0])"""
        return {name: (width, height) for name, width, height in self.value(script)}

    @property
    def is_within_its_width(self) -> bool:
        """Whether nothing has to be scrolled to the side."""
        return bool(self.value("document.documentElement.scrollWidth <= innerWidth"))
