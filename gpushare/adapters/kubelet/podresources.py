"""Devices allocated to containers, from the kubelet's ``v1.PodResourcesLister``.

The API has no pod UIDs and omits plain init containers.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from gpushare.adapters.kubelet.api.podresources_pb2 import ListPodResourcesRequest
from gpushare.adapters.kubelet.api.podresources_pb2 import PodResources as Pod
from gpushare.adapters.kubelet.services import POD_RESOURCES, kubelet_channel, stub_of
from gpushare.model.devices import ContainerDevices


class PodResources:
    """The kubelet's PodResources API on one socket."""

    def __init__(self, socket: Path, *, timeout_s: float = 10.0) -> None:
        self._socket = socket
        self._timeout_s = timeout_s

    async def list(self) -> tuple[ContainerDevices, ...]:
        """Return one entry per container and resource. Raises KubeletError."""
        return merge(await self._pods())

    async def pods(self) -> frozenset[str]:
        """Return ``namespace/name`` of all pods, including those without devices. Raises KubeletError."""
        return frozenset(f"{pod.namespace}/{pod.name}" for pod in await self._pods())

    async def _pods(self) -> Sequence[Pod]:
        async with kubelet_channel(self._socket, "list of pod resources") as channel:
            list_pods = stub_of(POD_RESOURCES, channel).List
            answer = await list_pods(ListPodResourcesRequest(), timeout=self._timeout_s)
        return tuple(answer.pod_resources)


def merge(pods: Iterable[Pod]) -> tuple[ContainerDevices, ...]:
    """Return one entry per container and resource; the kubelet may return one per device."""
    ids: dict[tuple[str, str, str, str], set[str]] = defaultdict(set)
    for pod in pods:
        for container in pod.containers:
            for devices in container.devices:
                key = pod.namespace, pod.name, container.name, devices.resource_name
                ids[key].update(devices.device_ids)
    return tuple(ContainerDevices(*key, frozenset(found)) for key, found in ids.items())
