"""doctor, explain and board on a real control plane and kubelet: a healthy chain, a pending pod, faults.

The services are processes of the node. A pod with the host network stands for each, so that the API server
reaches their metrics at its address.
"""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from components.manifests import viewers
from components.render import as_yaml
from devkit.process import Process
from gpushare.contract import (
    AGENT_NAME,
    EXPORTER_NAME,
    EXTENDER_NAME,
    EXTENDER_OPS_PORT,
    EXTENDER_SERVICE_PORT,
)
from testbed import Bed, DevkitError, SchedulerSpec, Testbed, until
from testbed.control_plane.api import Object
from testbed.daemons import console_script
from testbed.daemons.agent import GpuNode, add_gpu_node, grant_agent
from testbed.daemons.exporter import grant_exporter, start_exporter
from testbed.daemons.extender import ACCOUNT, ExtenderSpec, component_config, grant
from testbed.kubelets import BUSYBOX_IMAGE, KubeletSpec
from testbed.nvml import card
from tests.support.chromium import chromium
from tests.support.fixtures.boards import BoardServer, running_board, start_board_server
from tests.support.fixtures.gpu_nodes import SHARING, container, pod, running

pytestmark = [pytest.mark.needs("kubelet"), pytest.mark.asyncio(loop_scope="module")]

SYSTEM_PODS = "/api/v1/namespaces/kube-system/pods"
UNPROVEN = {
    # The scheduler is a process, and images have no versions.
    *("scheduler-config", "extender-address", "versions"),
    # The bed has no TLS, no policies, no isolation, and perhaps the cgroups of this machine.
    *("tls", "extender-degraded", "admission", "agents", "cgroups", "isolation"),
}
"""Checks with a warning or an unknown result here."""


