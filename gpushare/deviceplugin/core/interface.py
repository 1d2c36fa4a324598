"""The interface between the gRPC endpoint and its plugins: plain values, without protobuf. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

OK: Final = "ok"
"""The result of a response that allocates what was requested."""


@dataclass(frozen=True, slots=True)
class Device:
    """One device in the kubelet's list: one unit of a GPU. ``numa`` is the NUMA node, None if unknown."""

    id: str
    healthy: bool = True
    numa: int | None = None


@dataclass(frozen=True, slots=True)
class Mount:
    """A path of the host that is mounted into a container."""

    host_path: str
    container_path: str
    read_only: bool = True


@dataclass(frozen=True, slots=True)
class AllocateResponse:
    """The response for one container. ``devices`` are paths below ``/dev``, the same in the container.

    ``result`` is its metric label; a response may signal a failure.
    """

    envs: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    cdi_devices: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    result: str = OK


@dataclass(frozen=True, slots=True)
class Rejected:
    """The rejection of a call. ``reason`` is its metric label, ``text`` the message for the user."""

    reason: str
    text: str


class KubeletPlugin(Protocol):
    """The part of a device plugin behind its endpoint. All calls come from one event loop."""

    resource: str
    """The name of the extended resource."""
    socket: str
    """The name of the plugin's socket in the kubelet's directory of device plugins."""

    def devices(self) -> Iterable[Device]:
        """The current devices. The caller may iterate in another thread."""

    async def changed(self) -> None:
        """Return when ``devices`` has changed since its last call."""

    async def prefer(self, available: Sequence[str], must: Sequence[str], size: int) -> Sequence[str]:
        """The preferred ``size`` of the available IDs, including ``must``."""

    async def allocate(self, ids: Sequence[str]) -> AllocateResponse | Rejected:
        """The response for a container that gets these device IDs."""

    def registered(self, *, up: bool) -> None:
        """Receives whether the kubelet watches the list of devices."""
