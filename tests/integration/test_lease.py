"""Binds while the Lease is refused, deleted or missing, and after a crash: real API server, real RBAC."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from uuid import uuid4

import pytest
import pytest_asyncio
from aiohttp import web

from devkit.waiting import together
from gpushare.errors import ApiError
from testbed import Bed, SimGpu, SimNode, gpu_pod, until
from testbed.control_plane.api import read_text
from testbed.daemons.extender import ACCOUNT, LEASES, ExtenderSpec, grant, start_extender
from tests.support.fakes.fault_proxy import fault_proxy, on_bind
from tests.support.faults import FaultRow, fault, moments_of_overcommit
from tests.support.fixtures.bind_load import differences
from tests.support.fixtures.extenders import leads, replica, request_bind, until_leads
from tests.support.history import Recorder
from tests.support.metrics import total

pytestmark = pytest.mark.asyncio(loop_scope="session")

DEADLINE_S, TAKE_OVER_S = 5.0, 8.0
SLACK_S = 0.1
"""Tolerance of times that a test measures."""
RIGHTS = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings/gpushare-schd-extender"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def bed(clean_bed: Bed) -> Bed:
    await grant(clean_bed, new=True)
    await clean_bed.add_nodes([SimNode("n", [SimGpu(units=10_000)])])
    return clean_bed


async def bind(bed: Bed, spec: ExtenderSpec) -> str:
    """Bind a new pod through this replica; return the error."""
    (pod,) = await bed.create_pods([gpu_pod(f"pod-{uuid4().hex[:8]}", 1)])
    return await request_bind(spec, pod, "n")


async def until_refused(bed: Bed, spec: ExtenderSpec, says: str) -> None:
    async def reported() -> bool:
        return says in await bind(bed, spec)

    await until(reported, f"a bind to be rejected: {says}")


async def lease(bed: Bed, name: str) -> dict[str, object] | None:
    try:
        spec: dict[str, object] = (await bed.api.get(f"{LEASES}/{name}"))["spec"]
    except ApiError as error:
        if error.status == 404:
            return None
        raise
    return spec


async def stop(bed: Bed, specs: Sequence[ExtenderSpec]) -> None:
    await together(bed.process(spec.name).stop() for spec in specs)


@pytest.mark.short
async def test_the_first_extender_of_a_cluster_waits_as_after_a_crashed_leader(bed: Bed) -> None:
    """A missing Lease may have been deleted, and another extender may bind without one."""
    spec, began = replica(lease="first"), time.monotonic()
    await start_extender(bed, spec)
    await until(lambda: lease(bed, "first"), "the Lease")
    await until_refused(bed, spec, "there was no Lease, so that another one may still bind")
    await until_leads(spec)
    assert time.monotonic() - began >= TAKE_OVER_S - SLACK_S
    assert await bind(bed, spec) == ""
    await stop(bed, [spec])


async def test_without_permission_for_leases_only_the_leader_binds_until_its_deadline(
    bed: Bed,
) -> None:
    specs = [replica(lease="three") for _ in range(3)]
    for spec in specs:
        await start_extender(bed, spec)
    holder, *followers = specs
    await until_leads(holder)
    assert [await bind(bed, spec) for spec in specs] == ["", "", ""]
    async with without_rights(bed):
        await until(lambda: refused(specs), "all replicas to be refused the Lease")
        gone = time.monotonic()
        outcomes = []
        while time.monotonic() < gone + 2 * TAKE_OVER_S:
            asked = time.monotonic()
            outcomes += [(asked - gone, await bind(bed, spec)) for spec in specs]
            assert not any([await leads(spec) for spec in followers])
        assert not [text for at, text in outcomes if at > DEADLINE_S and not text]
        refusals = {text for at, text in outcomes if at > DEADLINE_S}
        (refusal,) = refusals
        assert refusal.startswith("this extender may not use its Lease (leases.coordination.k8s.io")
        assert refusal.endswith("or start the only replica with --allow-without-lease")
        # The account has lost other rights too, which is noticed when a watch is quiet for long.
        assert f"degraded: {refusal}" in (await read_text(f"{holder.ops_url}/readyz")).splitlines()
    for spec in specs:
        await until(partial(binds, bed, spec), f"{spec.name} to bind, or to pass binds on", 60)
    assert await one_leads(specs)
    assert sum([await bound(spec) > 0 for spec in specs]) <= 2
    await stop(bed, specs)


@asynccontextmanager
async def without_rights(bed: Bed) -> AsyncIterator[None]:
    await bed.api.delete(RIGHTS)
    try:
        yield
    finally:
        await grant(bed, new=True)


async def binds(bed: Bed, spec: ExtenderSpec) -> bool:
    return not await bind(bed, spec)


async def refused(specs: Sequence[ExtenderSpec]) -> bool:
    name = "gpushare_extender_degraded_mode"
    return all([await total(spec.ops_url, name, right="leases") == 1 for spec in specs])


async def one_leads(specs: Sequence[ExtenderSpec]) -> bool:
    return [await leads(spec) for spec in specs].count(True) == 1


async def bound(spec: ExtenderSpec) -> float:
    """The number of pods that this replica itself has bound."""
    return await total(spec.ops_url, "gpushare_extender_binds_total", reason="bound")


@pytest.mark.short
async def test_after_a_lease_is_deleted_no_extender_binds_before_a_full_wait(bed: Bed) -> None:
    holder, fresh = replica(lease="deleted"), replica(lease="deleted")
    await start_extender(bed, holder)
    await until_leads(holder)
    deleted = time.monotonic()
    await bed.api.delete(f"{LEASES}/deleted")
    starting = asyncio.create_task(start_extender(bed, fresh))
    await until(lambda: does_not_lead(holder), "the holder to stop", DEADLINE_S)
    await starting
    await until(lambda: one_leads([holder, fresh]), "one to lead", 60)
    assert time.monotonic() - deleted >= TAKE_OVER_S - SLACK_S
    await stop(bed, [holder, fresh])


async def does_not_lead(spec: ExtenderSpec) -> bool:
    return not await leads(spec)


async def test_by_choice_a_replica_binds_without_a_lease_even_if_it_could_use_one(bed: Bed) -> None:
    late_s = f"--api-request-timeout={TAKE_OVER_S:g}"
    spec, began = replica("--allow-without-lease", late_s, lease="alone"), time.monotonic()
    await start_extender(bed, spec)
    await until_refused(bed, spec, "the last binds of its predecessor may still arrive")
    await until_leads(spec)
    assert time.monotonic() - began >= TAKE_OVER_S - SLACK_S
    assert await bind(bed, spec) == ""
    assert "ok\ndegraded: this extender binds without a Lease" in await read_text(f"{spec.ops_url}/readyz")
    assert await lease(bed, "alone") is None
    await stop(bed, [spec])


CRASHING = """
import asyncio
from gpushare.extender import daemon
from gpushare.extender.main import command

