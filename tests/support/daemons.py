"""Daemons as processes of their own: what they log, what their operators' port says, their end."""

import asyncio
import json
import signal

import httpx2

DEADLINE_S = 20.0


class Daemon:
    """One that logs to a pipe on stderr; ``url`` is where its health is, once ``started``."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.url = ""

    async def started(self) -> None:
        """Wait until it says so, and note its port."""
        self.url = f"http://127.0.0.1:{(await self.line('started'))['ops_port']}"

    async def line(self, event: str) -> dict[str, object]:
        """The next line of its log that tells of the event."""
        assert self.process.stderr is not None
        while line := await asyncio.wait_for(self.process.stderr.readline(), DEADLINE_S):
            told: dict[str, object] = json.loads(line)
            if told["event"] == event:
                return told
        raise AssertionError(f"it ended without {event}")

    async def get(self, path: str) -> httpx2.Response:
        """What its operators' port answers."""
        async with httpx2.AsyncClient() as client:
            return await client.get(self.url + path)

    async def end(self) -> int:
        """Its exit status after SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        return await asyncio.wait_for(self.process.wait(), DEADLINE_S)
