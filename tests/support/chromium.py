"""A headless Chromium, driven by its DevTools protocol: open a page, evaluate, press keys, take pictures.

https://chromedevtools.github.io/devtools-protocol/ describes the protocol. What does not belong here: what a
page shows.
"""

import asyncio
import base64
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp

from devkit.waiting import timeout_factor
from tests.support.needs import browser
from tests.support.waiting import until

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
    # No requests but those of the page, and no other name than its own.
    *("--remote-debugging-port=0", "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"),
)
START_S = 30.0
ANSWER_S = START_S * timeout_factor()
KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "/": 191}

_LEFT = (
    "Inspected target navigated or closed",
    "Execution context was destroyed",
    "Cannot find context with specified id",
    "Cannot find default execution context",
)


class PageLeft(Exception):
    """The answer of a command was lost, because the browser left the page meanwhile."""


class Tab:
    """One page. ``problems`` are errors of its scripts and what its policy has blocked."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.problems: list[str] = []
        self.requests: list[str] = []
        self._socket = socket
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._numbers = itertools.count(1)

    async def listen(self) -> None:
        """Receive messages until the browser ends."""
        async for message in self._socket:
            self._take(json.loads(message.data))

    def _take(self, message: dict[str, Any]) -> None:
        parameters = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.problems.append(str(parameters["exceptionDetails"]))
            case "Log.entryAdded" if parameters["entry"]["level"] == "error":
                self.problems.append(parameters["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])
            case None:
                answer = self._answers.pop(message["id"])
                if not answer.done():  # its wait may have ended
                    answer.set_result(message)

    async def command(self, method: str, **parameters: Any) -> Any:
        """The result of a command; PageLeft, or AssertionError with its error."""
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        found = await asyncio.wait_for(answer, ANSWER_S)
        if found.get("error", {}).get("message", "").startswith(_LEFT):
            raise PageLeft(method)
        assert "error" not in found, found["error"]
        return found["result"]

    async def evaluate(self, script: str) -> Any:
        """The value of an expression."""
        found = await self.command(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    async def wait(self, script: str) -> Any:
        """The first true value of an expression, in this page or the next ones."""
        async with asyncio.timeout(ANSWER_S):
            while True:
                with suppress(PageLeft):
                    if found := await self.evaluate(script):
                        return found
                await asyncio.sleep(0.02)

    async def leave(self, script: str) -> None:
        """Evaluate an expression that leaves the page."""
        with suppress(PageLeft):
            await self.evaluate(script)

    async def press(self, key: str) -> None:
        """Press and release a key, which may leave the page; a character is typed."""
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        about = {"key": key, "windowsVirtualKeyCode": KEYS.get(key, ord(key[0].upper()))}
        with suppress(PageLeft):
            await self.command("Input.dispatchKeyEvent", type="keyDown", **about, **text)
            await self.command("Input.dispatchKeyEvent", type="keyUp", **about)

    async def open(self, url: str) -> None:
        """Go to the URL."""
        await self.command("Page.navigate", url=url)

    async def emulate(self, width: int, height: int, scheme: str = "light") -> None:
        """Set size and colour scheme (``light``, ``dark``)."""
        await self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.command("Emulation.setEmulatedMedia", features=features)

    async def picture(self) -> bytes:
        """The visible part of the page as PNG."""
        return base64.b64decode((await self.command("Page.captureScreenshot"))["data"])


@asynccontextmanager
async def chromium(*flags: str) -> AsyncIterator[Tab]:
    """A new browser with an empty profile and one tab; it ends with the context. ``flags`` are added."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        program = browser()
        assert program, "a test without the need chromium"
        process = await asyncio.create_subprocess_exec(
            *(program, *FLAGS, *flags, f"--user-data-dir={folder}", "about:blank"),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            port = await _port(Path(folder) / "DevToolsActivePort")
            async with aiohttp.ClientSession() as session, _tab(session, port) as tab:
                yield tab
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


async def _port(file: Path) -> int:
    """The first line of the file, once it is complete."""
    lines: list[str] = []

    def written() -> bool:
        lines[:] = file.read_text().split() if file.exists() else []
        return len(lines) > 1

    await until(written, within_s=START_S, poll_s=0.02)
    return int(lines[0])


@asynccontextmanager
async def _tab(session: aiohttp.ClientSession, port: int) -> AsyncIterator[Tab]:
    async with session.get(f"http://127.0.0.1:{port}/json/list") as response:
        targets = await response.json()
    page = next(each for each in targets if each["type"] == "page")
    async with session.ws_connect(page["webSocketDebuggerUrl"], max_msg_size=0) as socket:
        tab = Tab(socket)
        listening = asyncio.create_task(tab.listen())
        for domain in ("Page", "Runtime", "Log", "Network"):
            await tab.command(f"{domain}.enable")
        try:
            yield tab
        finally:
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await listening
