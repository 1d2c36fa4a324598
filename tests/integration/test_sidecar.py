"""Three replicas of the stack's sidecar: schedulers on loopback, binds between extenders over mutual TLS.

The pods name no scheduler, like the manifests of users.
"""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from devkit.waiting import together
from gpushare.contract import ANN_IDX, EXTENDER_PREFIX
from testbed import Bed, SimGpu, SimNode, gpu_pod, until
from testbed.daemons.extender import start_extender
from tests.support.fixtures.extenders import until_leads
from tests.support.fixtures.sidecars import Sidecar, grant, issue, replica, schedules, start_scheduler
from tests.support.history import Recorder, has_units, overcommits
from tests.support.metrics import total

pytestmark = pytest.mark.asyncio(loop_scope="module")

PODS = "/api/v1/namespaces/default/pods"
NODES, CARDS, SIZE, UNITS = 3, 2, 14, 2
PAIR = NODES * CARDS * SIZE // UNITS // 2
"""Two batches of so many pods fill every GPU."""
WAIT_S = 90.0
"""More than an election and the longest backoff of a scheduler."""


@dataclass
class Replicas:
    """The scheduler of ``first`` leads, the extender of ``second`` holds the Lease."""

    bed: Bed
    recorder: Recorder
    first: Sidecar
    second: Sidecar
    third: Sidecar

    async def bind_batch(self, name: str, wait_for: int = PAIR) -> None:
        """Create pods and wait until so many of all batches are bound."""
        await self.bed.create_pods([gpu_pod(f"{name}-{i}", UNITS) for i in range(PAIR)])
        await self.until_bound(wait_for)

    async def until_bound(self, number: int) -> None:
        async def bound() -> bool:
            found = [each["metadata"].get("annotations", {}) for each in await self.bed.api.items(PODS)]
            return sum(ANN_IDX in each for each in found) >= number

        await until(bound, f"{number} pods to be bound with a GPU", WAIT_S, 0.1)

    async def every_gpu_is_full_and_was_never_over_committed(self) -> None:
        await self.until_bound(2 * PAIR)
        history = await self.recorder.caught_up()
        assert overcommits(history, SIZE) == []
        assert len({pod["metadata"]["uid"] for _, pod in history if has_units(pod)}) == 2 * PAIR


@asynccontextmanager
async def three_replicas(bed: Bed, folder: Path) -> AsyncIterator[Replicas]:
    issue(folder)
    first, second, third = (replica(name, folder) for name in ("first", "second", "third"))
    _, scheduler = await grant(bed, "sidecar")
    await bed.add_nodes([SimNode(f"n{i}", [SimGpu(units=SIZE)] * CARDS) for i in range(NODES)])
    await start_extender(bed, second.extender)
    await until_leads(second.extender)
    await together(start_extender(bed, one.extender) for one in (first, third))
    await start_scheduler(bed, first, scheduler["command"])
    await until(lambda: schedules(bed, first), "the first scheduler to lead")
    await together(start_scheduler(bed, one, scheduler["command"]) for one in (second, third))
    async with Recorder(bed.api) as recorder:
        yield Replicas(bed, recorder, first, second, third)


async def counted_by(running: Replicas, number: int) -> bool:
    """Whether the first extender forwarded and the second bound that many pods."""
    name = "gpushare_extender_forwarded_requests_total"
    forwarded = await total(running.first.extender.ops_url, name, verb="bind", result="ok")
    bound = await total(running.second.extender.ops_url, "gpushare_extender_binds_total", reason="bound")
    return forwarded == bound == number


@pytest.mark.short
async def test_pods_that_name_no_scheduler_are_bound_over_mutual_tls(
    restored_bed: Bed, tmp_path: Path
) -> None:
    """By the extender that holds the Lease, which the leading scheduler does not reach itself."""
    async with three_replicas(restored_bed, tmp_path) as running:
        await running.bind_batch("first", PAIR)
        await running.bind_batch("second", 2 * PAIR)
        # The API has a bind before the replicas have its answer.
        await until(lambda: counted_by(running, 2 * PAIR), "both extenders to count each bind")
        await running.every_gpu_is_full_and_was_never_over_committed()


async def test_the_port_of_replicas_answers_replicas_only(restored_bed: Bed, tmp_path: Path) -> None:
    issue(tmp_path)
    one = replica("one", tmp_path)
    stranger = ssl.create_default_context(cafile=f"{tmp_path}/ca.crt")
    peer = ssl.create_default_context(cafile=f"{tmp_path}/ca.crt")
    peer.load_cert_chain(f"{tmp_path}/tls.crt", f"{tmp_path}/tls.key")
    bed = restored_bed
    await grant(bed, "sidecar")
    await start_extender(bed, one.extender)
    assert await status(one, "bind", ssl=peer) == 200
    # Of members of pod groups.
    assert await status(one, "filter", ssl=peer) == 200
    assert await status(one, "prioritize", ssl=peer) == 404
    with pytest.raises((aiohttp.ClientError, OSError)):
        await status(one, "bind", ssl=stranger)
    with pytest.raises((aiohttp.ClientError, OSError)):
        await status(one, "bind", scheme="http")


async def status(one: Sidecar, verb: str, *, scheme: str = "https", **how: Any) -> int:
    url = f"{scheme}://127.0.0.1:{one.peer_port}{EXTENDER_PREFIX}/{verb}"
    async with aiohttp.ClientSession() as session, session.post(url, data=b"{}", **how) as answer:
        return answer.status


@pytest.mark.short
async def test_when_the_extender_that_binds_is_killed_another_binds(
    restored_bed: Bed, tmp_path: Path
) -> None:
    async with three_replicas(restored_bed, tmp_path) as running:
        await running.bind_batch("before", 1)
        await running.bed.kill(running.second.extender.name)
        await running.bind_batch("after", 2 * PAIR)
        await running.every_gpu_is_full_and_was_never_over_committed()


async def test_when_the_scheduler_beside_a_failed_extender_is_stopped_another_schedules(
    restored_bed: Bed, tmp_path: Path
) -> None:
    """Its liveness probe is that of the extender, so the kubelet stops it."""
    async with three_replicas(restored_bed, tmp_path) as running:
        await running.bind_batch("before", 1)
        await running.bed.kill(running.first.extender.name)
        await running.bed.stop(running.first.scheduler)
        await running.bind_batch("after", 2 * PAIR)
        await running.every_gpu_is_full_and_was_never_over_committed()


async def test_when_the_pod_with_the_leading_scheduler_is_killed_another_schedules(
    restored_bed: Bed, tmp_path: Path
) -> None:
    async with three_replicas(restored_bed, tmp_path) as running:
        await running.bind_batch("before", 1)
        for process in (running.first.scheduler, running.first.extender.name):
            await running.bed.kill(process)
        await running.bind_batch("after", 2 * PAIR)
        others = (running.second, running.third)
        assert [await schedules(running.bed, one) for one in others].count(True) == 1
        await running.every_gpu_is_full_and_was_never_over_committed()
