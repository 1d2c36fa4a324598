"""The device plugin API of the kubelet (``v1beta1.DevicePlugin``) on a unix socket, for one plugin.

Protobuf and gRPC end here: the plugin receives and returns plain values, and decides.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import grpc
import structlog

from gpushare.adapters.kubelet.api import deviceplugin_pb2 as api
from gpushare.adapters.kubelet.registration import OPTIONS
from gpushare.adapters.kubelet.services import DEVICE_PLUGIN, MAX_MESSAGE_BYTES, add_to_server
from gpushare.deviceplugin.core.interface import OK, AllocateResponse, Device, KubeletPlugin, Rejected
from gpushare.deviceplugin.metrics import PluginMetrics
from gpushare.errors import KubeletError

_GRACE_S: Final = 6.0
"""Longer than an Allocate waits for a pod that the API server has not shown yet."""
_HEALTH: Final = {True: "Healthy", False: "Unhealthy"}
_EMPTY: Final = api.PreStartContainerResponse()

log = structlog.get_logger()


@asynccontextmanager
async def serving(plugin: KubeletPlugin, socket: Path, metrics: PluginMetrics) -> AsyncIterator["Endpoint"]:
    """An endpoint that listens on ``socket`` and removes it at the end. Raises KubeletError.

    Calls in progress have some seconds to finish.
    """
    endpoint = Endpoint(plugin, metrics, await _listing(plugin))
    server = grpc.aio.server(options=(("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),))
    add_to_server(DEVICE_PLUGIN, endpoint, server)
    try:
        server.add_insecure_port(f"unix:{socket}")
    except RuntimeError as error:
        raise KubeletError(f"{socket}: cannot listen: {error}") from error
    await server.start()
    following = asyncio.create_task(endpoint.follow())
    try:
        yield endpoint
    finally:
        following.cancel()
        endpoint.close()
        # In a separate task: stop() swallows a cancellation that arrives just as it ends.
        async with asyncio.TaskGroup() as closing:
            closing.create_task(server.stop(_GRACE_S))
        await asyncio.wait((following,))
        if not following.cancelled():
            following.result()


class Endpoint:
    """The calls of the kubelet during one registration, whose first list of devices is ``first``.

    ``opened`` is set once a list of devices was delivered, ``ended`` once a stream of lists has ended.
    """

    def __init__(
        self, plugin: KubeletPlugin, metrics: PluginMetrics, first: api.ListAndWatchResponse
    ) -> None:
        self.opened = asyncio.Event()
        self.ended = asyncio.Event()
        self._plugin = plugin
        self._metrics = metrics
        self._closing = False
        self._listing = first
        self._change = asyncio.Event()

    async def follow(self) -> None:
        """Publish the plugin's devices whenever they change, until cancelled."""
        try:
            while True:
                await self._plugin.changed()
                self._listing = await _listing(self._plugin)
                self._wake()
        finally:
            self.ended.set()

    def close(self) -> None:
        """End the streams."""
        self._closing = True
        self._wake()

    async def GetDevicePluginOptions(self, request: Any, context: Any) -> api.DevicePluginOptions:  # noqa: ARG002, N802 - the protocol's
        """The options of this plugin."""
        return OPTIONS

    async def ListAndWatch(self, request: Any, context: Any) -> None:  # noqa: ARG002, N802 - the protocol's
        """All devices at first, and again after each change."""
        try:
            while not self._closing:
                # Taken before the write: a change during it must not be missed.
                change = self._change
                await context.write(self._listing)
                self.opened.set()
                await change.wait()
        finally:
            self.ended.set()

    async def GetPreferredAllocation(  # noqa: N802 - the protocol's
        self,
        request: api.PreferredAllocationRequest,
        context: Any,  # noqa: ARG002 - the protocol's
    ) -> api.PreferredAllocationResponse:
        """The preferred devices of each container.

        An empty response leaves the choice to the kubelet, while an error would fail the pod.
        """
        response = api.PreferredAllocationResponse()
        try:
            for container in request.container_requests:
                response.container_responses.append(await self._preferred(container))
        except Exception:
            log.exception("preferred_allocation_failed", resource=self._plugin.resource)
            return api.PreferredAllocationResponse()
        return response

    async def Allocate(self, request: api.AllocateRequest, context: Any) -> api.AllocateResponse:  # noqa: N802 - the protocol's
        """The response for each container, or the rejection as a gRPC status."""
        begun = time.monotonic()
        code = grpc.StatusCode.FAILED_PRECONDITION
        try:
            outcome = await self._allocate(request)
        except Exception as error:
            log.exception("allocate_failed", resource=self._plugin.resource)
            code, outcome = grpc.StatusCode.INTERNAL, Rejected("error", _error_text(error))
        self._count(outcome, time.monotonic() - begun)
        if isinstance(outcome, Rejected):
            context.set_code(code)
            context.set_details(outcome.text)
            return api.AllocateResponse()
        return api.AllocateResponse(container_responses=map(_encoded, outcome))

    async def PreStartContainer(self, request: Any, context: Any) -> api.PreStartContainerResponse:  # noqa: ARG002, N802 - the protocol's
        """Nothing: the options tell the kubelet not to call this."""
        return _EMPTY

    def _wake(self) -> None:
        change, self._change = self._change, asyncio.Event()
        change.set()

    async def _preferred(
        self, request: api.ContainerPreferredAllocationRequest
    ) -> api.ContainerPreferredAllocationResponse:
        available, must = tuple(request.available_deviceIDs), tuple(request.must_include_deviceIDs)
        return api.ContainerPreferredAllocationResponse(
            deviceIDs=await self._plugin.prefer(available, must, request.allocation_size)
        )

    async def _allocate(self, request: api.AllocateRequest) -> list[AllocateResponse] | Rejected:
        responses = []
        for container in request.container_requests:
            response = await self._plugin.allocate(tuple(container.devices_ids))
            if isinstance(response, Rejected):
                return response
            responses.append(response)
        return responses

    def _count(self, outcome: list[AllocateResponse] | Rejected, seconds: float) -> None:
        resource = self._plugin.resource
        if isinstance(outcome, Rejected):
            log.warning("allocate_refused", resource=resource, reason=outcome.reason, text=outcome.text)
            results = [outcome.reason]
        else:
            results = [response.result for response in outcome if response.result != OK] or [OK]
        self._metrics.allocations.labels(resource, results[0]).inc()
        self._metrics.latency.labels(resource).observe(seconds)


