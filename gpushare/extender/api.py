"""The API server as the extender uses it. ``adapters.kube.extender_api`` implements it."""

from collections.abc import Mapping
from typing import Protocol

from gpushare.model.objects import Pod
from gpushare.ports import Fence, KubeEvent, LeaseRecord, StoredKey


class ExtenderApi(Protocol):
    """The API server. Every method raises ApiError if it does not succeed."""

    async def bind(
        self, pod: Pod, node: str, annotations: Mapping[str, str], *, timeout_s: float, fence: Fence
    ) -> None:
        """POST a Binding with the pod's UID: sets node and annotations in one write.

        ``fence`` is called last; if it returns a reason, nothing is sent (``ApiError.unsent``).
        """

    async def evict(self, pod: Pod, *, timeout_s: float, fence: Fence) -> None:
        """POST an Eviction with the pod's UID; 429 if a disruption budget forbids it now.

        ``fence`` as for ``bind``.
        """

    async def read_pod(self, namespace: str, name: str) -> Pod | None:
        """The pod in etcd (quorum read); None if there is none."""

    async def write_event(self, event: KubeEvent) -> None:
        """Write an event."""

    async def read_lease(self) -> LeaseRecord | None:
        """The extender's Lease; None if there is none yet."""

    async def read_key(self) -> StoredKey:
        """The key of the seals; its Secret is created if it does not exist."""

    async def write_key(self, key: bytes, version: str) -> StoredKey:
        """Write the key into that version of the Secret; 409 if another replica wrote first."""

    async def write_lease(self, record: LeaseRecord) -> LeaseRecord:
        """Create the Lease (no version) or replace that version of it; 409 if another replica wrote first.

        If the Lease was deleted meanwhile, it is created again with another UID.
        """
