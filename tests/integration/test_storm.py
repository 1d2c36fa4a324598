"""Many pods at once through a real scheduler, and binds that arrive late: no GPU is over-committed."""

import asyncio
import random
import ssl
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from devkit.errors import DevkitError
from testbed import Bed, SchedulerSpec, SimGpu, SimNode, gpu_pod, until
from testbed.control_plane.api import Object
from testbed.daemons.extender import ACCOUNT, ExtenderSpec, component_config, grant, start_extender
from tests.support.fakes.fault_proxy import fault_proxy, on_bind
from tests.support.history import Recorder, cards_of, has_units, overcommits, units_of
from tests.support.metrics import total

pytestmark = [pytest.mark.timeout(600), pytest.mark.asyncio(loop_scope="module")]

NODES, CARDS, SIZE = 10, 8, 14
CAPACITY = NODES * CARDS * SIZE
QUICK_LEASE = (
    "--lease-duration=4",
    "--renew-deadline=3",
    "--retry-period=0.5",
    "--bind-timeout=2",
    "--api-request-timeout=4",
)


@dataclass
class Arena:
    """A bed with 10 nodes of 8 GPUs, a recorder of its history, and one extender."""

    bed: Bed
    recorder: Recorder
    extender: ExtenderSpec

    async def pods(self) -> list[Object]:
        return await self.bed.api.items("/api/v1/pods")

    async def prioritized(self, scores: str) -> float:
        return await total(
            self.extender.ops_url, "gpushare_extender_prioritize_requests_total", scores=scores
        )

    async def until_bound(self, number: int) -> None:
        async def enough() -> bool:
            return sum(bool(pod["spec"].get("nodeName")) for pod in await self.pods()) >= number

        await until(enough, f"{number} bound pods", 120, 0.2)

    async def no_gpu_was_over_committed(self) -> None:
        history = await self.recorder.caught_up()
        assert overcommits(history, SIZE) == []
        assert any(has_units(pod) for _, pod in history), "the history has no bound pod: it proves nothing"


@asynccontextmanager
async def arena(bed: Bed) -> AsyncIterator[Arena]:
    extender = ExtenderSpec()
    scheduler = SchedulerSpec(extenders=[component_config(extender.url)], backoff_s=1, max_backoff_s=2)
    await bed.restart_scheduler(scheduler)
    await grant(bed)
    await start_extender(bed, extender)
    await bed.add_nodes([SimNode(f"node-{i}", [SimGpu()] * CARDS) for i in range(NODES)])
    async with Recorder(bed.api) as recorder:
        yield Arena(bed, recorder, extender)


def seeded_pods(share_of_capacity: float, seed: int) -> list[Object]:
    """Pods of 1 to 8 units whose sizes sum to that fraction of all units."""
    rng = random.Random(seed)
    pods: list[Object] = []
    left = int(CAPACITY * share_of_capacity)
    while left > 0:
        units = min(left, rng.randint(1, 8))
        pods.append(gpu_pod(f"p{len(pods):04}", units))
        left -= units
    return pods


def free_per_card(pods: list[Object]) -> dict[tuple[str, int], int]:
    """An independent recount from API objects."""
    used: dict[tuple[str, int], int] = defaultdict(int)
    for pod in pods:
        if has_units(pod):
            for card, units in cards_of(pod).items():
                used[pod["spec"]["nodeName"], card] += units
    return {(f"node-{n}", c): SIZE - used[f"node-{n}", c] for n in range(NODES) for c in range(CARDS)}


async def at_rest(ring: Arena) -> list[Object]:
    """The pods, as soon as no pending pod fits any GPU."""

    async def settled() -> list[Object] | None:
        pods = await ring.pods()
        widest = max(free_per_card(pods).values())
        waiting = [pod for pod in pods if not pod["spec"].get("nodeName")]
        return pods if all(units_of(pod) > widest for pod in waiting) else None

    try:
        return await until(settled, "no pending pod to fit any GPU", 120, 0.5) or []
    except DevkitError as error:
        raise DevkitError(f"{error}\n{await why_pending(ring)}") from None


async def why_pending(ring: Arena) -> str:
    """The last messages of the scheduler about pending pods, and the GPUs with most free units."""
    pods = await ring.pods()
    waiting = [pod for pod in pods if not pod["spec"].get("nodeName")]
    messages: dict[str, str] = {}
    for event in await ring.bed.api.items("/api/v1/events"):
        messages[event["involvedObject"]["name"]] = f"{event['reason']}: {event['message']}"
    free = sorted(free_per_card(pods).items(), key=lambda item: -item[1])[:5]
    lines = [
        f"{pod['metadata']['name']} ({units_of(pod)}): {messages.get(pod['metadata']['name'])}"
        for pod in waiting
    ]
    return "\n".join([f"{len(waiting)} wait; most free: {free}", *lines[:10]])


@pytest.mark.short
async def test_at_110_percent_no_gpu_is_overcommitted_and_no_pending_pod_fits(restored_bed: Bed) -> None:
    async with arena(restored_bed) as ring:
        pods = seeded_pods(1.1, seed=1)
        await ring.bed.create_pods(pods)
        final = await at_rest(ring)
        assert any(not pod["spec"].get("nodeName") for pod in final)
        await ring.no_gpu_was_over_committed()
        # A real scheduler asks in the expected bytes, except after a pod has waited.
        assert await ring.prioritized("prepared") > await ring.prioritized("computed")


async def test_at_60_percent_no_pod_is_pending(restored_bed: Bed) -> None:
    async with arena(restored_bed) as ring:
        pods = seeded_pods(0.6, seed=2)
        await ring.bed.create_pods(pods)
        await ring.until_bound(len(pods))
        await ring.no_gpu_was_over_committed()


async def test_bind_posts_that_arrive_ten_seconds_late_overcommit_nothing(restored_bed: Bed) -> None:
    spec = ExtenderSpec(flags=(*QUICK_LEASE, "--api-request-timeout=20"))
    bed = restored_bed
    await bed.restart_scheduler(SchedulerSpec(extenders=[component_config(spec.url)]))
    await grant(bed)
    async with fault_proxy(bed.api_url, tls_of(bed)) as proxy:

        async def late(request):  # type: ignore[no-untyped-def]
            proxy.later(request, 10)
            await asyncio.sleep(30)

        proxy.faults.append(on_bind(late, times=6))
        await start_extender(bed, spec, proxy.kubeconfig(bed.folder))
        await bed.add_nodes([SimNode("node-0", [SimGpu()])])
        async with Recorder(bed.api) as recorder:
            await bed.create_pods([gpu_pod(f"p{i}", 4) for i in range(6)])

            async def three() -> bool:
                pods = await bed.api.items("/api/v1/pods")
                return sum(bool(p["spec"].get("nodeName")) for p in pods) >= 3

            await until(three, "three of the six pods bound", 90, 0.5)
            assert overcommits(await recorder.caught_up(), SIZE) == []
            assert sum(line.endswith("/binding") for line in proxy.seen) >= 3


def tls_of(bed: Bed) -> ssl.SSLContext:
    return bed.credentials.context(ACCOUNT)
