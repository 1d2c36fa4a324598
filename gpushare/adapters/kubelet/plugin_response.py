"""A device plugin's response to the kubelet, as the checkpoint of the kubelet has it."""

from collections.abc import Mapping
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from gpushare.adapters.kubelet.api.deviceplugin_pb2 import ContainerAllocateResponse
from gpushare.adapters.kubelet.checkpoint import CheckpointEntry


@dataclass(frozen=True, slots=True)
class PluginResponse:
    """A device plugin's response: environment, mounts, CDI devices.

    ``mounts`` are host paths by container path.
    """

    envs: Mapping[str, str]
    mounts: Mapping[str, str]
    cdi_devices: tuple[str, ...]


def plugin_response(entry: CheckpointEntry) -> PluginResponse:
    """Decode the response of any device plugin; empty if it is invalid."""
    try:
        response = ContainerAllocateResponse.FromString(entry.response)
    except DecodeError:
        return PluginResponse({}, {}, ())
    return PluginResponse(
        dict(response.envs),
        {mount.container_path: mount.host_path for mount in response.mounts},
        tuple(device.name for device in response.cdi_devices),
    )
