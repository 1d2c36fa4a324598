"""Hundreds of pods of a megabyte in one namespace, as any tenant can create them."""

import asyncio
import time
from pathlib import Path

import pytest

from devkit.process import Process
from testbed import Bed
from testbed.control_plane.api import Object
from tests.support.faults import FaultRow, fault
from tests.support.fixtures.fault_arena import add_arena, fault_arena

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="module")]

PODS = "/api/v1/namespaces/tenant/pods"
NUMBER, SIZE = 300, 1_000_000
AT_ONCE = 5


def large(number: int) -> Object:
    """A pod that never runs, and that no quota of GPUs or CPU counts."""
    container = {"name": "c", "image": "x", "args": ["x" * SIZE]}
    spec = {"schedulingGates": [{"name": "example.com/wait"}], "containers": [container]}
    return {"metadata": {"name": f"large-{number}"}, "spec": spec}


def peak_mib(process: Process) -> int:
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))


@fault("300 pods of 1 MB in the namespace of a tenant, and another replica starts", component="extender")
async def test_large_pods_do_not_fill_the_memory_of_an_extender(
    restored_bed: Bed, fault_row: FaultRow
) -> None:
    """Its limit in the stack is 512 MiB. In pages of 500 objects it took 2 MiB for each pod."""
    bed = restored_bed
    await add_arena(bed)
    await bed.create_namespace("tenant")
    async with fault_arena(bed, fault_row) as arena:
        await arena.start()
        async with arena.load() as load:
            for first in range(0, NUMBER, AT_ONCE):
                await asyncio.gather(*(bed.api.create(PODS, large(first + i)) for i in range(AT_ONCE)))
            since = time.monotonic()
            await arena.start()
            await arena.recovers(load, since=since)
        for each in arena.replicas:
            assert peak_mib(bed.process(each.name)) < 256
        await arena.proved()
