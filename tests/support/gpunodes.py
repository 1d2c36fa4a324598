"""Beds with real GPU nodes for tests of the node agent: pods, and waiting for what is told of them.

What belongs here: what tests say to the API server and read from it and from the agent. What does not:
what really runs on a node (``tests.support.recount``), and agents in odd places (``tests.support.agents``).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from gpushare import contract
from gpushare.adapters.kubelet.channel import kubelet_channel
from gpushare.errors import ApiError, KubeletError
from testbed import Bed, SchedulerSpec, Testbed, until
from testbed.control_plane.api import Object, read_text
from testbed.daemons.agent import CardNode, GpuNode, grant_agent
from testbed.daemons.extender import ExtenderSpec, component_config, grant, start_extender
from testbed.kubelets import BUSYBOX_IMAGE
from testbed.system.process import tail

PODS = "/api/v1/namespaces/default/pods"
T4 = 14
"""Units of a T4 in GiB."""
SHARING = {contract.LABEL_GPUSHARE: "true"}
SLEEP = "trap exit TERM; sleep 1000 & wait"


@dataclass(frozen=True)
class GpuBed:
    """A bed whose scheduler asks our extender."""

    bed: Bed
    extender: ExtenderSpec


@asynccontextmanager
async def gpu_bed(*, extender: bool = True) -> AsyncIterator[GpuBed]:
    """A control plane without nodes; ``extender`` is whether ours runs from the start."""
    spec = ExtenderSpec()
    async with Testbed(kwok=False, scheduler=SchedulerSpec(extenders=[component_config(spec.url)])) as bed:
        await asyncio.gather(grant(bed), grant_agent(bed))
        if extender:
            await start_extender(bed, spec)
        yield GpuBed(bed, spec)


# --- pods ---------------------------------------------------------------------------------------


def container(units: int, name: str = "main", core: int = 0, *, script: str = SLEEP, **more: Any) -> Object:
    limits = {contract.RESOURCE_MEM: str(units), **({contract.RESOURCE_CORE: str(core)} if core else {})}
    return {
        "name": name,
        "image": BUSYBOX_IMAGE,
        "command": ["sh", "-c", script],
        "resources": {"limits": limits},
        **more,
    }


def pod(name: str, *containers: Object, labels: Mapping[str, str] | None = None, **spec: Any) -> Object:
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "containers": list(containers),
            **spec,
        },
    }


def owner(kind: str, name: str, replicas: int, *containers: Object, **spec: Any) -> Object:
    """A Deployment, ReplicaSet or StatefulSet of such pods."""
    labels = {"app": name}
    template = pod(name, *containers, labels=labels, **spec)
    del template["metadata"]["name"]
    service = {"serviceName": name, "podManagementPolicy": "Parallel"} if kind == "StatefulSet" else {}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template, **service},
    }


def owners(kind: str) -> str:
    """The collection of owners of a kind."""
    return f"/apis/apps/v1/namespaces/default/{kind.lower()}s"


async def running(bed: Bed, name: str, timeout_s: float = 30, *, restarts: int = 0) -> Object:
    """The pod once all its containers run; at once an error where it has failed."""

    async def there() -> Object | None:
        found = await bed.api.get(f"{PODS}/{name}")
        assert found["status"].get("phase") != "Failed", found["status"]
        statuses = found["status"].get("containerStatuses", ())
        ready = [each for each in statuses if each["restartCount"] >= restarts and "running" in each["state"]]
        return found if len(ready) == len(found["spec"]["containers"]) else None

    found = await until(there, f"pod {name} to run", timeout_s)
    assert found is not None
    return found


async def failed(bed: Bed, name: str, timeout_s: float = 30) -> Object:
    """The pod once it has failed."""

    async def there() -> Object | None:
        found = await bed.api.get(f"{PODS}/{name}")
        return found if found["status"].get("phase") == "Failed" else None

    found = await until(there, f"pod {name} to fail", timeout_s)
    assert found is not None
    return found


async def bound(bed: Bed, name: str, timeout_s: float = 30) -> Object:
    """The pod once it has a node."""

    async def there() -> Object | None:
        found = await bed.api.get(f"{PODS}/{name}")
        return found if found["spec"].get("nodeName") else None

    found = await until(there, f"pod {name} to be bound", timeout_s)
    assert found is not None
    return found


async def replicas_run(bed: Bed, app: str, count: int, timeout_s: float = 60) -> list[Object]:
    """The pods of an owner once so many of them run and none is on its way."""

    async def there() -> list[Object] | None:
        pods = [p for p in await bed.api.items(PODS, labelSelector=f"app={app}") if not is_over(p)]
        return pods if len(pods) == count and all(p["status"]["phase"] == "Running" for p in pods) else None

    found = await until(there, f"{count} pods of {app} to run", timeout_s, 0.2)
    assert found is not None
    return found


def has_ended(found: Object) -> bool:
    """Whether a pod runs no more."""
    return found["status"].get("phase") in ("Succeeded", "Failed")


def is_over(found: Object) -> bool:
    """Whether a pod has ended or is being deleted."""
    return has_ended(found) or "deletionTimestamp" in found["metadata"]


async def remove(bed: Bed, *names: str) -> None:
    """Delete pods and wait until the API shows them no more."""
    for name in names:
        with suppress(ApiError):
            await bed.api.delete(f"{PODS}/{name}")

    async def gone() -> bool:
        return not {each["metadata"]["name"] for each in await bed.api.items(PODS)} & set(names)

    await until(gone, f"{names} to be gone", 60)


async def clear(bed: Bed, *nodes: GpuNode) -> None:
    """Delete all pods and their owners, and wait until they are gone and the agents have noticed."""
    for kind in ("Deployment", "ReplicaSet", "StatefulSet"):
        await bed.api.request("DELETE", owners(kind), params={"propagationPolicy": "Background"})

    async def empty() -> bool:
        pods = await bed.api.items(PODS)
        for each in pods:
            if "deletionTimestamp" not in each["metadata"]:
                with suppress(ApiError):
                    await bed.api.delete(f"{PODS}/{each['metadata']['name']}")
        return not pods and not sum([await metric(each, "gpushare_device_plugin_pods") for each in nodes])

    await until(empty, "all pods to be gone", 60, 0.2)


# --- the node and its agent ---------------------------------------------------------------------


async def node_object(node: CardNode) -> Object:
    return await node.bed.api.get(f"/api/v1/nodes/{node.name}")


async def until_allocatable(node: GpuNode, units: int, timeout_s: float = 30) -> None:
    """Wait until the kubelet tells so many units."""

    async def told() -> bool:
        allocatable: dict[str, str] = (await node_object(node))["status"]["allocatable"]
        return int(allocatable.get(contract.RESOURCE_MEM, 0)) == units

    await until(told, f"{units} units on {node.name}", timeout_s)


async def metric(node: GpuNode, name: str, **labels: str) -> float:
    """The sum of the agent's samples of that name with these labels."""
    total = 0.0
    for family in text_string_to_metric_families(await read_text(f"{node.ops_url}/metrics")):
        for sample in family.samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                total += sample.value
    return total