@dataclass(frozen=True)
class Installation:
    """A node with agent, exporter and extender."""

    node: GpuNode
    extender: Process

    @property
    def bed(self) -> Bed:
        return self.node.bed

    async def run(self, *arguments: str, announces: str = "") -> tuple[int, Any]:
        """Exit code and document of a command, which announces what it creates."""
        command = [console_script("kubectl-gpushare"), *arguments, "-o", "json"]
        done = await asyncio.to_thread(
            subprocess.run,
            [*command, "--kubeconfig", str(self.bed.kubeconfig)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stderr.startswith(announces), done.stderr
        assert announces or not done.stderr, done.stderr
        return done.returncode, json.loads(done.stdout)

    async def probe(self, *arguments: str) -> tuple[int, dict[str, str]]:
        """Exit code, and ``status: cause`` of the stages of a probe."""
        code, found = await self.run("doctor", "--probe", *arguments, announces="Creating pod ")
        stages = (each for each in found["checks"] if each["name"].startswith("probe-"))
        return code, {each["name"]: f"{each['status']}: {each['cause']}" for each in stages}

    async def doctor(self) -> tuple[int, dict[str, str]]:
        """Exit code, and ``status: cause`` of the checks that are not ok."""
        code, found = await self.run("doctor")
        others = (each for each in found["checks"] if each["status"] != "ok")
        return code, {each["name"]: f"{each['status']}: {each['cause']}" for each in others}


SIGNED_IN = "document.querySelectorAll('#nodes tbody th').length > 0"
REFUSED = "document.getElementById('message')?.innerText.startsWith('The API server does not accept')"
RESTRICTED = """
apiVersion: v1
kind: Namespace
metadata: {name: restricted, labels: {pod-security.kubernetes.io/enforce: restricted}}
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def installation() -> AsyncIterator[Installation]:
    async with Testbed(kwok=False) as bed:
        await asyncio.gather(grant(bed), grant_agent(bed), grant_exporter(bed))
        node = await add_gpu_node(bed, KubeletSpec("gpu-1", labels=SHARING), 2 * [card("T4")])
        await start_exporter(node)
        spec = ExtenderSpec(host=node.kubelet.address, port=EXTENDER_SERVICE_PORT, ops_port=EXTENDER_OPS_PORT)
        argv = spec.argv(bed.kubeconfig_for(ACCOUNT))
        extender = await node.kubelet.spawn(EXTENDER_NAME, argv, ready=f"{spec.ops_url}/readyz")
        await bed.restart_scheduler(SchedulerSpec(extenders=[component_config(spec.url)]))
        for component in (EXTENDER_NAME, AGENT_NAME, EXPORTER_NAME):
            await bed.api.create(SYSTEM_PODS, stand_in(component, node.name))
        yield Installation(node, extender)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(installation: Installation) -> BoardServer:
    return await start_board_server(installation.bed)


def stand_in(component: str, node: str) -> Object:
    found = pod(component, container(0), labels={"component": component}, nodeName=node, hostNetwork=True)
    del found["spec"]["containers"][0]["resources"]
    return found


async def test_a_pending_pod_is_explained_and_runs_after_the_remedy(installation: Installation) -> None:
    bed = installation.bed
    # With a grace period, the API server keeps a pod until its containers are gone.
    both = [pod(name, container(9), terminationGracePeriodSeconds=1) for name in ("first", "second")]
    await bed.create_pods(both)
    await asyncio.gather(running(bed, "first", 60), running(bed, "second", 60))
    await bed.create_pods([pod("big", container(8))])

    async def explained() -> Any:
        code, found = await installation.run("explain", "big")
        assert code == 0
        return found if found["state"] == "waits-for-gpu" and found["scheduler"] else None

    found = await until(explained, "the scheduler to reject the pod", 60)
    reason = found["nodes"][0]["reason"]
    assert reason == "Insufficient GPU Memory in one device: asked 8, at most 5 of 14 free on GPU 0"
    assert "1 Insufficient GPU Memory in one device: asked 8." in found["scheduler"]
    kinds = [each["kind"] for each in found["remedies"]]
    assert kinds == ["spread", "evict", "add-node"]
    evict = found["remedies"][1]
    assert len(evict["pods"]) == 1
    await bed.kubectl(*evict["command"].split()[1:])
    await running(bed, "big", 90)
    code, found = await installation.run("explain", "big")
    assert code == 0
    assert found["summary"].startswith("it has node gpu-1 with 8 units of GPU ")


async def test_the_board_shows_what_inspect_and_explain_say(installation: Installation) -> None:
    await installation.bed.create_pods([pod("bigger", container(15))])
    program = (console_script("kubectl-gpushare"), "board", "--kubeconfig", str(installation.bed.kubeconfig))
    async with running_board(*program) as board:

        async def settled() -> Any:
            shown = await board.document()
            _, found = await installation.run("inspect")
            [inspected] = found["items"]
            _, answer = await installation.run("explain", "bigger")
            groups = [each["pods"] for each in shown["pending"] if each["state"] == "waits-for-gpu"]
            waits = [pod["name"] for pods in groups for pod in pods]
            return (shown, inspected, answer) if shown["measured"] == 1 and waits == ["bigger"] else None

        shown, inspected, answer = await until(settled, "the board to show the pending pod and the usage", 90)
    [node] = shown["nodes"]
    for key in ("name", "mode", "unit", "total", "used"):
        assert node[key] == inspected[key]
    placed = {(each["uid"], index): units for each in shown["pods"] for index, units in each["gpus"].items()}
    for own, same in zip(node["cards"], inspected["cards"], strict=True):
        assert own["memoryBytes"] > 0
        for key in ("used", "total", "healthy"):
            assert own[key] == same[key]
        for each in same["pods"]:
            assert placed[each["uid"], str(own["index"])] == each["used"]
    [waiting] = shown["pending"]
    assert (waiting["reason"], waiting["remedies"]) == (answer["summary"], answer["remedies"])
    await installation.bed.kubectl("delete", "pod", "bigger")


async def test_the_board_of_the_cluster_is_for_those_who_may_list_nodes_and_all_pods(
    installation: Installation, server: BoardServer
) -> None:
    bed = installation.bed
    await bed.kubectl("create", "namespace", "team")
    for name in ("viewer", "stranger"):
        await bed.kubectl("-n", "team", "create", "serviceaccount", name)
    groups = ["system:serviceaccounts:team"]
    stranger = (await bed.kubectl("-n", "team", "create", "token", "stranger")).strip()
    assert (await server.get("/data"))[0] == 401
    assert (await server.get("/data", "a.b.c"))[0] == 401
    status, cookie, page = await server.log_in(stranger)
    assert (status, cookie) == (403, "")
    assert "system:serviceaccount:team:stranger may not list nodes" in page
    # The group of all accounts of the namespace, with the rights of `viewers` in the stack.
    await bed.apply(as_yaml(viewers.objects(groups)))
    viewer = (await bed.kubectl("-n", "team", "create", "token", "viewer")).strip()
    status, cookie, _ = await server.log_in(viewer)
    assert status == 303
    assert cookie.startswith(f"__Host-gpushare-board={viewer}; ")

    async def measured() -> Any:
        status, body = await server.get("/data", viewer)
        assert status == 200
        shown = json.loads(body)
        return shown if shown["measured"] == 1 else None

    shown = await until(measured, "the board to read the exporter from the address of its pod", 60)
    _, found = await installation.run("inspect")
    [node], [inspected] = shown["nodes"], found["items"]
    for key in ("name", "mode", "unit", "total", "used"):
        assert node[key] == inspected[key]
    assert "unknown" not in {each["level"] for each in shown["health"]}
    await bed.kubectl("-n", "team", "delete", "serviceaccount", "viewer")

    async def refused() -> bool:
        return (await server.get("/data", viewer))[0] == 401

    await until(refused, "the token of the deleted account to be refused", 30, 0.5)


@pytest.mark.needs("chromium")
async def test_a_user_signs_in_and_out_in_a_browser(installation: Installation, server: BoardServer) -> None:
    bed = installation.bed
    await bed.apply(as_yaml(viewers.objects(["system:serviceaccounts:kube-public"])))
    await bed.kubectl("-n", "kube-public", "create", "serviceaccount", "ann")
    token = (await bed.kubectl("-n", "kube-public", "create", "token", "ann")).strip()
    # The browser does not know the authority of the bed.
    async with chromium("--ignore-certificate-errors") as tab:
        await tab.open(server.url)
        for text in ("wrong", token):
            await tab.wait("document.activeElement && document.activeElement.id === 'token'")
            await tab.command("Input.insertText", text=text)
            await tab.press("Enter")
            await tab.wait(SIGNED_IN if text == token else REFUSED)
        assert (await tab.evaluate("document.querySelector('#nodes tbody th').innerText")).startswith("gpu-1")
        assert await tab.evaluate("document.cookie") == ""
        await tab.leave("document.querySelector('#sign-out button').click()")
        await tab.wait("document.getElementById('token') && !document.getElementById('nodes')")
        # The status of the login page is 401, which the browser logs as an error.
        others = [each for each in tab.problems if "401 (Unauthorized)" not in each]
        assert others == []


async def test_a_healthy_chain(installation: Installation) -> None:
    seen: dict[str, str] = {}

    async def healthy() -> bool:
        code, found = await installation.doctor()
        seen.clear()
        seen.update(found)
        return code == 0 and found.keys() <= UNPROVEN

    try:
        await until(healthy, "a healthy chain", 60, 1)
    except DevkitError:
        assert {name: seen[name] for name in seen.keys() - UNPROVEN} == {}
        raise


async def test_a_probe_comes_through_to_the_container_and_is_removed(installation: Installation) -> None:
    bed = installation.bed
    await bed.apply(RESTRICTED)
    await bed.until_service_account("restricted")
    code, stages = await installation.probe("-n", "restricted", "--node", installation.node.name)
    node = installation.node.name
    others = {name: text for name, text in stages.items() if not text.startswith("ok: ")}
    gpu = stages["probe-bound"].removeprefix("ok: the extender reserved ")
    # The GPU is simulated: the container has no device file of it.
    cause = f"its container has {gpu}, but no device file: the runtime of node {node} adds none"
    assert others == {"probe-sees": f"failed: {cause}"}
    assert code == 1
    assert stages["probe-scheduled"] == f"ok: default-scheduler chose node {node}"

    async def gone() -> bool:
        return not (await bed.api.get("/api/v1/namespaces/restricted/pods"))["items"]

    await until(gone, "the pod of the probe to be gone", 30)


async def test_a_stopped_extender_is_found(installation: Installation) -> None:
    await installation.extender.stop()
    await installation.bed.api.delete(f"{SYSTEM_PODS}/{EXTENDER_NAME}")

    async def found() -> bool:
        code, seen = await installation.doctor()
        failed = {name for name, text in seen.items() if text.startswith("failed")}
        return code == 1 and failed == {"extender-lease", "extender-pods"}

    await until(found, "the doctor to find the stopped extender", 90, 1)
    _, stages = await installation.probe("-n", "default", "--timeout", "15", "--image", BUSYBOX_IMAGE)
    stopped = {name for name, text in stages.items() if text.startswith("failed: ")}
    assert stopped == {"probe-scheduled"}
    assert "connection refused" in stages["probe-scheduled"]
