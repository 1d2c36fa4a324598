"""An API server that does not answer, refuses, or has lost its latest changes; replicas under load."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web

from testbed import Bed, SchedulerSpec, Testbed, gpu_pod, until
from testbed.control_plane.pki import Authority
from testbed.daemons.extender import ACCOUNT, grant
from tests.support.fakes.fault_proxy import fault_proxy, on_bind
from tests.support.faults import fault
from tests.support.fixtures.bind_load import PODS
from tests.support.fixtures.etcd_backups import back_up, lost_changes, restore
from tests.support.fixtures.extenders import leads, request_bind, until_leads
from tests.support.fixtures.fault_arena import (
    FIRST_BIND,
    NODES,
    SIZE,
    TAKE_OVER_S,
    FaultArena,
    add_arena,
    kept_running,
)

pytestmark = pytest.mark.asyncio(loop_scope="session")

RIGHTS = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings/gpushare-schd-extender"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def bed() -> AsyncIterator[Bed]:
    """A separate one: its API server is stopped, and its etcd restored."""
    async with Testbed(scheduler=SchedulerSpec(None)) as running:
        await add_arena(running)
        yield running


async def until_none_leads(arena: FaultArena) -> None:
    async def none() -> bool:
        return not any([await leads(each) for each in arena.replicas])

    await until(none, "no replica to lead")


@fault("stopped for 10 s", component="API server")
async def test_an_outage_of_the_api_server_is_survived(arena: FaultArena) -> None:
    await arena.start(), await arena.start()
    async with arena.load() as load:
        await arena.bed.stop("kube-apiserver")
        await asyncio.sleep(10)  # the outage itself, not a wait for a condition
        await arena.bed.start("kube-apiserver")
        await arena.recovers(load, since=time.monotonic())
    await arena.proved()


@fault("rotated: another CA and certificate, at the paths of the old ones", component="CA of the API server")
async def test_replicas_read_a_new_ca_while_they_run(arena: FaultArena, tmp_path: Path) -> None:
    ca, tls = tmp_path / "ca.crt", ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)

    def rotate() -> None:
        authority = Authority.create("another authority")
        authority.server("api", ["127.0.0.1"]).write(tmp_path, "api")
        ca.write_bytes(authority.pair().cert)
        tls.load_cert_chain(tmp_path / "api.crt", tmp_path / "api.key")

    rotate()
    bed = arena.bed
    async with fault_proxy(bed.api_url, bed.credentials.context(ACCOUNT), tls=tls) as proxy:
        kubeconfig = proxy.kubeconfig(tmp_path, ca)
        await arena.start(kubeconfig), await arena.start(kubeconfig)
        async with arena.load() as load:
            rotate()
            # The connections of the old certificate end, as with the process that had it.
            proxy.close_connections()
            await arena.recovers(load, since=time.monotonic())
        await arena.proved()


@fault("frozen (SIGSTOP) for longer than the renew deadline", component="API server")
async def test_a_frozen_api_server_ends_every_leadership_and_takes_no_late_bind(arena: FaultArena) -> None:
    await arena.start(), await arena.start()
    async with arena.load() as load:
        await arena.bed.pause("kube-apiserver")
        await until_none_leads(arena)
        await arena.bed.resume("kube-apiserver")
        await arena.recovers(load, since=time.monotonic())
    await arena.proved()


@fault("403 on the Lease, for leader and follower", component="API server")
async def test_replicas_that_may_not_use_the_lease_do_not_bind(arena: FaultArena) -> None:
    await arena.start(), await arena.start()
    async with arena.load() as load:
        await arena.bed.api.delete(RIGHTS)
        await until_none_leads(arena)
        since = time.monotonic()
        await until(lambda: _refused(load.refused, since), "binds to be refused")
        assert not await load.bound_since(since)
        await grant(arena.bed, new=True)
        await arena.recovers(load, since=time.monotonic())
    await arena.proved()


async def _refused(refused: list[tuple[float, str]], since: float) -> bool:
    return bool(refused) and refused[-1][0] > since and "may not use its Lease" in refused[-1][1]


@fault("connections reset in the answer to 20 binds", component="API server")
async def test_a_bind_whose_answer_is_lost_is_counted(arena: FaultArena) -> None:
    async with fault_proxy(arena.bed.api_url, arena.bed.credentials.context(ACCOUNT)) as proxy:
        count = 0

        async def reset(request: web.Request) -> web.StreamResponse | None:
            nonlocal count
            count += 1
            await proxy.forward_and_reset(request)
            return web.Response()

        await arena.start(proxy.kubeconfig(arena.bed.folder))
        await arena.start()
        async with arena.load() as load:
            proxy.faults.append(on_bind(reset, times=20))

            async def all_reset() -> bool:
                return count == 20

            await until(all_reset, "20 answers to be lost", 60)
            await arena.recovers(load, since=time.monotonic())
        await arena.proved()


# --- a restore of an older backup ---------------------------------------------------------------


async def node_of(bed: Bed, name: str) -> str | None:
    node: str | None = (await bed.api.get(f"{PODS}/{name}"))["spec"].get("nodeName")
    return node


@fault("restored from an older backup of etcd", component="API server")
async def test_after_a_restore_the_ledger_has_the_pods_of_the_backup_and_no_others(arena: FaultArena) -> None:
    bed, leader, follower = arena.bed, await arena.start(), await arena.start()
    whole = [gpu_pod(name, SIZE) for name in ("stays", "returns", "bound-after")]
    stays, returns, bound_after = await bed.create_pods(whole)
    assert await request_bind(leader, stays, NODES[0]) == ""
    assert await request_bind(leader, returns, NODES[0]) == ""
    backup = await back_up(bed)
    await until_leads(leader)
    await lost_changes(bed)
    await bed.api.delete(f"{PODS}/returns", gracePeriodSeconds="0")
    assert await request_bind(leader, bound_after, NODES[1]) == ""
    (lost,) = await bed.create_pods([gpu_pod("lost", SIZE)])
    assert await request_bind(leader, lost, NODES[1]) == ""
    async with kept_running([bed.process(each.name) for each in arena.replicas]):
        await restore(bed, backup)
        restored = time.monotonic()
        assert (await node_of(bed, "returns"), await node_of(bed, "bound-after")) == (NODES[0], None)

        async def binds() -> bool:
            with suppress(aiohttp.ClientError):
                await request_bind(follower, bound_after, NODES[2])
            return await node_of(bed, "bound-after") == NODES[2]

        await arena.row.recovers(binds, FIRST_BIND, since=restored, within_s=6 * TAKE_OVER_S)
        async with arena.load():
            pass
    for each in arena.replicas:
        assert "it was restored from a backup" in bed.process(each.name).command.log.read_text()
    await arena.proved()
