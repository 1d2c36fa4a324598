"""Hundreds of pods of a megabyte in one namespace, as any tenant can create them."""

import asyncio
from pathlib import Path

import pytest

from testbed import Bed, Card, SimNode
from testbed.control_plane.api import Object
from testbed.daemons.extender import ExtenderSpec, grant, start_extender
from testbed.system.process import Process

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="module")]

PODS = "/api/v1/namespaces/default/pods"
NUMBER, SIZE = 200, 1_000_000
AT_ONCE = 5


def large(number: int) -> Object:
    """A pod that never runs, and that no quota of GPUs or CPU counts."""
    container = {"name": "c", "image": "x", "args": ["x" * SIZE]}
    spec = {"schedulingGates": [{"name": "example.com/wait"}], "containers": [container]}
    return {"metadata": {"name": f"large-{number}"}, "spec": spec}


def peak_mib(process: Process) -> int:
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))


async def test_large_pods_do_not_fill_the_memory_of_an_extender(restored_bed: Bed) -> None:
    """Its limit in the stack is 512 MiB. In pages of 500 objects it took 2 MiB for each pod."""
    bed = restored_bed
    await grant(bed)
    await bed.add_nodes([SimNode("n", [Card()])])
    for first in range(0, NUMBER, AT_ONCE):
        await asyncio.gather(*(bed.api.create(PODS, large(first + i)) for i in range(AT_ONCE)))
    extender = await start_extender(bed, ExtenderSpec())
    assert peak_mib(extender) < 256
