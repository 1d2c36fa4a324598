"""``make demo``, as the README runs it: what it prints, and that nothing is left running."""

import asyncio
import os
import re
import signal
import urllib.request
import uuid
from contextlib import suppress
from pathlib import Path

import pytest

from devkit.waiting import until
from tests.support.fixtures import playbooks
from tests.support.fixtures.checkouts import NOT_THE_USERS

pytestmark = [pytest.mark.needs("kubelet", "images"), pytest.mark.timeout(900)]

DEMO_S = 800.0
NOTEBOOKS = [
    "# Three notebooks of 4 GiB",
    "asked 4, at most 2 of 14 free on GPU 0",
    "Allocated/Total GPU Memory In GPUShare Node:\n12/14 (GiB) (85%)",
    "ALIYUN_COM_GPU_MEM_DEV=14",
]
LIMITS = [
    "|   3193MiB /  4301MiB |",
    "Total amount of global memory:                 4301 MBytes",
    "Try to malloc 1024 MBytes memory on GPU 0",
    "code=2(cudaErrorMemoryAllocation)",
    "exit code 1",
    "4301 MiB  3193 MiB",
]
REASON = ["$ kubectl gpushare explain fine-tune", "24"]
PICTURES = ["8138 units on GPU 0 (0 of 16276 left)", "8138 units on GPU 1 (0 of 16276 left)"]
AUTOSCALING = [
    "# One replica without load",
    "# A client sends requests to it",
    "# The client has stopped",
    "New size: 2; reason: pods metric DCGM_CUSTOM_PROCESS_SM_UTIL above target",
    "New size: 1; reason: All metrics below target",
]
SAMPLE = ["1 (1%)", "10.0.33.21", "0 (0%)", "Allocated/Total GPU Memory In Cluster:  1/165 (0%)"]


def with_variable(variable: str) -> list[str]:
    """The command lines of the processes whose environment has it: what this command has started."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if variable.encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


async def test_the_demo_shows_every_scenario_and_leaves_nothing_running() -> None:
    mark = f"DEMO_MARK={uuid.uuid4()}"
    unset = [f"--unset={name}" for name in NOT_THE_USERS]
    done = await playbooks.run(["env", *unset, mark, "DEMO_ONCE=1", "make", "demo"], DEMO_S)
    assert done.code == 0, done.output
    at = 0
    for line in [*NOTEBOOKS, *PICTURES, *SAMPLE, *AUTOSCALING, *REASON, *LIMITS]:
        found = done.output.find(line, at)
        assert found >= 0, f"{line!r} is not where the demo has it:\n{done.output}"
        at = found
    # Between two pauses it starts and fails again.
    assert re.search(
        r"^app-6g-v1-0 +[01]/1 +(CrashLoopBackOff|Error|Running) +[1-9]", done.output, re.MULTILINE
    )
    assert "The demo has ended; no process is left running." in done.output
    assert await asyncio.to_thread(with_variable, mark) == []


async def test_the_board_of_the_last_cluster_opens_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    mark = f"DEMO_MARK={uuid.uuid4()}"
    log = tmp_path / "log"
    argv = ["env", *(f"--unset={name}" for name in NOT_THE_USERS), mark, "BROWSER=true", "make", "demo"]
    with log.open("wb") as output:
        demo = await asyncio.create_subprocess_exec(
            *argv, "DEMO=board", stdout=output, stderr=output, start_new_session=True
        )
    try:
        url = await until(lambda: board_url(log), "the address of the board", DEMO_S)
        page = await asyncio.to_thread(read_page, url)
    finally:
        os.killpg(demo.pid, signal.SIGINT)
        # Make ends with the signal itself.
        await asyncio.wait_for(demo.wait(), 120)
    assert "<title>gpushare" in page
    assert "kubectl gpushare explain fine-tune" in log.read_text()
    assert "The demo has ended; no process is left running." in log.read_text()
    assert await asyncio.to_thread(with_variable, mark) == []


async def board_url(log: Path) -> str | None:
    found = re.search(r"Its board: (http\S+)", await asyncio.to_thread(log.read_text))
    return found and found[1]


def read_page(url: str) -> str:
    """As a browser does: the URL sets a cookie, then leads to the page."""
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with opener.open(url, timeout=30) as answer:
        return str(answer.read().decode())
