"""The usage API behind a real API server, for a user who may edit one namespace and nothing else.

The exporter's page comes from a FAKE exporter; the API server, its RBAC and kubectl are real.
"""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from devkit.ports import LOOPBACK
from gpushare.contract import EXPORTER_NAME
from testbed import Bed, DevkitError, SchedulerSpec, Testbed, until
from testbed.daemons import console_script
from testbed.daemons.metricsapi import start_metrics_api
from tests.support.builders.usage_objects import GIB, gpu_node, gpu_pod, page
from tests.support.fixtures.boards import running_board

pytestmark = pytest.mark.asyncio(loop_scope="module")

ALICE = "alice"
ROOT = "/apis/usage.gpushare.io/v1/namespaces"
OWN = {"memory_used_bytes": 3 * GIB, "memory_limit_bytes": 4 * GIB, "memory_refusals_total": 2}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bed() -> AsyncIterator[Bed]:
    """No kubelet renews the lease of its node, which is ready all the same."""
    flags = ["--node-monitor-grace-period=1h"]
    async with (
        Testbed(scheduler=SchedulerSpec(None), kwok=False, controller_flags=flags) as found,
        exporter() as port,
    ):
        await fill(found)
        await start_metrics_api(found, [f"--exporter-port={port}"])
        await granted(found)
        yield found


class exporter:  # noqa: N801 - used as a function
    """A FAKE exporter on loopback, which reports the pods of two namespaces."""

    async def __aenter__(self) -> int:
        app = web.Application()
        app.router.add_get("/metrics", self._page)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, LOOPBACK, 0)
        await site.start()
        port: int = self._runner.addresses[0][1]
        return port

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _page(self, _: web.Request) -> web.Response:
        containers = [("team-a", "nb", "main", 0, OWN), ("team-b", "secret", "main", 1, OWN)]
        return web.Response(body=page(*containers))


async def fill(bed: Bed) -> None:
    """A node with two GPUs, and pods in two namespaces."""
    for namespace in ("team-a", "team-b"):
        await bed.create_namespace(namespace)
    await bed.api.create("/api/v1/nodes", gpu_node("n", 14, 14))
    await bed.until_service_account("kube-system")
    meta = {"name": EXPORTER_NAME, "labels": {"component": EXPORTER_NAME}}
    spec = {"nodeName": "n", "containers": [{"name": "main", "image": "none"}]}
    pods = "/api/v1/namespaces/kube-system/pods"
    await bed.api.create(pods, {"metadata": meta, "spec": spec})
    address = {"podIP": LOOPBACK, "podIPs": [{"ip": LOOPBACK}]}
    await bed.api.patch(f"{pods}/{EXPORTER_NAME}/status", {"status": {"phase": "Running", **address}})
    for pod in (
        gpu_pod("nb", "team-a", 4, on="n", card=0, labels={"app": "x"}),
        gpu_pod("big", "team-a", 12),
        gpu_pod("secret", "team-b", 12, on="n", card=1),
    ):
        await create(bed, pod)


async def create(bed: Bed, pod: dict[str, Any]) -> None:
    """As a user creates it: no scheduler and no kubelet runs, so the test writes its status."""
    meta, (container,) = pod["metadata"], pod["spec"]["containers"]
    units = container["resources"]["limits"]["aliyun.com/gpu-mem"]
    container |= {"image": "none", "resources": {"limits": {"aliyun.com/gpu-mem": str(units)}}}
    for made in ("uid", "creationTimestamp"):
        del meta[made]
    path = f"/api/v1/namespaces/{meta['namespace']}/pods"
    await bed.api.create(path, pod)
    await bed.api.patch(f"{path}/{meta['name']}/status", {"status": pod["status"]})


async def granted(bed: Bed) -> None:
    """Alice may edit one namespace; the controller manager adds the usage API to that role."""
    await bed.kubectl(
        *("create", "rolebinding", "alice", "-n", "team-a"),
        *("--clusterrole=edit", f"--user={ALICE}"),
    )

    async def allowed() -> bool:
        try:
            await alice(bed, "get", "--raw", f"{ROOT}/team-a/gpupods")
        except DevkitError:
            return False
        return True

    await until(allowed, "the role edit to have the usage API", 30, 0.2)


async def alice(bed: Bed, *arguments: str) -> str:
    """kubectl with the rights of one namespace."""
    return await bed.kubectl(*arguments, f"--kubeconfig={bed.kubeconfig_for(ALICE)}")


async def raw(bed: Bed, path: str) -> Any:
    return json.loads(await alice(bed, "get", "--raw", f"{ROOT}/{path}"))


async def refused(bed: Bed, *arguments: str) -> str:
    with pytest.raises(DevkitError) as caught:
        await alice(bed, *arguments)
    return str(caught.value)


