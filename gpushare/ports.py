"""What the daemons need from the outside world, as protocols. Adapters implement them.

No implementation and no decision belongs here.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from gpushare.model.hardware import Fault, Inventory
from gpushare.model.objects import Pod
from gpushare.model.readings import ProcessReading, Readings

Fence = Callable[[], str | None]
"""Says why something must not begin now, None where it may."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event about an object, as users read it in ``kubectl describe``."""

    kind: str
    namespace: str
    name: str
    uid: str
    reason: str
    text: str
    warning: bool = False


def pod_event(pod: Pod, reason: str, text: str, *, warning: bool = False) -> Event:
    """A note about a pod."""
    return Event("Pod", pod.namespace, pod.name, pod.uid, reason, text, warning)


def node_event(node: str, reason: str, text: str) -> Event:
    """A warning about a node. Its UID is its name, as kubelet's own events have it."""
    return Event("Node", "", node, node, reason, text, warning=True)


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """A coordination Lease. ``version`` is the resourceVersion of this reading, ``uid`` the object's."""

    holder: str
    address: str
    duration_s: int
    renewed: str
    transitions: int
    version: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key in a Secret, and when the Secret was created, as the API writes times."""

    key: bytes
    created: str


class KubeApi(Protocol):
    """The API server. Every method raises ApiError where it does not succeed."""

    async def bind(
        self, pod: Pod, node: str, annotations: Mapping[str, str], *, timeout_s: float, fence: Fence
    ) -> None:
        """POST a Binding with the pod's UID: sets node and annotations in one write.

        ``fence`` is asked at the last moment; where it refuses nothing is sent (``ApiError.unsent``).
        """

    async def read_pod(self, namespace: str, name: str) -> Pod | None:
        """The pod as etcd has it now (quorum read); None where there is none."""

    async def note(self, note: Event) -> None:
        """Write an event."""

    async def read_lease(self) -> LeaseRecord | None:
        """The extender's Lease; None where there is none yet."""

    async def read_key(self) -> StoredKey | None:
        """The key for seals; None where there is none yet."""

    async def create_key(self, key: bytes) -> StoredKey:
        """Store a new key; 409 if another replica was first."""

    async def write_lease(self, record: LeaseRecord) -> LeaseRecord:
        """Create the Lease (no version) or replace that version of it; 409 if somebody was first.

        A version that was deleted meanwhile is created anew, with another UID.
        """


class InventoryDriver(Protocol):
    """The driver. Every method raises GpuError where the driver refuses or does not answer in time."""

    async def inventory(self) -> Inventory:
        """All cards, read afresh."""

    async def unhealthy(self) -> Mapping[str, str]:
        """The cards that do not answer as they should: UUID → what is wrong."""

    def faults(self) -> AsyncIterator[Fault]:
        """XID errors as the driver reports them. Ends where the driver has no such reports."""


class MeterDriver(Protocol):
    """The driver, for those who watch the cards. Raises GpuError as ``InventoryDriver`` does."""

    async def readings(self) -> Readings:
        """What all cards and the processes on them do now."""


class ProcessDriver(Protocol):
    """The driver, for pacing: which processes use a GPU. Raises GpuError as ``InventoryDriver`` does."""

    async def processes(self) -> Mapping[str, tuple[ProcessReading, ...]]:
        """By UUID of each card that lists them, its processes and what they do now."""


class AgentDriver(InventoryDriver, ProcessDriver, Protocol):
    """The driver, for the agent of one node."""


class ModeDriver(Protocol):
    """The driver, for those who say who may use a card. Raises GpuError as ``InventoryDriver`` does."""

    async def set_exclusive(self, uuid: str, *, exclusive: bool) -> None:
        """Let one process alone use the card, or any number of them."""


class MpsDriver(InventoryDriver, ModeDriver, Protocol):
    """The driver, for the MPS daemon of one node."""


class NodeApi(Protocol):
    """The API server, for the agent of one node. Every method raises ApiError where it does not succeed."""

    async def patch_node(self, patch: Mapping[str, Any]) -> None:
        """Merge into the agent's node: metadata and status, through the status subresource."""

    async def patch_pod(self, pod: Pod, annotations: Mapping[str, str | None]) -> None:
        """Merge annotations into a pod; 404 if it is gone, or if its name belongs to another UID by now."""

    async def write_unhealthy(self, indices: str) -> None:
        """Write the list of unhealthy cards of the node, ``0,2``; create it if there is none yet."""

    async def node_names(self) -> tuple[str, ...]:
        """The names of all nodes."""

    async def note(self, note: Event) -> None:
        """Write an event."""
