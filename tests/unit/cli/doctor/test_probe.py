"""``kubectl gpushare doctor --probe`` against a fake of the API server."""

import asyncio
import json
import signal
import sys
from typing import Any

import pytest
from aiohttp import web

from gpushare.contract import LABEL_MODE
from tests.support.builders.api_objects import pod
from tests.support.builders.diagnosis import gpu_node
from tests.unit.cli.doctor.fakes import Cluster

pytestmark = pytest.mark.asyncio

Json = dict[str, Any]
PODS = "/api/v1/namespaces/ml/pods"
RAN: Json = {
    "metadata": {
        "annotations": {
            "ALIYUN_COM_GPU_MEM_IDX": "0",
            "scheduler.framework.gpushare.allocation": '{"0":{"0":1}}',
        }
    },
    "spec": {"schedulerName": "default-scheduler", "nodeName": "gpu-1"},
    "status": {
        "phase": "Succeeded",
        "containerStatuses": [
            {"state": {"terminated": {"exitCode": 0, "message": "units=1\ngpu=0\ndevice=/dev/nvidia0"}}}
        ],
    },
}


class Pods:
    """The pods of a namespace: created, returned as ``shown``, deleted."""

    def __init__(self, cluster: Cluster) -> None:
        self.shown: Json = {}
        self.created: list[Json] = []
        self.deleted: list[str] = []
        self.refusal: tuple[int, str] | None = None
        self.read = asyncio.Event()
        cluster.more[PODS] = self.answer

    async def answer(self, request: web.Request) -> web.Response:
        if request.method == "POST":
            self.created.append(await request.json())
            if self.refusal:
                status, message = self.refusal
                return web.json_response({"message": message}, status=status)
            return web.json_response(self.created[-1])
        if request.method == "DELETE":
            self.deleted.append(request.path.rpartition("/")[2])
            return web.json_response({})
        self.read.set()
        return web.json_response(self.shown)

    @property
    def left(self) -> set[str]:
        return {each["metadata"]["name"] for each in self.created} - set(self.deleted)


@pytest.fixture
def pods(cluster: Cluster) -> Pods:
    return Pods(cluster)


def stages_of(out: str) -> dict[str, str]:
    checks = json.loads(out)["checks"]
    return {each["name"]: each["status"] for each in checks if each["name"].startswith("probe-")}


async def test_a_pod_comes_through_and_is_removed(cluster: Cluster, pods: Pods) -> None:
    pods.shown = RAN
    _, out, err = await cluster.probe("--node", "gpu-1", "-o", "json")
    assert set(stages_of(out).values()) == {"ok"}
    [created] = pods.created
    name = created["metadata"]["name"]
    assert err == (
        f"Creating pod ml/{name} with image x:1.2.3, which asks for 1 of aliyun.com/gpu-mem on node gpu-1. "
        "It is removed after at most 60 s.\n"
    )
    assert pods.left == set()


async def test_no_pod_is_created_where_no_unit_is_free(cluster: Cluster, pods: Pods) -> None:
    full = pod("full", "gpu-1", 14, index="0")
    cluster.answers["/api/v1/pods"] = {"items": [full]}
    code, out, err = await cluster.probe("--node", "gpu-1", "-o", "json")
    assert (code, err, pods.created) == (1, "", [])
    [created] = [each for each in json.loads(out)["checks"] if each["name"] == "probe-created"]
    assert created["cause"].endswith(
        "was not created: no GPU of node gpu-1 has room for it, and a pod that waits can evict others"
    )
    assert created["command"] == "kubectl inspect gpushare -d"


def limits_of(created: Json) -> Json:
    limits: Json = created["spec"]["containers"][0]["resources"]["limits"]
    return {key: value for key, value in limits.items() if key.startswith("aliyun.com/")}


@pytest.mark.parametrize("args", [[], ["--node", "gpu-1"]])
@pytest.mark.parametrize("labels", [{}, {"cgpu.disable.isolation": "true"}])
async def test_a_node_that_divides_compute_gets_a_request_for_compute(
    cluster: Cluster, pods: Pods, args: list[str], labels: dict[str, str]
) -> None:
    pods.shown = RAN
    nodes = [
        gpu_node(labels={LABEL_MODE: "core_mem", **labels}),
        gpu_node("closed", labels={LABEL_MODE: "no"}),
    ]
    cluster.answers["/api/v1/nodes"] = {"items": nodes}
    await cluster.probe(*args)
    assert limits_of(pods.created[0]) == {"aliyun.com/gpu-mem": "1", "aliyun.com/gpu-core.percentage": "5"}