async def test_a_user_reads_the_usage_of_the_own_namespace(bed: Bed) -> None:
    found = await raw(bed, "team-a/gpupods")
    big, nb = found["items"]
    (gpu,) = nb["containers"][0]["gpus"]
    assert (big["metadata"]["name"], big["state"], big["node"]) == ("big", "Pending", None)
    assert (nb["metadata"]["name"], nb["node"], nb["gpuIndexes"]) == ("nb", "n", [0])
    assert (gpu["usedBytes"], gpu["limitBytes"], gpu["refusals"], gpu["peakBytes"]) == (
        *(3 * GIB, 4 * GIB),
        *(2, None),
    )
    assert found["notes"] == []
    assert await raw(bed, "team-a/gpupods/nb") == nb


async def test_a_pending_pod_is_explained_without_the_other_tenant(bed: Bed) -> None:
    found = await raw(bed, "team-a/gpupods/big/explanation")
    (node,) = found["nodes"]
    assert (found["kind"], found["pod"], found["state"]) == (
        *("GpuPodExplanation", "team-a/big"),
        "waits-for-gpu",
    )
    assert [(card["index"], card["free"]) for card in node["cards"]] == [(0, 10), (1, 2)]
    assert "request at most 10 units" in found["remedies"][0]["text"]
    text = json.dumps(found)
    assert "secret" not in text
    assert "team-b" not in text


async def test_what_fits_is_counted_over_all_namespaces(bed: Bed) -> None:
    found = await raw(bed, "team-a/gpufits?units=5")
    (kind,) = found["items"]
    assert (found["largestFreeUnits"], found["fittingPods"]) == (10, 2)
    assert (kind["model"], kind["nodes"], kind["openNodes"]) == ("Tesla T4", 1, 1)


async def test_another_namespace_is_refused(bed: Bed) -> None:
    for path in ("gpupods", "gpupods/secret", "gpupods/secret/explanation", "gpufits"):
        assert "Forbidden" in await refused(bed, "get", "--raw", f"{ROOT}/team-b/{path}")


async def test_kubectl_gets_the_pods_as_a_table(bed: Bed) -> None:
    head, _, nb = (await alice(bed, "get", "gpupods", "-n", "team-a")).splitlines()
    assert head.split() == [
        *("NAME", "STATUS", "UNITS", "GPUS", "USED", "PEAK", "LIMIT", "REFUSED", "SM", "AGE"),
    ]
    assert nb.split()[:6] == ["nb", "Running", "4GiB", "0", "3072MiB", "<unknown>"]
    wide = await alice(bed, "get", "gpupod", "nb", "-n", "team-a", "-o", "wide")
    assert wide.splitlines()[1].split()[10] == "n"
    selected = await alice(bed, "get", "gpupods", "-n", "team-a", "-l", "app=x", "-o", "name")
    assert selected.split() == ["gpupod.usage.gpushare.io/nb"]
    assert "Tesla T4" in await alice(bed, "get", "gpufits", "-n", "team-a")


async def test_discovery_has_the_group(bed: Bed) -> None:
    listed = await alice(bed, "api-resources", "--api-group=usage.gpushare.io", "--no-headers")
    assert [line.split()[0] for line in listed.splitlines()] == ["gpufits", "gpupods"]
    assert "error" not in await alice(bed, "api-resources")
    (verbs,) = [
        line
        for line in (await alice(bed, "auth", "can-i", "--list", "-n", "team-a")).splitlines()
        if "gpufits" in line
    ]
    assert "[list]" in verbs


async def test_the_board_of_the_namespace_names_no_other_tenant(bed: Bed) -> None:
    kubeconfig = f"--kubeconfig={bed.kubeconfig_for(ALICE)}"
    command = (console_script("gpushare"), "board", kubeconfig, "-n", "team-a")
    async with running_board(*command) as board:

        async def explained() -> Any:
            found = await board.document()
            return found if found["pending"] and found["pending"][0]["reason"] else None

        found = await until(explained, "the pending pod to be explained")
        (pod,), (group,), (kind,) = found["pods"], found["pending"], found["fits"]["items"]
        assert (pod["name"], pod["usedBytes"], pod["limitBytes"]) == ("nb", 3 * GIB, 4 * GIB)
        assert [each["name"] for each in group["pods"]] == ["big"]
        assert "12 units" in group["reason"]
        assert "request at most 10 units" in group["remedies"][0]["text"]
        assert (kind["model"], found["fits"]["largestFreeUnits"]) == ("Tesla T4", 10)
        for name in ("secret", "team-b"):
            assert name not in json.dumps(found)
        for path in ("ranges", "history?range=7d", "tenants"):
            assert (await board.get(path))[0] == 404


async def test_errors_say_the_value_and_the_way_out(bed: Bed) -> None:
    assert "write 4 for 4Gi" in await refused(bed, "get", "--raw", f"{ROOT}/team-a/gpufits?units=4Gi")
    assert "there is no pod none in namespace team-a" in await refused(
        bed, "get", "gpupod", "none", "-n", "team-a"
    )
    with pytest.raises(DevkitError) as caught:
        await bed.kubectl("delete", "gpupods", "nb", "-n", "team-a")
    assert "this API is read-only" in str(caught.value)


async def test_a_namespace_can_be_deleted(bed: Bed) -> None:
    """The controller of namespaces asks every API for what it would have to delete."""
    await bed.create_namespace("gone")
    await bed.kubectl("delete", "namespace", "gone", "--timeout=30s", timeout_s=40)
