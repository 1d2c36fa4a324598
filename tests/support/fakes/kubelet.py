"""A FAKE kubelet: the device manager's side of the device plugin API, over real gRPC and real sockets.

Only for races and rejections that a real kubelet cannot be forced into; everything else is tested with
real kubelets. It does what ``pkg/kubelet/cm/devicemanager`` of Kubernetes 1.36 does on the wire:

* at its start it deletes all sockets in its folder and listens on ``kubelet.sock``;
* it dials back inside ``Register`` and asks for the options, then reads ``ListAndWatch``;
* when a stream ends it disconnects whatever client is registered under that name *by then*;
* it asks for preferred devices only where fewer are needed than available, and writes its checkpoint
  after each list and each allocation.
"""

import asyncio
import base64
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc

from gpushare.adapters.kubelet.api import deviceplugin_pb2 as api
from gpushare.adapters.kubelet.services import DEVICE_PLUGIN, REGISTRATION, add_to_server, stub_of
from gpushare.contract import KUBELET_CHECKPOINT, KUBELET_SOCKET

_DIAL_TIMEOUT_S = 10.0
_NO_NUMA = -1


@dataclass
class Client:
    """The kubelet's connection to one plugin."""

    resource: str
    channel: grpc.aio.Channel
    stub: SimpleNamespace
    stream: Any = None


@dataclass
class Allocation:
    """Devices of one resource that a container has, and the response of the plugin."""

    ids: tuple[str, ...]
    answer: api.ContainerAllocateResponse


