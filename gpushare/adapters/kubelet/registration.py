"""Registration of a device plugin with the kubelet (``v1beta1.Registration``)."""

from pathlib import Path
from typing import Final

from gpushare.adapters.kubelet.api.deviceplugin_pb2 import DevicePluginOptions, RegisterRequest
from gpushare.adapters.kubelet.services import REGISTRATION, kubelet_channel, stub_of

OPTIONS: Final = DevicePluginOptions(get_preferred_allocation_available=True)
"""Capabilities of our plugins; the kubelet requests them again when it dials back."""

_VERSION: Final = "v1beta1"


async def register(kubelet_socket: Path, *, endpoint: str, resource: str, timeout_s: float = 12.0) -> None:
    """Register a resource that is served on the socket ``endpoint`` of the same folder.

    The kubelet dials back within this call and gives up after 10 s; the default timeout is longer, so that
    its error arrives. Raises KubeletError with the kubelet's text.
    """
    request = RegisterRequest(version=_VERSION, endpoint=endpoint, resource_name=resource, options=OPTIONS)
    async with kubelet_channel(kubelet_socket, f"registration of {resource}") as channel:
        await stub_of(REGISTRATION, channel).Register(request, timeout=timeout_s)