def listing(devices: Iterable[Device]) -> api.ListAndWatchResponse:
    """The message with all devices."""
    return api.ListAndWatchResponse(devices=map(_device, devices))


async def _listing(plugin: KubeletPlugin) -> api.ListAndWatchResponse:
    """The same in a thread: 130,000 units of MiB take half a second, and calls must not wait."""
    return await asyncio.to_thread(listing, plugin.devices())


def _device(device: Device) -> api.Device:
    topology = None if device.numa is None else _topology(device.numa)
    return api.Device(ID=device.id, health=_HEALTH[device.healthy], topology=topology)


@cache
def _topology(numa: int) -> api.TopologyInfo:
    return api.TopologyInfo(nodes=[api.NUMANode(ID=numa)])


def _encoded(response: AllocateResponse) -> api.ContainerAllocateResponse:
    mounts = [
        api.Mount(host_path=each.host_path, container_path=each.container_path, read_only=each.read_only)
        for each in response.mounts
    ]
    cdi = [api.CDIDevice(name=name) for name in response.cdi_devices]
    devices = [
        api.DeviceSpec(host_path=path, container_path=path, permissions="r") for path in response.devices
    ]
    return api.ContainerAllocateResponse(envs=response.envs, mounts=mounts, cdi_devices=cdi, devices=devices)


def _error_text(error: Exception) -> str:
    return f"internal error of the node agent, see its log: {type(error).__name__}: {error}"
