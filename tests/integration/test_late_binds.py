"""Binds that arrive late, with one GPU on each node, so that two writers would over-commit it."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio
from aiohttp import web

from devkit.waiting import timeout_factor, together
from testbed import Bed, SimGpu, SimNode, gpu_pod, until
from testbed.control_plane.api import Object
from testbed.daemons.extender import ACCOUNT, LEASES, ExtenderSpec, grant, start_extender
from tests.support.fakes.fault_proxy import FaultProxy, fault_proxy, on_bind
from tests.support.faults import FaultRow, fault, moments_of_overcommit
from tests.support.fixtures.bind_load import differences
from tests.support.fixtures.extenders import replica, request_bind, until_leads
from tests.support.history import Recorder
from tests.support.metrics import total

pytestmark = pytest.mark.asyncio(loop_scope="session")

PODS = "/api/v1/namespaces/default/pods"
LATE_S = 8.0


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def bed(clean_bed: Bed) -> Bed:
    await grant(clean_bed, new=True)
    await clean_bed.add_nodes([SimNode(name, [SimGpu(units=14)]) for name in ("frozen", "late", "again")])
    return clean_bed


@pytest_asyncio.fixture(loop_scope="session")
async def proxy(bed: Bed) -> AsyncIterator[FaultProxy]:
    async with fault_proxy(bed.api_url, bed.credentials.context(ACCOUNT)) as running:
        yield running


@dataclass
class Proof:
    """The row of a test, and the history of its pods."""

    row: FaultRow
    recorder: Recorder

    async def given(self, by: ExtenderSpec) -> None:
        """No GPU was over-committed, and the replica counts all bound pods."""
        lost, _ = await differences(self.recorder.api, by)
        self.row.proved(moments_of_overcommit(await self.recorder.caught_up(), 14), lost)


@pytest_asyncio.fixture(loop_scope="session")
async def proof(bed: Bed, fault_row: FaultRow) -> AsyncIterator[Proof]:
    async with Recorder(bed.api) as recorder:
        yield Proof(fault_row, recorder)


async def two_pods(bed: Bed, name: str) -> list[Object]:
    """Each fits a GPU, both together do not."""
    return await bed.create_pods([gpu_pod(f"{name}-{each}", 10) for each in ("first", "second")])


async def node_of(bed: Bed, pod: Object) -> str | None:
    found = await bed.api.get(f"{PODS}/{pod['metadata']['name']}")
    node: str | None = found["spec"].get("nodeName")
    return node


async def seen_pending(spec: ExtenderSpec, number: int) -> bool:
    return await total(spec.ops_url, "gpushare_pods_pending") == number


async def no_pods_and_leases(request: web.Request) -> web.StreamResponse | None:
    """The API server does not answer reads of pods and Leases."""
    refused = request.method == "GET" and any(each in request.path for each in ("/pods", "/leases"))
    return web.Response(status=503) if refused else None


@fault("frozen (SIGSTOP) and asked to bind, continued after another replica leads", component="leader")
async def test_a_leader_that_was_frozen_does_not_send_a_bind_that_it_was_asked_for_meanwhile(
    bed: Bed, proxy: FaultProxy, proof: Proof
) -> None:
    """It has not seen the bind of the next leader either: only its fence keeps it from over-committing."""
    frozen, other = replica(lease="frozen"), replica(lease="frozen")
    await start_extender(bed, frozen, proxy.kubeconfig(bed.folder))
    await until_leads(frozen)
    first, second = await two_pods(bed, "frozen")
    await until(lambda: seen_pending(frozen, 2), "the pods in the cache of the extender")
    proxy.watches_flow.clear()
    # After a long freeze it would list the pods, because its watches were silent. From the Lease it would
    # learn the next leader, and forward the bind to it.
    proxy.faults.append(no_pods_and_leases)
    await bed.pause(frozen.name)
    began = time.monotonic()
    asked = asyncio.create_task(request_bind(frozen, first, "frozen"))
    # Only now: on a busy machine it could have taken the Lease before the freeze.
    await start_extender(bed, other)
    await until_leads(other)
    assert await request_bind(other, second, "frozen") == ""
    proof.row.recovered(time.monotonic() - began, "first bind", within_s=60)
    await bed.resume(frozen.name)
    assert await asked == "this extender does not hold the Lease"
    assert await total(frozen.ops_url, "gpushare_extender_binds_total", reason="fenced") == 1
    assert (await node_of(bed, first), await node_of(bed, second)) == (None, "frozen")
    await proof.given(other)
    await together(bed.process(spec.name).stop() for spec in (frozen, other))


@fault("killed (SIGKILL), and its last bind arrives 8 s late", component="leader")
async def test_a_bind_that_a_killed_leader_sent_arrives_before_the_next_leader_binds(
    bed: Bed, proxy: FaultProxy, proof: Proof
) -> None:
    late_by = f"--api-request-timeout={LATE_S + 4:g}"
    killed, other = replica(late_by, lease="late"), replica(late_by, lease="late")
    held = asyncio.Event()

    async def late(request: web.Request) -> web.StreamResponse | None:
        proxy.later(request, LATE_S)
        held.set()
        await asyncio.Event().wait()
        return None

    proxy.faults.append(on_bind(late))
    await start_extender(bed, killed, proxy.kubeconfig(bed.folder))
    await until_leads(killed)
    first, second = await two_pods(bed, "late")
    asked = asyncio.create_task(request_bind(killed, first, "late"))
    await asyncio.wait_for(held.wait(), 10 * timeout_factor())
    await bed.kill(killed.name)
    began = time.monotonic()
    await start_extender(bed, other)
    await asyncio.gather(asked, return_exceptions=True)
    await until_leads(other)
    proof.row.recovered(time.monotonic() - began, "the next leader", within_s=60)
    assert "asked 10, at most 4 of 14 free" in await request_bind(other, second, "late")
    assert (await node_of(bed, first), await node_of(bed, second)) == ("late", None)
    await proof.given(other)
    await bed.process(other.name).stop()


async def test_a_leader_that_is_stopped_with_an_unclear_bind_does_not_release_its_lease(
    bed: Bed, proxy: FaultProxy
) -> None:
    """A released Lease says that no bind can arrive any more."""
    spec = replica(lease="unclear")
    (pod,) = await bed.create_pods([gpu_pod("unclear", 4)])

    async def no_answer(_: web.Request) -> web.StreamResponse | None:
        await asyncio.Event().wait()
        return None

    proxy.faults.append(on_bind(no_answer))
    await start_extender(bed, spec, proxy.kubeconfig(bed.folder))
    await until_leads(spec)
    assert "outcome unknown" in await request_bind(spec, pod, "again")
    await bed.process(spec.name).stop()
    lease = await bed.api.get(f"{LEASES}/unclear")
    assert lease["spec"]["holderIdentity"]
    assert lease["metadata"]["annotations"]["gpushare.io/binds"] == "open"


async def test_a_pod_that_is_created_again_during_its_bind_is_not_bound(bed: Bed, proxy: FaultProxy) -> None:
    """The Binding names the UID of the pod that was judged; this one may request anything."""
    spec = replica(lease="again")
    (pod,) = await bed.create_pods([gpu_pod("again", 4)])

    async def create_again(_: web.Request) -> web.StreamResponse | None:
        await bed.api.delete(f"{PODS}/again", gracePeriodSeconds="0")
        await bed.create_pods([gpu_pod("again", 14)])
        return None

    await start_extender(bed, spec, proxy.kubeconfig(bed.folder))
    await until_leads(spec)
    proxy.faults.append(on_bind(create_again))
    assert "uid" in (await request_bind(spec, pod, "again")).lower()
    assert await node_of(bed, pod) is None
    (successor,) = [each for each in await bed.api.items(PODS) if each["metadata"]["name"] == "again"]

    async def fits() -> bool:
        return not await request_bind(spec, successor, "again")

    await until(fits, "the units of the first pod to be free")
    await bed.process(spec.name).stop()