async def test_no_node_is_needed_to_probe_one_that_does_not_divide_compute(
    cluster: Cluster, pods: Pods
) -> None:
    pods.shown = RAN
    nodes = [gpu_node("a", labels={LABEL_MODE: "core_mem"}), gpu_node("b")]
    cluster.answers["/api/v1/nodes"] = {"items": nodes}
    await cluster.probe()
    assert limits_of(pods.created[0]) == {"aliyun.com/gpu-mem": "1"}
    cluster.answers["/api/v1/pods"] = {"items": [pod("full", "b", 14, index="0")]}
    await cluster.probe()
    assert len(pods.created) == 1, "node a takes no pod without a request for compute"


async def test_no_pod_is_created_where_all_compute_is_used(cluster: Cluster, pods: Pods) -> None:
    cluster.answers["/api/v1/nodes"] = {"items": [gpu_node(labels={LABEL_MODE: "core_mem"})]}
    busy = pod("busy", "gpu-1", 1, index="0")
    busy["spec"]["containers"][0]["resources"]["limits"]["aliyun.com/gpu-core.percentage"] = "100"
    cluster.answers["/api/v1/pods"] = {"items": [busy]}
    code, _, _ = await cluster.probe()
    assert (code, pods.created) == (1, [])


@pytest.mark.parametrize(("user", "created"), [(1000, 0), (65_534, 1)])
async def test_no_pod_is_created_where_every_gpu_serves_another_user(
    cluster: Cluster, pods: Pods, user: int, created: int
) -> None:
    pods.shown = RAN
    cluster.answers["/api/v1/nodes"] = {"items": [gpu_node(labels={LABEL_MODE: "mps"})]}
    other = pod("other", "gpu-1", 1, index="0")
    other["spec"]["securityContext"] = {"runAsUser": user}
    cluster.answers["/api/v1/pods"] = {"items": [other]}
    await cluster.probe()
    assert len(pods.created) == created


async def test_each_pod_has_a_name_of_its_own(cluster: Cluster, pods: Pods) -> None:
    pods.shown = RAN
    for _ in range(2):
        await cluster.probe()
    assert len({each["metadata"]["name"] for each in pods.created}) == 2


async def test_a_pod_that_does_not_end_is_removed_after_the_timeout(cluster: Cluster, pods: Pods) -> None:
    code, out, _ = await cluster.probe("--timeout", "1", "-o", "json")
    assert code == 1
    assert stages_of(out)["probe-scheduled"] == "failed"
    assert pods.left == set()


@pytest.mark.parametrize(("status", "deletions"), [(403, 0), (500, 1)])
async def test_a_pod_that_was_perhaps_created_is_removed(
    cluster: Cluster, pods: Pods, status: int, deletions: int
) -> None:
    pods.refusal = status, "pods is forbidden"
    code, out, _ = await cluster.probe("-o", "json")
    assert (code, stages_of(out)["probe-created"]) == (1, "failed")
    assert len(pods.deleted) == deletions


async def test_a_pod_that_cannot_be_read_is_removed(cluster: Cluster, pods: Pods) -> None:
    pods.shown = {"status": 7}
    code, _, _ = await cluster.probe("--timeout", "1")
    assert code == 1
    assert pods.left == set()


async def test_the_image_is_that_of_the_agent_or_the_one_given(cluster: Cluster, pods: Pods) -> None:
    pods.shown = RAN
    await cluster.probe("--image", "example.com/cuda:12")
    assert pods.created[0]["spec"]["containers"][0]["image"] == "example.com/cuda:12"
    cluster.answers["/api/v1/namespaces/kube-system/pods"] = {"items": []}
    code, _, err = await cluster.probe()
    assert (code, err) == (
        1,
        "Error: no pod of the node agent is visible, so its image cannot be used; set --image\n",
    )


async def test_the_image_of_the_pod_needs_the_probe(cluster: Cluster) -> None:
    code, _, err = await cluster.doctor("--image", "x")
    assert code == 2
    assert "set --probe too" in err


@pytest.mark.parametrize("interruption", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupted_probe_removes_its_pod(
    cluster: Cluster, pods: Pods, interruption: signal.Signals
) -> None:
    program = (sys.executable, "-m", "gpushare", "doctor", "--probe", "-n", "ml")
    process = await asyncio.create_subprocess_exec(
        *program, "--kubeconfig", cluster.api.kubeconfig, stderr=asyncio.subprocess.PIPE
    )
    await asyncio.wait_for(pods.read.wait(), 30)
    process.send_signal(interruption)
    _, err = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == 130
    assert b"Traceback" not in err
    assert pods.left == set()
    assert len(pods.created) == 1
