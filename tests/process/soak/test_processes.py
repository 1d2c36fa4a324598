"""The keeper of a soak starts what ended by itself, and leaves alone what was ended on purpose."""

import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from devkit.process import Command
from testbed import Process
from tests.soak.processes import Keeper
from tests.support.waiting import until

NAME = "sleeper"
SLEEP = shutil.which("sleep") or "/bin/sleep"


@asynccontextmanager
async def kept(folder: Path) -> AsyncIterator[tuple[Keeper, Process]]:
    process = Process(Command(NAME, [SLEEP, "1000"], folder))
    await process.start()
    keeper = Keeper({NAME: process})
    try:
        async with keeper.keeping():
            yield keeper, process
    finally:
        await process.stop()


async def test_a_process_that_ended_by_itself_is_started_again_and_counted(tmp_path: Path) -> None:
    async with kept(tmp_path) as (keeper, process):
        first = process.pid
        os.kill(first, signal.SIGKILL)
        await until(lambda: process.running and process.pid != first, poll_s=0.05)
        await keeper.all_run()
        assert keeper.exits == {NAME: 1}


async def test_a_process_that_was_ended_on_purpose_stays_down_until_it_may_start(tmp_path: Path) -> None:
    async with kept(tmp_path) as (keeper, process):
        for kill in (True, False):
            await keeper.end(NAME, kill=kill)
            assert not process.running
            await keeper.start(NAME)
            await until(lambda: process.running, poll_s=0.05)
        await keeper.all_run()
        assert keeper.exits == {}
