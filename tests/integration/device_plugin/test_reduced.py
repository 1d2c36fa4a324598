"""The agent as the YAML of the ACK documentation runs it: no ConfigMaps, one mount; on a real kubelet.

Its permissions there are: nodes get/list/watch, nodes/status patch/update, pods update/patch/get/list/watch,
events create/patch. Its one mount is the kubelet's device plugin directory.
"""

import json
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from gpushare import contract
from gpushare.errors import ApiError
from gpushare.model.hardware import RecoveryAction
from testbed import until
from testbed.control_plane.api import read_text
from testbed.daemons.agent import GpuNode, add_gpu_node
from testbed.kubelets import KubeletSpec
from testbed.nvml import card
from tests.support.fixtures.gpu_nodes import (
    SHARING,
    T4,
    GpuBed,
    container,
    metric,
    node_object,
    pod,
    remove,
    running,
    start_pods,
    until_allocatable,
    until_event,
    until_registered,
)
from tests.support.recount import live, recorded, until_agreed

pytestmark = [pytest.mark.needs("kubelet"), pytest.mark.asyncio(loop_scope="package")]

USER = "agent-of-s3"
RIGHTS = f"""
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: {USER}}}
rules:
  - {{apiGroups: [""], resources: [nodes, nodes/proxy], verbs: [get, list, watch]}}
  - {{apiGroups: [""], resources: [events], verbs: [create, patch]}}
  - {{apiGroups: [""], resources: [pods], verbs: [update, patch, get, list, watch]}}
  - {{apiGroups: [""], resources: [nodes/status], verbs: [patch, update]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: {USER}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {USER}}}
subjects: [{{kind: User, name: {USER}, apiGroup: rbac.authorization.k8s.io}}]
"""
MISSING = {"cgroups", "mps", "pod-resources"}
"""The folder of the isolation library is missing too, which a node without limits does not need."""


@pytest_asyncio.fixture(scope="module", loop_scope="package")
async def reduced(gpus: GpuBed) -> AsyncIterator[GpuNode]:
    """Two T4 of 14 units, and an agent with those permissions and that mount."""
    await gpus.bed.apply(RIGHTS)
    flags = [
        f"--kubeconfig={gpus.bed.kubeconfig_for(USER)}",
        "--cgroup-root=/nowhere",
        "--pod-resources-socket=/nowhere/kubelet.sock",
        "--isolation-libraries=/nowhere",
        "--recovery-seconds=1",
    ]
    found = await add_gpu_node(
        gpus.bed, KubeletSpec("reduced", labels=SHARING), 2 * [card("T4")], flags=flags
    )
    await until_allocatable(found, 2 * T4)
    yield found
    await found.kubelet.close()
    await gpus.bed.delete_node("reduced")


def here(node: GpuNode) -> dict[str, Any]:
    return {"nodeSelector": {"kubernetes.io/hostname": node.name}}


def reported(node: GpuNode) -> Counter[str]:
    """Missing features in the agent's log, with their counts."""
    lines = [json.loads(line) for line in node.agent.command.log.read_text().splitlines() if line[:1] == "{"]
    found: Counter[str] = Counter()
    for line in lines:
        if line["event"] in ("degraded_mode", "not_published", "event_not_written"):
            found[line.get("right") or line["event"]] += 1
    return found


async def until_unschedulable(node: GpuNode, *indices: int) -> None:
    async def shown() -> bool:
        cards = json.loads((await node_object(node))["metadata"]["annotations"][contract.ANN_CARDS])
        return [each["index"] for each in cards if not each["healthy"]] == list(indices)

    await until(shown, f"the GPUs {indices} to be unschedulable")


async def test_each_missing_feature_is_one_line_and_one_metric(reduced: GpuNode) -> None:
    async def known() -> bool:
        return reported(reduced).keys() == MISSING

    await until(known, "the agent to miss its rights")
    assert set(reported(reduced).values()) == {1}
    for right in MISSING:
        assert await metric(reduced, "gpushare_device_plugin_degraded_mode", right=right) == 1
    assert await metric(reduced, "gpushare_device_plugin_degraded_mode") == len(MISSING)


async def test_the_node_reports_its_gpus_in_its_status_only(reduced: GpuNode) -> None:
    found = await node_object(reduced)
    assert len(json.loads(found["metadata"]["annotations"][contract.ANN_CARDS])) == 2
    assert found["metadata"]["labels"][contract.LABEL_CARD_MODEL] == "Tesla-T4"
    assert found["status"]["capacity"][contract.RESOURCE_COUNT] == "2"
    assert found["status"]["allocatable"][contract.RESOURCE_COUNT] == "2"


async def test_pods_keep_their_gpus_after_restarts_of_agent_and_kubelet(
    gpus: GpuBed, reduced: GpuNode
) -> None:
    bed = gpus.bed
    await bed.create_pods([pod(name, container(10), **here(reduced)) for name in ("a", "b")])
    for name in ("a", "b"):
        await running(bed, name)
    await until_agreed(reduced, gpus.extender)
    before, record = sorted(live(reduced), key=lambda each: each.pod), recorded(reduced)
    assert sorted(each.index for each in before) == [0, 1]
    await reduced.agent.restart()
    await until_registered(reduced)
    await reduced.kubelet.kill("kubelet")
    await reduced.kubelet.start("kubelet")
    await until_registered(reduced)
    assert sorted(live(reduced), key=lambda each: each.pod) == before
    assert recorded(reduced) == record
    await start_pods(bed, pod("c", container(4), **here(reduced)))
    await until_agreed(reduced, gpus.extender)
    await remove(bed, "a", "b", "c")


async def test_a_failed_gpu_is_reported_by_annotation_and_event_of_the_node(
    gpus: GpuBed, reduced: GpuNode
) -> None:
    bed = gpus.bed
    reduced.stub.require(0, RecoveryAction.GPU_RESET)
    await until_unschedulable(reduced, 0)
    words = "asks for a reset of the GPU"
    await until_event(bed, "reduced", lambda text: words in text, contract.EVENT_CARD_UNHEALTHY)
    reduced.stub.reset(0)
    await until_unschedulable(reduced)
    with pytest.raises(ApiError):
        await bed.api.get(f"/api/v1/namespaces/kube-system/configmaps/{contract.UNHEALTHY_PREFIX}reduced")
    assert await read_text(f"{reduced.ops_url}/readyz") == "ok"
    assert reported(reduced)["configmaps"] == 1
    assert reported(reduced).keys() == MISSING | {"configmaps"}
    assert await metric(reduced, "gpushare_device_plugin_degraded_mode", right="configmaps") == 1
