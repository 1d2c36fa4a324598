"""Pods and nodes as the agent reads them."""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from gpushare.adapters.kube.agent_resources import gpu_pods, local_node, local_pods
from gpushare.adapters.kube.watch import Follower
from gpushare.errors import ApiError, KubeletError
from gpushare.model.changes import Deleted, Upserted
from gpushare.model.local_node import GpuPod, LocalNode, LocalPod, Taint
from tests.support.waiting import until
from tests.unit.adapters.fakes import page, serving

BOUND = {
    "ALIYUN_COM_GPU_MEM_IDX": "1",
    "ALIYUN_COM_GPU_MEM_POD": "4",
    "ALIYUN_COM_GPU_MEM_ASSIGNED": "false",
    "ALIYUN_COM_GPU_MEM_ASSUME_TIME": "1700000000000000001",
}


def container(name: str = "main", units: int | None = 4, **more: Any) -> dict[str, Any]:
    limits = {} if units is None else {"resources": {"limits": {"aliyun.com/gpu-mem": str(units)}}}
    return {"name": name, **limits, **more}


def pod(
    *containers: dict[str, Any], annotations: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    meta = {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "1", "annotations": annotations}
    return {"metadata": meta, "spec": {"nodeName": "n", "containers": containers or (container(),), **spec}}


def read(*pods: dict[str, Any]) -> list[GpuPod]:
    return gpu_pods(json.dumps({"kind": "PodList", "items": pods}).encode())


def gpu_pod(*containers: dict[str, Any], annotations: dict[str, str] | None = None, **spec: Any) -> GpuPod:
    (found,) = read(pod(*containers, annotations=annotations, **spec))
    return found


def test_a_bound_pod_has_its_bind_time_its_gpu_and_whether_it_was_served() -> None:
    found = gpu_pod(annotations=BOUND)
    assert (found.uid, found.pod.full_name, found.pod.node) == ("u", "ns/p", "n")
    assert found.claim == ((1, (4, 0)),)
    assert (found.bound_ns, found.served, found.static_uid) == (1700000000000000001, False, None)
    assert gpu_pod(annotations={**BOUND, "ALIYUN_COM_GPU_MEM_ASSIGNED": "true"}).served


@pytest.mark.parametrize("text", ["", "soon", "-5", "1.5", "9" * 20, "\N{SUPERSCRIPT TWO}"])
def test_an_invalid_time_is_0(text: str) -> None:
    assert gpu_pod(annotations={"ALIYUN_COM_GPU_MEM_ASSUME_TIME": text}).bound_ns == 0


def test_a_pod_without_annotations_claims_nothing() -> None:
    found = gpu_pod()
    assert (found.claim, found.bound_ns, found.served) == (None, 0, False)


def test_a_pod_without_gpu_resources_is_omitted() -> None:
    assert read(pod(container(units=None)), pod()) == [gpu_pod()]


def conflicting(*containers: Any, **spec: Any) -> dict[str, list[str]]:
    """The reasons of the conflicts by container."""
    found = gpu_pod(*containers, **spec).conflicts
    return {name: [each.rule.reason for each in conflicts] for name, conflicts in found.items()}


def test_conflicts_are_kept_by_container() -> None:
    visible: dict[str, Any] = {
        "env": [{"name": "A", "value": "b"}, {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    }
    mounts = [{"name": "v", "mountPath": "/data"}, {"name": "v", "mountPath": "/etc/ld.so.preload"}]
    found = conflicting(
        container("main", **visible),
        container("plain", env=[{"name": "OTHER", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]),
        container("none", env=None, volumeMounts=None),
        container("apm", volumeMounts=mounts),
        initContainers=[container("init", **visible)],
    )
    assert found == {"main": ["own_devices"], "init": ["own_devices"], "apm": ["own_preload"]}


def test_a_user_namespace_is_one_of_every_container() -> None:
    assert conflicting(container("a"), container("b"), hostUsers=False) == {
        "a": ["user_namespace"],
        "b": ["user_namespace"],
    }
    assert conflicting(container("a"), hostUsers=True) == {}


def test_values_of_env_from_are_unknown_and_do_not_count() -> None:
    assert conflicting(container(envFrom=[{"configMapRef": {"name": "x"}}])) == {}


def test_the_mirror_of_a_static_pod_has_the_uid_of_the_kubelet() -> None:
    found = gpu_pod(
        annotations={"kubernetes.io/config.mirror": "hash", "kubernetes.io/config.source": "file"}
    )
    assert (found.uid, found.static_uid, found.pod.uid) == ("hash", "hash", "u")


def test_init_containers_and_sidecars_are_understood_as_in_the_extender() -> None:
    found = gpu_pod(
        container(), initContainers=[container("init", 9), container("side", 2, restartPolicy="Always")]
    )
    assert found.demand is not None
    assert found.demand.mem == 9


@pytest.mark.parametrize(
    "body", [b"", b"Unauthorized", b'{"items": 3}', b'{"items":[{"spec":{"containers":1}}]}', b"\xff"]
)
def test_a_kubelets_answer_that_is_no_list_of_pods_is_an_error(body: bytes) -> None:
    with pytest.raises(KubeletError, match="the kubelet's list of pods cannot be read"):
        gpu_pods(body)


def test_a_kubelet_without_pods() -> None:
    assert gpu_pods(b'{"items": null}') == []


@dataclass
class Heard:
    """A listener that records its calls."""

    changes: list[Any] = field(default_factory=list)

    def changed(self, batch: Iterable[Upserted[Any] | Deleted]) -> None:
        self.changes += batch

    def synced(self, resource: str) -> None:
        assert resource

    def failed(self, resource: str, error: ApiError, retry_in_s: float) -> None:
        raise AssertionError((resource, error, retry_in_s))


async def followed(resource: Any, *items: dict[str, Any]) -> tuple[list[Any], list[dict[str, str]]]:
    """What a follower of the resource hears, and the queries of its list and of its watch."""
    heard = Heard()
    async with serving() as served:
        served.script.append(page(*items, version="5"))
        task = asyncio.create_task(Follower(served.client, resource, heard).run())
        await until(lambda: len(served.asked) >= 2)
        task.cancel()
        return heard.changes, [dict(query) for query in served.asked]


async def test_only_the_pods_of_the_node_are_listed_and_watched() -> None:
    changes, (listed, watched) = await followed(local_pods("n"), pod(annotations=BOUND))
    assert [(change.key, change.value.gpu_pod.bound_ns) for change in changes] == [("u", 1700000000000000001)]
    assert listed["fieldSelector"] == watched["fieldSelector"] == "spec.nodeName=n"
    assert (listed["limit"], watched["watch"]) == ("500", "1")


async def test_only_the_agents_own_node_is_listed_and_watched() -> None:
    node = {
        "metadata": {"name": "n", "uid": "nu", "labels": {"cgpu": "true"}, "annotations": {"a": "b"}},
        "status": {
            "capacity": {"cpu": "8", "aliyun.com/gpu-mem": "28", "aliyun.com/gpu-count": "2"},
            "allocatable": {"aliyun.com/gpu-mem": "14", "nvidia.com/gpu": "0", "aliyun.com/gpu-count": "odd"},
            "nodeInfo": {
                "kubeletVersion": "v1.36.3",
                "containerRuntimeVersion": "containerd://2.2.9",
                "machineID": "x",
            },
        },
    }
    changes, (listed, watched) = await followed(local_node("n"), node)
    facts = LocalNode(
        "n",
        "nu",
        {"cgpu": "true"},
        {"a": "b"},
        {"aliyun.com/gpu-mem": 28, "aliyun.com/gpu-count": 2},
        {"aliyun.com/gpu-mem": 14, "nvidia.com/gpu": 0},
        "v1.36.3",
        "containerd://2.2.9",
    )
    assert changes == [Upserted("n", facts)]
    assert listed["fieldSelector"] == watched["fieldSelector"] == "metadata.name=n"


async def test_a_bare_node_has_no_facts() -> None:
    changes, _ = await followed(local_node("n"), {"metadata": {"name": "n"}})
    assert changes == [Upserted("n", LocalNode("n"))]


async def test_all_pods_of_the_node_are_node_pods_with_their_containers_by_id() -> None:
    statuses = {
        "phase": "Running",
        "containerStatuses": [
            {"name": "main", "containerID": "containerd://aaa", "state": {"running": {}}},
            {"name": "waits", "containerID": "", "state": {"waiting": {}}},
            {"name": "new", "state": {"waiting": {}}},
        ],
        "initContainerStatuses": [{"name": "init", "containerID": "docker://bbb"}],
        "ephemeralContainerStatuses": [{"name": "debug", "containerID": "cri-o://ccc"}],
    }
    shared = pod(annotations=BOUND) | {"status": statuses}
    plain = pod(container(units=None)) | {"status": {"phase": "Succeeded"}}
    changes, (listed, _) = await followed(local_pods("n"), shared, plain)
    first, second = (change.value for change in changes)
    assert (first.uid, first.namespace, first.name, first.finished) == ("u", "ns", "p", False)
    assert first.containers == {"aaa": "main", "bbb": "init", "ccc": "debug"}
    assert first.gpu_pod is not None
    assert first.gpu_pod.claim == ((1, (4, 0)),)
    assert second == LocalPod("u", "ns", "p", finished=True)
    assert listed["fieldSelector"] == "spec.nodeName=n"


async def test_a_static_pod_is_the_node_pod_with_the_uid_of_the_kubelet() -> None:
    static = pod(container(units=None), annotations={"kubernetes.io/config.mirror": "hash"})
    ((change,), _) = await followed(local_pods("n"), static)
    assert (change.key, change.value.uid, change.value.mirror) == ("u", "hash", True)


async def test_taints_of_the_node_keep_their_places() -> None:
    taints = [{"key": "a", "effect": "NoExecute", "timeAdded": "2026-11-29T00:00:00Z"}, {"key": "b"}]
    changes, _ = await followed(local_node("n"), {"metadata": {"name": "n"}, "spec": {"taints": taints}})
    assert changes[0].value.taints == (Taint("a", "NoExecute"), Taint("b", ""))
