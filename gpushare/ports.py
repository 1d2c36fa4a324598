"""Values that programs and adapters exchange, and protocols of external systems, which adapters implement.

No implementation and no decision belongs here.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from gpushare.model.hardware import Fault, GpuFacts, Inventory
from gpushare.model.objects import Pod
from gpushare.model.readings import Readings

Fence = Callable[[], str | None]
"""Returns why an operation must not start now; None if it may."""


@dataclass(frozen=True, slots=True)
class KubeEvent:
    """A Kubernetes Event about an object, as ``kubectl describe`` shows it."""

    kind: str
    namespace: str
    name: str
    uid: str
    reason: str
    text: str
    warning: bool = False


def pod_event(pod: Pod, reason: str, text: str, *, warning: bool = False) -> KubeEvent:
    """An event about a pod."""
    return KubeEvent("Pod", pod.namespace, pod.name, pod.uid, reason, text, warning)


def node_event(node: str, reason: str, text: str) -> KubeEvent:
    """A warning about a node. Its UID is its name, as in the events of the kubelet."""
    return KubeEvent("Node", "", node, node, reason, text, warning=True)


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """A coordination Lease. ``version`` is the resourceVersion that was read, ``uid`` the object's UID.

    ``quiet``: no bind POST of the holder is in progress or unclear; it announces the next one by a write.
    """

    holder: str
    address: str
    duration_s: int
    renewed: str
    transitions: int
    version: str = ""
    uid: str = ""
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class StoredKey:
    """The key in the Secret, empty until an extender has written one, and when it was written.

    ``written`` is a time as the API writes times; ``version`` is the resourceVersion of the Secret.
    """

    key: bytes
    written: str
    version: str = ""


class InventoryDriver(Protocol):
    """The driver. Every method raises GpuError if the driver fails or does not answer in time."""

    async def inventory(self) -> Inventory:
        """All GPUs, read from the driver."""

    async def facts(self) -> Mapping[str, GpuFacts]:
        """What the driver answers about the health of the GPUs of all inventories, by UUID."""

    def faults(self) -> AsyncIterator[Fault]:
        """XID errors as the driver reports them. Ends if the driver does not support such reports."""


class MeterDriver(Protocol):
    """The driver, for measuring GPUs. Raises GpuError like ``InventoryDriver``."""

    async def readings(self) -> Readings:
        """Current readings of all GPUs and their processes."""


class ModeDriver(Protocol):
    """The driver, for setting compute modes. Raises GpuError like ``InventoryDriver``."""

    async def set_exclusive(self, uuid: str, *, exclusive: bool) -> None:
        """Let one process use the GPU exclusively, or any number of processes."""


class MpsDriver(InventoryDriver, ModeDriver, Protocol):
    """The driver, for the MPS daemon of one node."""
