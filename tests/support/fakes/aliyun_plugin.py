"""A FAKE of the Aliyun plugin, in Python, for tests of the upgrade from it.

It behaves as the Go program does on a node of equal GPUs: the same devices, responses and annotations, its
defects included. It is started as a process of the node::

    python aliyun_plugin.py NODE KUBECONFIG UNITS UUID [UUID…]
"""

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import grpc
import yaml

from gpushare import contract
from gpushare.adapters.kubelet.api import deviceplugin_pb2 as wire
from gpushare.adapters.kubelet.services import DEVICE_PLUGIN, REGISTRATION, add_to_server, stub_of
from testbed.control_plane.api import Api, Object, tls

FOLDER = Path(contract.DEVICE_PLUGIN_FOLDER)


class AliyunPlugin:
    """One plugin: ``units`` of each GPU; the UUIDs are in the order of the indices."""

    def __init__(self, api: Api, node: str, units: int, uuids: list[str]) -> None:
        self._api = api
        self._node = node
        self._units = units
        self._uuids = uuids
        self._turn = asyncio.Lock()

    async def publish(self) -> None:
        """Write the GPU count into the status of the node."""
        count = {contract.RESOURCE_COUNT: str(len(self._uuids))}
        status = {"status": {"capacity": count, "allocatable": count}}
        await self._api.patch(f"/api/v1/nodes/{self._node}/status", status)

    async def GetDevicePluginOptions(self, request: Any, context: Any) -> wire.DevicePluginOptions:  # noqa: ARG002, N802 - the protocol's
        """No options."""
        return wire.DevicePluginOptions()

    async def ListAndWatch(self, request: Any, context: Any) -> None:  # noqa: ARG002, N802 - the protocol's
        """All devices, once."""
        ids = (f"{uuid}-_-{number}" for uuid in self._uuids for number in range(self._units))
        devices = [wire.Device(ID=each, health="Healthy") for each in ids]
        await context.write(wire.ListAndWatchResponse(devices=devices))
        await asyncio.Event().wait()

    async def Allocate(self, request: wire.AllocateRequest, context: Any) -> wire.AllocateResponse:  # noqa: ARG002, N802 - the protocol's
        """The GPU of the pending pod of that amount with the oldest assume time."""
        amount = sum(len(each.devices_ids) for each in request.container_requests)
        async with self._turn:
            found = await self._candidate(amount)
            if found is not None:
                index = found["metadata"]["annotations"][contract.ANN_IDX]
                answer = self._answer(request, amount, index, index)
                await self._assigned(found)
            elif len(self._uuids) == 1:
                answer = self._answer(request, amount, self._uuids[0], "0")
            else:
                answer = self._answer(request, amount, f"no-gpu-has-{amount}GiB-to-run", "-1")
        return answer

    async def _candidate(self, amount: int) -> Object | None:
        selector = f"spec.nodeName={self._node},status.phase=Pending"
        pods = await self._api.items("/api/v1/pods", fieldSelector=selector)
        waiting = (each for each in pods if _notes(each).get(contract.ANN_ASSIGNED) == "false")
        suitable = [each for each in waiting if _units(each) == amount]
        return min(suitable, key=lambda each: int(_notes(each)[contract.ANN_ASSUME_TIME]), default=None)

    async def _assigned(self, found: Object) -> None:
        meta = found["metadata"]
        notes = {contract.ANN_ASSIGNED: "true", contract.ANN_ASSUME_TIME: str(time.time_ns())}
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        await self._api.patch(path, {"metadata": {"annotations": notes}})

    def _answer(
        self, request: wire.AllocateRequest, amount: int, visible: str, index: str
    ) -> wire.AllocateResponse:
        return wire.AllocateResponse(
            container_responses=[
                wire.ContainerAllocateResponse(
                    envs={
                        contract.ENV_VISIBLE_DEVICES: visible,
                        contract.ENV_IDX: index,
                        contract.ENV_POD: str(amount),
                        contract.ENV_CONTAINER: str(len(each.devices_ids)),
                        contract.ENV_DEV: str(self._units),
                    }
                )
                for each in request.container_requests
            ]
        )


def _notes(found: Object) -> dict[str, str]:
    notes: dict[str, str] = found["metadata"].get("annotations") or {}
    return notes


def _units(found: Object) -> int:
    limits = (each.get("resources", {}).get("limits", {}) for each in found["spec"]["containers"])
    return sum(int(each.get(contract.RESOURCE_MEM, 0)) for each in limits)


def _client(kubeconfig: Path) -> Api:
    document = yaml.safe_load(kubeconfig.read_text())
    cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
    files = (cluster["certificate-authority"], user["client-certificate"], user["client-key"])
    return Api(cluster["server"], tls(*map(Path, files)))


async def serve(node: str, kubeconfig: Path, units: int, uuids: list[str]) -> None:
    """Register and serve until killed."""
    async with _client(kubeconfig) as api:
        plugin = AliyunPlugin(api, node, units, uuids)
        server = grpc.aio.server()
        add_to_server(DEVICE_PLUGIN, plugin, server)
        server.add_insecure_port(f"unix:{FOLDER / contract.MEM_SOCKET}")
        await server.start()
        await plugin.publish()
        options = (("grpc.default_authority", "localhost"),)
        kubelet = f"unix:{FOLDER / contract.KUBELET_SOCKET}"
        async with grpc.aio.insecure_channel(kubelet, options=options) as channel:
            await stub_of(REGISTRATION, channel).Register(
                wire.RegisterRequest(
                    version="v1beta1", endpoint=contract.MEM_SOCKET, resource_name=contract.RESOURCE_MEM
                )
            )
        await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]))
