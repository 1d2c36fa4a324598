"""Answers that are lost because the browser has left the page; on a FAKE of its socket."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import aiohttp
import pytest

from devkit.waiting import meanwhile
from tests.support.chromium import PageLeft, Tab

LEFT = {"error": {"code": -32000, "message": "Inspected target navigated or closed"}}
GONE = {"error": {"code": -32000, "message": "Cannot find context with specified id"}}


def value(found: object) -> dict[str, Any]:
    return {"result": {"result": {"value": found}}}


class Socket:
    """Answers each command with the next message."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.answers = list(answers)
        self.methods: list[str] = []
        self._messages: asyncio.Queue[aiohttp.WSMessage] = asyncio.Queue()

    async def send_json(self, command: dict[str, Any]) -> None:
        self.methods.append(command["method"])
        text = json.dumps({"id": command["id"], **self.answers.pop(0)})
        self._messages.put_nowait(aiohttp.WSMessage(aiohttp.WSMsgType.TEXT, text, None))

    async def __aiter__(self) -> AsyncIterator[aiohttp.WSMessage]:
        while True:
            yield await self._messages.get()


@asynccontextmanager
async def tab_on(socket: Socket) -> AsyncIterator[Tab]:
    tab = Tab(cast("aiohttp.ClientWebSocketResponse", socket))
    async with meanwhile(tab.listen()):
        yield tab


async def test_a_wait_goes_on_in_the_next_page() -> None:
    async with tab_on(Socket(value(None), LEFT, GONE, value("there"))) as tab:
        assert await tab.wait("script") == "there"


async def test_a_key_and_a_click_may_leave_the_page() -> None:
    socket = Socket({"result": {}}, LEFT, LEFT)
    async with tab_on(socket) as tab:
        await tab.press("Enter")
        await tab.leave("button.click()")
    assert socket.methods == [*2 * ["Input.dispatchKeyEvent"], "Runtime.evaluate"]


async def test_other_scripts_and_errors_fail() -> None:
    async with tab_on(Socket(LEFT, {"error": {"message": "no such command"}})) as tab:
        with pytest.raises(PageLeft):
            await tab.evaluate("script")
        with pytest.raises(AssertionError, match="no such command"):
            await tab.leave("script")