@dataclass
class FakeKubelet:
    """One fake kubelet. Its public fields may be read at any time."""

    folder: Path
    registrations: list[api.RegisterRequest] = field(default_factory=list)
    """All requests to register, rejected ones too."""
    options: dict[str, api.DevicePluginOptions] = field(default_factory=dict)
    devices: dict[str, dict[str, api.Device]] = field(default_factory=dict)
    """By resource and ID; kept when the plugin is gone, as the kubelet keeps the capacity."""
    allocations: dict[tuple[str, str, str], Allocation] = field(default_factory=dict)
    """By pod UID, container and resource."""
    refuse: str | None = None
    """The error of the next registrations."""
    deaf: bool = False
    """Accept registrations, but do not call ListAndWatch."""
    tidy: bool = True
    """Delete the sockets of the folder at the start."""
    authority: str = "localhost"
    """The ``:authority`` of its calls; kubelets before 1.26 sent the path of the plugin's socket."""
    clients: dict[str, Client] = field(default_factory=dict)
    _disconnecting: asyncio.Event = field(default_factory=asyncio.Event)
    _readers: set["asyncio.Task[None]"] = field(default_factory=set)
    _server: Any = None

    def __post_init__(self) -> None:
        self._disconnecting.set()

    async def start(self) -> None:
        """Begin as a kubelet does: without plugins, in a folder without sockets."""
        for path in self.folder.iterdir():
            if self.tidy and path.is_socket():
                path.unlink()
        self._server = grpc.aio.server()
        add_to_server(REGISTRATION, self, self._server)
        self._server.add_insecure_port(f"unix:{self.folder / KUBELET_SOCKET}")
        await self._server.start()

    async def stop(self) -> None:
        """End, and leave the folder as it is."""
        self._disconnecting.set()
        await self._server.stop(0)
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
        for client in list(self.clients.values()):
            await self._disconnect(client)
        self.devices.clear()

    async def restart(self) -> None:
        """Stop and start."""
        await self.stop()
        await self.start()

    async def Register(self, request: api.RegisterRequest, context: Any) -> api.Empty:  # noqa: N802 - the protocol's
        """Dial back and watch the devices of the plugin."""
        self.registrations.append(request)
        if self.refuse is not None:
            await context.abort(grpc.StatusCode.UNKNOWN, self.refuse)
        client = self._dial(request.resource_name, self.folder / request.endpoint)
        self.clients[client.resource] = client
        try:
            async with asyncio.timeout(_DIAL_TIMEOUT_S):
                await client.channel.channel_ready()
            self.options[client.resource] = await client.stub.GetDevicePluginOptions(api.Empty())
        except (TimeoutError, grpc.aio.AioRpcError) as error:
            del self.clients[client.resource]
            await client.channel.close()
            await context.abort(grpc.StatusCode.UNKNOWN, f"failed to dial device plugin: {error!r}")
        if not self.deaf:
            reader = asyncio.create_task(self._run(client))
            self._readers.add(reader)
            reader.add_done_callback(self._readers.discard)
        return api.Empty()

    def allocatable(self, resource: str) -> int:
        """Healthy devices of a plugin that is connected, else 0."""
        if resource not in self.clients:
            return 0
        return len(self.healthy(resource))

    def healthy(self, resource: str) -> set[str]:
        """IDs of the healthy devices in the last list."""
        return {id_ for id_, each in self.devices.get(resource, {}).items() if each.health == "Healthy"}

    def allocated(self, resource: str) -> set[str]:
        """IDs of the devices that containers have."""
        return {
            id_ for (_, _, name), each in self.allocations.items() if name == resource for id_ in each.ids
        }

    async def prefer(
        self, resource: str, available: Iterable[str], must: Iterable[str], size: int
    ) -> list[str]:
        """The devices that the plugin prefers for one container."""
        request = api.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=must, allocation_size=size
        )
        answer = await self.clients[resource].stub.GetPreferredAllocation(
            api.PreferredAllocationRequest(container_requests=[request])
        )
        return list(answer.container_responses[0].deviceIDs)

    async def allocate(self, resource: str, ids: Iterable[str]) -> api.ContainerAllocateResponse:
        """Allocate for one container. Raises grpc.aio.AioRpcError if the plugin rejects it."""
        request = api.AllocateRequest(container_requests=[api.ContainerAllocateRequest(devices_ids=ids)])
        answer = await self.clients[resource].stub.Allocate(request)
        response: api.ContainerAllocateResponse = answer.container_responses[0]
        return response

    async def admit(
        self, pod_uid: str, container: str, resource: str, amount: int
    ) -> api.ContainerAllocateResponse:
        """Allocate free devices to a container, preferred ones first, and write the checkpoint."""
        free = self.healthy(resource) - self.allocated(resource)
        if len(free) < amount:
            raise ValueError(f"{resource}: requested {amount}, available {len(free)}")
        wanted = []
        if amount < len(free) and self.options[resource].get_preferred_allocation_available:
            wanted = [id_ for id_ in await self.prefer(resource, free, (), amount) if id_ in free]
        ids = tuple(dict.fromkeys([*wanted, *free]))[:amount]
        answer = await self.allocate(resource, ids)
        self.allocations[pod_uid, container, resource] = Allocation(ids, answer)
        self.write_checkpoint()
        return answer

    def forget(self, pod_uid: str) -> None:
        """Free the devices of a pod; the kubelet writes its checkpoint only at the next allocation."""
        self.allocations = {key: each for key, each in self.allocations.items() if key[0] != pod_uid}

    def write_checkpoint(self) -> None:
        """Write the checkpoint as kubelets since 1.20 do: IDs by NUMA node, file renamed into place."""
        data = {
            "PodDeviceEntries": [
                {
                    "PodUID": pod_uid,
                    "ContainerName": container,
                    "ResourceName": resource,
                    "DeviceIDs": self._by_numa(resource, each.ids),
                    "AllocResp": base64.b64encode(each.answer.SerializeToString()).decode(),
                }
                for (pod_uid, container, resource), each in self.allocations.items()
            ]
            or None,
            "RegisteredDevices": {resource: sorted(self.healthy(resource)) for resource in self.devices},
        }
        path = self.folder / KUBELET_CHECKPOINT
        fresh = path.with_name(f".{path.name}")
        fresh.write_text(json.dumps({"Data": data, "Checksum": 1}))
        fresh.replace(path)

    def drop_stream(self, resource: str) -> None:
        """End the stream of device lists from the kubelet's side."""
        self.clients[resource].stream.cancel()

    def delay_disconnects(self) -> None:
        """From now on do not disconnect after the end of a stream, until ``finish_disconnects``."""
        self._disconnecting.clear()

    def finish_disconnects(self) -> None:
        """Disconnect the clients that are now registered under the names of the ended streams."""
        self._disconnecting.set()

    def _dial(self, resource: str, socket: Path) -> Client:
        options = (("grpc.default_authority", self.authority),)
        channel = grpc.aio.insecure_channel(f"unix:{socket}", options=options)
        return Client(resource, channel, stub_of(DEVICE_PLUGIN, channel))

    async def _run(self, client: Client) -> None:
        client.stream = client.stub.ListAndWatch(api.Empty())
        with suppress(grpc.aio.AioRpcError, asyncio.CancelledError):
            async for answer in client.stream:
                self.devices[client.resource] = {each.ID: each for each in answer.devices}
                self.write_checkpoint()
        await self._disconnecting.wait()
        successor = self.clients.get(client.resource)
        if successor is not None:
            await self._disconnect(successor)

    async def _disconnect(self, client: Client) -> None:
        self.clients.pop(client.resource, None)
        await client.channel.close()

    def _by_numa(self, resource: str, ids: Iterable[str]) -> dict[str, list[str]]:
        groups: dict[str, list[str]] = defaultdict(list)
        for id_ in ids:
            nodes = self.devices[resource][id_].topology.nodes
            for numa in [node.ID for node in nodes] or [_NO_NUMA]:
                groups[str(numa)].append(id_)
        return groups


@asynccontextmanager
async def fake_kubelet(folder: Path) -> AsyncIterator[FakeKubelet]:
    """A running fake kubelet."""
    kubelet = FakeKubelet(folder)
    await kubelet.start()
    try:
        yield kubelet
    finally:
        await kubelet.stop()
