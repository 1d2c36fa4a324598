"""``explain`` beside a real kube-scheduler: its first line names the cause of the scheduler's own event."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.config import load_access
from gpushare.cli.explain import collect
from gpushare.errors import ConfigError
from gpushare.overview.explain.answer import Answer
from testbed import Bed, SchedulerSpec, SimNode, gpu_pod, until
from testbed.control_plane.api import Object
from testbed.daemons.extender import ExtenderSpec, component_config, grant, start_extender
from testbed.stories import T4
from tests.support.fixtures.simulated import clear

pytestmark = pytest.mark.asyncio(loop_scope="session")

POOL = "pool"
NODES = [
    SimNode("main", [T4, T4], labels={POOL: "main", "disk": "hdd"}),
    SimNode("tainted", [T4], labels={POOL: "tainted"}),
    SimNode("cordoned", [T4], labels={POOL: "cordoned"}),
    SimNode("small", [T4], labels={POOL: "small"}, pods=1),
]
TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}


@dataclass(frozen=True)
class Waiting:
    """A pod of a pool, and the words of the scheduler's event and of the first line of ``explain``."""

    event: str
    line: str
    pool: str = "main"
    units: int = 1
    resources: dict[str, int | str] = field(default_factory=dict)
    ports: Sequence[int] = ()
    spec: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)

    def pod(self, name: str) -> Object:
        selector = {POOL: self.pool} | self.spec.get("nodeSelector", {})
        made = gpu_pod(
            name,
            self.units,
            labels=self.labels,
            resources=self.resources,
            **{**self.spec, "nodeSelector": selector},
        )
        made["spec"]["containers"][0]["ports"] = [
            {"containerPort": each, "hostPort": each} for each in self.ports
        ]
        return made


def apart(**labels: str) -> dict[str, Any]:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def near(**labels: str) -> dict[str, Any]:
    return {"affinity": {"podAffinity": apart(**labels)["affinity"]["podAntiAffinity"]}}


def mounting(claim: str) -> dict[str, Any]:
    return {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": claim}}]}


ON_SSD = {"key": "disk", "operator": "In", "values": ["ssd"]}
VOLUME = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "far"},
    "spec": {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "none",
        "local": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [ON_SSD]}]}},
    },
}
VOLUME_CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "far"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "none",
        "volumeName": "far",
        "resources": {"requests": {"storage": "1Gi"}},
    },
}
VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
WAITING = {
    "cpu": Waiting("Insufficient cpu", "it requests 100 CPUs", resources={"cpu": 100}),
    "memory": Waiting("Insufficient memory", "it requests 1024 GiB of memory", resources={"memory": "1Ti"}),
    "device": Waiting(
        "Insufficient rdma/hca",
        "of rdma/hca, and node main offers none",
        resources={"rdma/hca": 1},
    ),
    "selector": Waiting(
        "node(s) didn't match Pod's node affinity/selector",
        "it selects nodes with disk=ssd, and node main has disk=hdd",
        spec={"nodeSelector": {"disk": "ssd"}},
    ),
    "taint": Waiting(
        "node(s) had untolerated taint", "it does not tolerate the taint team=a:NoSchedule", pool="tainted"
    ),
    "cordon": Waiting("node(s) were unschedulable", "node cordoned is cordoned", pool="cordoned"),
    "port": Waiting(
        "node(s) didn't have free ports", "its host port 8080/TCP is in use on node main", ports=(8080,)
    ),
    "claim": Waiting(
        'persistentvolumeclaim "data" not found',
        "it mounts PersistentVolumeClaim data, which does not exist",
        spec=mounting("data"),
    ),
    "volume": Waiting(
        "didn't match PersistentVolume's node affinity",
        "the volume of its claim far needs disk In (ssd)",
        spec=mounting("far"),
    ),
    "anti": Waiting(
        "node(s) didn't match pod anti-affinity rules", "its anti-affinity excludes", spec=apart(app="first")
    ),
    "affinity": Waiting("didn't match pod affinity rules", "its pod affinity requires", spec=near(app="x")),
    "pods": Waiting("Too many pods", "node small has as many pods as the kubelet takes (1)", pool="small"),
    "gpu": Waiting(
        "Insufficient GPU Memory in one device", "it requests 15 units of aliyun.com/gpu-mem", units=15
    ),
}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def bed(clean_bed: Bed) -> AsyncIterator[Bed]:
    """A cluster with a pod on the nodes ``main`` and ``small``, and the pods that wait."""
    spec = ExtenderSpec()
    await clean_bed.restart_scheduler(SchedulerSpec(extenders=[component_config(spec.url)]))
    await grant(clean_bed)
    await start_extender(clean_bed, spec)
    await clean_bed.add_nodes(NODES)
    await clean_bed.kubectl("taint", "node", "tainted", "team=a:NoSchedule")
    await clean_bed.kubectl("cordon", "cordoned")
    first = Waiting("", "", ports=(8080,), labels={"app": "first"}).pod("first")
    await clean_bed.create_pods([first, Waiting("", "", pool="small").pod("fills")])
    await until(lambda: bound(clean_bed, "first", "fills"), "the first pods to be bound", 30)
    await clean_bed.api.create(VOLUMES, VOLUME)
    await clean_bed.api.create(CLAIMS, VOLUME_CLAIM)
    await clean_bed.create_pods([each.pod(name) for name, each in WAITING.items()])
    yield clean_bed
    await clear(clean_bed, spec)
    await clean_bed.api.delete(f"{CLAIMS}/far")
    await clean_bed.api.delete(f"{VOLUMES}/far")


async def bound(bed: Bed, *names: str) -> bool:
    pods = await bed.api.items("/api/v1/namespaces/default/pods")
    return {each["metadata"]["name"] for each in pods if each["spec"].get("nodeName")} >= set(names)


async def explained(bed: Bed, name: str) -> Answer:
    async with KubeClient(await load_access(str(bed.kubeconfig))) as client:
        return await collect.explained(client, name, "default")


@pytest.mark.parametrize("name", WAITING)
async def test_the_first_line_names_the_cause_of_the_schedulers_event(bed: Bed, name: str) -> None:
    wanted = WAITING[name]

    async def event() -> str:
        found = await bed.api.items("/api/v1/namespaces/default/events")
        texts = [
            each["message"] or ""
            for each in found
            if each["reason"] == "FailedScheduling" and each["involvedObject"]["name"] == name
        ]
        return next((text for text in texts if wanted.event in text), "")

    assert await until(event, f"the scheduler to report {wanted.event}", 30)
    found = await explained(bed, name)
    assert wanted.line in found.summary
    assert found.remedies


async def test_a_pod_that_a_quota_refuses_is_explained_by_its_controller(bed: Bed) -> None:
    await bed.kubectl("create", "quota", "gpus", "--hard=requests.aliyun.com/gpu-mem=1")
    pod = gpu_pod("web", 4)
    pod["spec"].pop("terminationGracePeriodSeconds")
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": pod["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"}, "spec": spec}
    await bed.api.create("/apis/apps/v1/namespaces/default/replicasets", owner)

    async def refused() -> str:
        try:
            await explained(bed, "web")
        except ConfigError as error:
            return str(error) if "ReplicaSet" in str(error) else ""
        return ""

    reason = await until(refused, "the controller to report the quota", 30)
    assert "there is no pod web in namespace default" in reason
    assert "ReplicaSet web cannot create pods: " in reason
    assert "exceeded quota: gpus" in reason
    await bed.kubectl("delete", "quota", "gpus")