async def until_registered(node: GpuNode, timeout_s: float = 30) -> None:
    """Wait until the kubelet listens to the agent and has heard of its devices."""

    async def up() -> bool:
        assert node.agent.running, tail(node.agent.command.log)
        resource = contract.RESOURCE_MEM
        registered = await metric(node, "gpushare_device_plugin_registered", resource=resource) == 1
        return registered and resource.encode() in await _allocatable(node)

    await until(up, f"the agent of {node.name} to be registered", timeout_s)


async def _allocatable(node: GpuNode) -> bytes:
    """The kubelet's ``AllocatableResourcesResponse``: it leaves out a resource without healthy devices."""
    socket = node.kubelet.path(contract.POD_RESOURCES_SOCKET)
    with suppress(KubeletError):
        async with kubelet_channel(socket, "allocatable resources") as channel:
            ask = channel.unary_unary("/v1.PodResourcesLister/GetAllocatableResources", bytes, bytes)
            return bytes(await ask(b"", timeout=2))
    return b""


async def until_unhealthy(node: GpuNode, indices: str, timeout_s: float = 60) -> None:
    """Wait until the ConfigMap for schedulers names these cards of the node, ``0,2``."""
    name = f"{contract.UNHEALTHY_PREFIX}{node.name}"

    async def told() -> bool:
        try:
            found = await node.bed.api.get(f"/api/v1/namespaces/kube-system/configmaps/{name}")
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return not indices
        return bool(found["data"][contract.UNHEALTHY_KEY] == indices)

    await until(told, f"the ConfigMap to name {indices or 'no card'}", timeout_s)


async def unready(node: GpuNode) -> str:
    """What ``/readyz`` says; empty where the agent is ready."""
    try:
        await read_text(f"{node.ops_url}/readyz")
    except ApiError as error:
        return str(error)
    return ""


async def events_of(bed: Bed, name: str, reason: str | None = None) -> list[str]:
    """The messages of the events about an object in any namespace."""
    found = await bed.api.items("/api/v1/events", fieldSelector=f"involvedObject.name={name}")
    return [each["message"] for each in found if reason in (None, each["reason"])]


async def until_event(
    bed: Bed, name: str, says: Callable[[str], bool], reason: str | None = None, timeout_s: float = 30
) -> str:
    """The first event about an object that says so."""

    async def told() -> str | None:
        return next((text for text in await events_of(bed, name, reason) if says(text)), None)

    return await until(told, f"an event about {name}", timeout_s) or ""
