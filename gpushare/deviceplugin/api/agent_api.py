"""What the agent of one node needs of the API server."""

from collections.abc import Mapping
from typing import Any, Protocol

from gpushare.model.objects import Pod
from gpushare.ports import KubeEvent


class AgentApi(Protocol):
    """The API server, for the agent of one node. Every method raises ApiError if it does not succeed."""

    async def patch_node(self, patch: Mapping[str, Any]) -> None:
        """Merge into the agent's node: metadata and status, through the status subresource."""

    async def patch_pod(self, pod: Pod, annotations: Mapping[str, str | None]) -> None:
        """Merge annotations into a pod; 404 if it is gone, or if its name has another UID now."""

    async def write_unhealthy(self, indices: str) -> None:
        """Write the list of unhealthy GPUs of the node, such as ``0,2``; create it if there is none yet."""

    async def node_names(self) -> tuple[str, ...]:
        """The names of all nodes."""

    async def write_event(self, event: KubeEvent) -> None:
        """Write an event."""