async def crash(cluster, notebook):
    def unconfirmed():
        held = (r for book in cluster.ledger.books.values() for r in book.reservations.values())
        return [each for each in held if not each.confirmed]
    while not unconfirmed():
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.3)  # the POST leaves
    raise ValueError("a defect in a background job")

daemon.watch_overcommit = crash
command()
"""
"""The extender with a background job that crashes during a bind."""


@fault("crash of a background job while a bind has no answer", component="leader")
async def test_a_crash_of_a_background_job_with_a_bind_under_way_keeps_the_lease(
    bed: Bed, fault_row: FaultRow
) -> None:
    crashing, other = replica(lease="crash"), replica(lease="crash")
    over = asyncio.Event()
    async with (
        Recorder(bed.api) as recorder,
        fault_proxy(bed.api_url, bed.credentials.context(ACCOUNT)) as proxy,
    ):

        async def late(_: web.Request) -> web.StreamResponse | None:
            await over.wait()
            return None

        proxy.faults.append(on_bind(late))
        argv = [sys.executable, "-c", CRASHING, *crashing.argv(proxy.kubeconfig(bed.folder))[2:]]
        process = await bed.spawn(crashing.name, argv, ready=f"{crashing.ops_url}/readyz")
        await until_leads(crashing)
        assert await bind(bed, crashing), "a bind with an unknown outcome is an error"
        assert await process.wait(30) != 0
        ended = time.monotonic()
        assert [line for line in proxy.seen if line.endswith("/binding")]
        assert "a defect in a background job" in process.command.log.read_text()
        found = await lease(bed, "crash")
        assert found
        assert (found["holderIdentity"], found["leaseDurationSeconds"]) != ("", 1)
        await start_extender(bed, other)
        await until_leads(other)
        assert await bind(bed, other) == ""
        waited_s = time.monotonic() - ended
        assert waited_s >= TAKE_OVER_S - SLACK_S
        fault_row.recovered(waited_s, "first bind", within_s=60)
        over.set()
        lost, _ = await differences(bed.api, other)
        fault_row.proved(moments_of_overcommit(await recorder.caught_up(), 10_000), lost)
    await stop(bed, [other])
