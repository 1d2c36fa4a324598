"""Between the gRPC endpoint and what answers it: plain values, no protobuf and no decision."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

OK: Final = "ok"
"""The result of an answer that gives what was asked for."""


@dataclass(frozen=True, slots=True)
class Device:
    """One device of the kubelet's list: one unit of a card. ``numa`` is a hint, None for none."""

    id: str
    healthy: bool = True
    numa: int | None = None


@dataclass(frozen=True, slots=True)
class Mount:
    """A path of the host inside a container."""

    host_path: str
    container_path: str
    read_only: bool = True


@dataclass(frozen=True, slots=True)
class AllocateResponse:
    """What a container gets. ``result`` is one word for metrics: an answer may tell of a failure too."""

    envs: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    cdi_devices: tuple[str, ...] = ()
    result: str = OK


@dataclass(frozen=True, slots=True)
class Rejected:
    """Why a container gets nothing, for the kubelet's event. ``reason`` is one word for metrics."""

    reason: str
    text: str


class Plugin(Protocol):
    """What one endpoint serves. All calls come from one event loop."""

    resource: str
    """Name of the extended resource."""
    socket: str
    """Name of our socket in the kubelet's folder of device plugins."""

    def devices(self) -> Iterable[Device]:
        """All devices as they are now; another thread may go through them."""

    async def changed(self) -> None:
        """Return when ``devices`` has changed since it was last asked."""

    async def prefer(self, available: Sequence[str], must: Sequence[str], size: int) -> Sequence[str]:
        """``size`` of the available IDs, ``must`` among them, in the best combination."""

    async def allocate(self, ids: Sequence[str]) -> AllocateResponse | Rejected:
        """What the container gets that the kubelet gave these IDs."""

    def registered(self, *, up: bool) -> None:
        """Whether the kubelet listens to the list of devices."""
