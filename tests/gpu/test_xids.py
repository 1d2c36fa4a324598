"""Health of a real GPU: its recovery action, and what the driver reports of a program that fails.

The program writes to an address that it does not have; the driver ends its context, and no other.
"""

import asyncio
import sys
from collections.abc import AsyncIterator

import pytest

from gpushare.adapters.nvml import Nvml
from gpushare.adapters.nvml.events import Events
from gpushare.adapters.nvml.library import Library
from gpushare.deviceplugin.core.health import Health
from gpushare.deviceplugin.core.xids import RESET_XIDS
from gpushare.model.hardware import Fault, Gpu, RecoveryAction
from testbed import until
from tests.gpu.conftest import FAILS, ILLEGAL_ADDRESS
from tests.support.fixtures.isolation import Preloaded

REPORT_S = 20


async def fail(container: Preloaded) -> None:
    """Run a program with a kernel that fails."""
    done = await asyncio.to_thread(container.python, FAILS)
    assert done.stdout == f"[{ILLEGAL_ADDRESS}]\n", done.stderr


async def first(faults: AsyncIterator[Fault]) -> Fault:
    return await anext(faults)


async def test_a_failed_kernel_is_an_xid_of_its_gpu_that_leaves_it_in_use(
    container: Preloaded, gpu: Gpu
) -> None:
    async with Nvml(poll_s=0.1) as nvml:
        reported = asyncio.create_task(first(nvml.faults()))
        await nvml.inventory()  # after the first poll, which runs on the same thread
        await fail(container)
        fault = await asyncio.wait_for(reported, REPORT_S)
    sys.stdout.write(f"{gpu.model}: the driver reports {fault}\n")
    assert fault.uuid == gpu.uuid
    assert fault.xid not in RESET_XIDS


RECOVERY_ACTION_SINCE = 565


async def test_a_gpu_in_use_is_healthy_and_says_whether_it_needs_a_recovery(
    container: Preloaded, gpu: Gpu
) -> None:
    async with Nvml() as nvml:
        branch = int((await nvml.inventory()).driver.split(".")[0])
        before = (await nvml.facts())[gpu.uuid]
        await fail(container)
        after = (await nvml.facts())[gpu.uuid]
    sys.stdout.write(f"{gpu.model}, driver {branch}: {before}; after a failed kernel: {after}\n")
    if branch >= RECOVERY_ACTION_SINCE:
        assert (before.recovery, after.recovery) == (RecoveryAction.NONE, RecoveryAction.NONE)
    else:
        assert before.recovery is None
    assert Health.of([gpu.uuid]).after_poll({gpu.uuid: after}, 0).unhealthy == {}


async def test_a_gpu_registers_for_events_about_its_recovery_action(gpu: Gpu) -> None:
    async with Nvml() as nvml:
        types = await nvml.run(lambda library: supported_events(library, gpu.uuid))
        sys.stdout.write(f"{gpu.model}: supported event types {types:#x}\n")
        assert await nvml.run(Events().poll)


def supported_events(library: Library, uuid: str) -> int:
    handle = library.call("nvmlDeviceGetHandleByUUID", uuid)
    return int(library.call("nvmlDeviceGetSupportedEventTypes", handle))


async def test_readings_count_the_xid_of_a_failed_kernel(container: Preloaded, gpu: Gpu) -> None:
    async with Nvml() as nvml:

        async def counted() -> int:
            (card,) = (each for each in (await nvml.readings()).cards if each.uuid == gpu.uuid)
            if card.xids is None:
                pytest.fail("the driver reports no XID errors")
            return sum(card.xids.values())

        assert await counted() == 0
        await fail(container)
        await until(counted, "the reader to count the error", REPORT_S)


async def test_a_failed_kernel_of_one_program_leaves_another_running(container: Preloaded) -> None:
    code = "context(); v, at = alloc(1000); say(v); sys.stdin.readline()\n"
    code += "say(cuda.cuMemsetD8_v2(at, 1, c.c_size_t(1000 * MIB)), cuda.cuCtxSynchronize())"
    with container.start(code) as app:
        assert app.stdin is not None
        assert app.stdout is not None
        assert app.stdout.readline() == "[0]\n"
        await fail(container)
        output, _ = app.communicate("\n")
    assert output == "[0, 0]\n"
