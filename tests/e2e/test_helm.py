"""The chart as shipped where nobody can configure the scheduler: one command, then a limited pod.

The two commands of the page "Deploy with Helm", by Helm 3 and by Helm 4. Extender, scheduler, agent and
library run as pods on real kubelets, from our images and from an image with the real kube-scheduler; the
nodes have two cores, so the requests for CPU are lower.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gpushare.contract import AGENT_NAME, EXTENDER_NAME, ISOLATION_INSIDE, METRICS_API_NAME
from release import Images, ensure
from testbed import Bed, DevkitError, SimNode, Testbed, until
from testbed.control_plane.aggregation import TO_PODS
from testbed.control_plane.api import Object
from testbed.kubelets import KubeletSpec, add_kubelet
from testbed.kubelets.services import load
from testbed.programs import build
from testbed.stories import T4
from testbed.stories.deployed import DeployedNode, add_node
from tests.integration.test_namespace_user import kubeconfig_of_alice, tried
from tests.support.builders import program_image
from tests.support.fixtures import helm
from tests.support.fixtures.gpu_nodes import container, pod, running
from tests.support.fixtures.helm import NAMESPACE, PROGRAMS, RELEASE, Helm

pytestmark = [
    pytest.mark.needs("kubelet", "images"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(600),
]

SCHEDULER = "registry.k8s.io/kube-scheduler:v1.36.0"
"""The default of the chart in a cluster of 1.36."""
SYSTEM_PODS = "/api/v1/namespaces/kube-system/pods"
PODS = "/api/v1/namespaces/default/pods"
SMALL: dict[str, Any] = {
    "extender": {
        "resources": {"requests": {"cpu": "200m"}},
        "scheduler": {"resources": {"requests": {"cpu": "100m"}}},
    },
    "devicePlugin": {"resources": {"requests": {"cpu": "200m"}}},
    "monitoring": {
        "exporter": {"intervalSeconds": 1, "resources": {"requests": {"cpu": "100m"}}},
        "metricsApi": {"resources": {"requests": {"cpu": "50m"}}},
    },
}
WAIT_S = 120.0
"""More than the downloads of a node."""


@dataclass(frozen=True)
class Cluster:
    """A cluster without anything of ours; its nodes have the images."""

    bed: Bed
    node: DeployedNode
    images: Images

    async def components(self) -> set[str]:
        """Of our pods."""
        found = await self.bed.api.items(SYSTEM_PODS, labelSelector="app=gpushare")
        return {each["metadata"]["labels"]["component"] for each in found}

    async def gone(self) -> bool:
        return not await self.components()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    images, archive = await ensure(), tmp_path_factory.mktemp("image") / "image.tar"
    program = (await build.ensure(["kube-scheduler"]))["kube-scheduler"].path
    await asyncio.to_thread(program_image.save, archive, SCHEDULER, {"bin/kube-scheduler": program})
    async with Testbed(kwok=False, api_flags=TO_PODS) as bed:
        node = await add_node(bed, SimNode("gpu-1", [T4]), images)
        plain = await add_kubelet(bed, KubeletSpec("cpu-1", services=True))
        await load(plain, images)
        for kubelet in (plain, node.kubelet):
            await kubelet.load_images(archive)
        yield Cluster(bed, node, images)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=PROGRAMS)
async def installed(
    cluster: Cluster, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Helm]:
    """The release, on a node with the label of the page; removed afterwards."""
    home = tmp_path_factory.mktemp(request.param)
    program = await helm.make(home, request.param, cluster.bed.kubeconfig)
    images = f"--set-json=images={json.dumps(dict(cluster.images.references))}"
    await program.run("install", RELEASE, str(helm.CHART), NAMESPACE, images, program.values(SMALL))
    await cluster.bed.kubectl("label", "node", "gpu-1", "cgpu=true")
    yield program
    await program.run("uninstall", RELEASE, NAMESPACE)
    await cluster.bed.kubectl("label", "node", "gpu-1", "cgpu-")
    await until(cluster.gone, "no pod of the release to be left", WAIT_S)


@pytest.mark.usefixtures("installed")
async def test_a_pod_without_a_scheduler_name_is_placed_and_limited(cluster: Cluster) -> None:
    bed = cluster.bed
    await bed.kubectl("-n", "kube-system", "rollout", "status", f"deployment/{EXTENDER_NAME}", "--timeout=2m")
    await cluster.node.until_offered(WAIT_S)
    await bed.create_pods([pod("shared", container(4))])
    shared = await running(bed, "shared", WAIT_S)
    assert shared["spec"]["schedulerName"] == "gpushare-scheduler"
    limit = await bed.kubectl("exec", "shared", "--", "cat", f"{ISOLATION_INSIDE}/limit")
    assert " limit_mib=4308 card_mib=15079 " in limit
    await bed.api.delete(f"{PODS}/shared")


def inside(namespace: str, made: Object) -> Object:
    """The pod in this namespace."""
    return {**made, "metadata": {**made["metadata"], "namespace": namespace}}


PLACED = [("team-a", "mine", 4), ("team-b", "hidden", 5)]
ASKED = ("top pod", "limits", "explain big", "fit 4", "recommend")


@pytest.mark.usefixtures("installed")
async def test_a_user_with_edit_in_one_namespace_is_answered_and_sees_no_other_one(
    cluster: Cluster, tmp_path: Path
) -> None:
    bed, alice = cluster.bed, kubeconfig_of_alice(cluster.bed, tmp_path)
    rollout = ("-n", "kube-system", "rollout", "status", "--timeout=4m")
    for name in (EXTENDER_NAME, METRICS_API_NAME):
        await bed.kubectl(*rollout, f"deployment/{name}")
    await cluster.node.until_offered(WAIT_S)
    for namespace, name, units in PLACED:
        await bed.create_namespace(namespace)
        await bed.create_pods([inside(namespace, pod(name, container(units)))])
        await bed.kubectl("-n", namespace, "wait", f"pod/{name}", "--for=condition=Ready", "--timeout=4m")
    await bed.create_pods([inside("team-a", pod("big", container(12)))])
    await bed.kubectl("-n", "team-a", "create", "rolebinding", "a", "--clusterrole=edit", "--user=alice")

    async def use_is_known() -> str:
        try:
            rows = await bed.kubectl("get", "gpupods", f"--kubeconfig={alice}")
        except DevkitError:
            return ""
        top = await tried(bed, alice, "top pod")
        return rows if "4308 MiB" in top else ""

    rows = await until(use_is_known, "the use of the pod, by the usage API", WAIT_S)
    told = {words: await tried(bed, alice, words) for words in ASKED}
    everything = "\n".join([rows, *told.values()])
    assert "[exit code" not in everything, everything
    assert "4308MiB" in rows
    assert re.search(r"mine .* gpu-1 .* 4308 MiB", told["top pod"]), everything
    assert re.search(r"mine .* gpu-1 .* 4308 MiB", told["limits"]), everything
    assert "asked 12, at most 5 of 14 free on GPU 0" in told["explain big"], everything
    assert "1 pod with 4 units on one GPU fits now" in told["fit 4"], everything
    assert re.search(r"pod/mine .* 4308 MiB", told["recommend"]), everything
    assert not {"team-b", "hidden"} & set(re.findall(r"[\w-]+", everything)), everything
    # A namespace is removed only while the API server reaches every API.
    await bed.kubectl("delete", "namespace", "team-a", "team-b", "--timeout=2m")


async def test_the_notes_name_the_label_and_how_to_see_why_the_extender_waits(installed: Helm) -> None:
    notes = await installed.run("get", "notes", RELEASE, NAMESPACE)
    assert "kubectl label node <node> cgpu=true" in notes
    assert f"describe pods -l component={EXTENDER_NAME}" in notes
    assert "schedulerName" not in notes


@pytest.mark.usefixtures("installed")
async def test_every_service_of_the_page_runs(cluster: Cluster) -> None:
    async def all_there() -> bool:
        return await cluster.components() >= {
            EXTENDER_NAME,
            AGENT_NAME,
            "cgpu-installer",
            "gpushare-exporter",
            METRICS_API_NAME,
        }

    await until(all_there, "all services", WAIT_S)
