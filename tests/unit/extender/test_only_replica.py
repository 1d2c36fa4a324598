"""The only replica, which binds without a Lease, in virtual time."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from gpushare.extender.only_replica import OnlyReplica
from tests.support.virtual_time import skip_waits
from tests.support.waiting import until
from tests.unit.extender.fakes import CatchUp, open_gate

WAIT_S = 1.0


@pytest.fixture(autouse=True)
async def virtual_time() -> None:
    skip_waits(asyncio.get_running_loop())


@asynccontextmanager
async def running(catch_up: CatchUp) -> AsyncIterator[OnlyReplica]:
    replica = OnlyReplica(wait_s=WAIT_S, catch_up=catch_up)
    task = asyncio.create_task(replica.run())
    try:
        yield replica
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def waits(replica: OnlyReplica) -> bool:
    """Whether it tells when, and why only then, it begins to bind."""
    text = replica.fence() or ""
    pattern = r"this extender binds from \d\d:\d\d:\d\d UTC on: the last binds of its predecessor may .+"
    return bool(re.fullmatch(pattern, text)) and replica.waiting == text and not replica.leads


async def test_it_binds_after_the_last_binds_of_a_predecessor_and_a_catch_up() -> None:
    catch_up, loop = CatchUp(), asyncio.get_running_loop()
    began = loop.time()
    async with running(catch_up) as replica:
        await until(lambda: waits(replica))
        assert catch_up.begun == 0
        await until(lambda: catch_up.begun)
        assert loop.time() - began >= WAIT_S
        assert waits(replica)
        catch_up.gate.set()
        await until(lambda: replica.leads)
        assert (replica.fence(), replica.waiting, replica.began.is_set()) == (None, None, True)


async def test_it_does_not_bind_before_it_runs() -> None:
    replica = OnlyReplica(wait_s=WAIT_S, catch_up=open_gate())
    assert (replica.leads, replica.fence()) == (False, "this extender has not begun to lead yet")


async def test_it_binds_until_its_end() -> None:
    async with running(open_gate()) as replica:
        await until(lambda: replica.leads)
        await asyncio.sleep(1000 * WAIT_S)
        await replica.announce()
        assert replica.fence() is None


async def test_it_is_a_degraded_mode_that_is_logged_once() -> None:
    with capture_logs() as logs:
        async with running(open_gate()) as replica:
            await until(lambda: replica.leads)
    warned = [entry["effect"] for entry in logs if entry["log_level"] == "warning"]
    assert warned == [replica.degraded]
    assert replica.degraded == "this extender binds without a Lease, which only a single replica may"
