"""The images of the testbed's containers."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from testbed.kubelets.images import PAUSE
from tests.support.waiting import until


@pytest.mark.needs("root", "unshare")
async def test_the_pause_container_ends_on_sigterm_like_that_of_kubernetes() -> None:
    """The kernel ignores signals for which the first process of a namespace has no handler."""
    process = await asyncio.create_subprocess_exec("unshare", "--pid", "--fork", "--kill-child", *PAUSE)

    def ended() -> bool:
        if process.returncode is None:
            for first in children(process.pid):
                os.kill(first, signal.SIGTERM)
        return process.returncode == 0

    try:
        await until(ended, poll_s=0.1)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
