"""What the agent follows at the API: the pods of its node, and the node itself.

What belongs here: whether their lists are there, and how old they are. What does not: what comes of them
(``household``, and whoever takes the node).
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import partial
from typing import Any, Final

import structlog

from gpushare.adapters.kube.agent_resources import node_pods, own_node
from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.watch import Deleted, Follower, Upserted
from gpushare.deviceplugin.metrics import PluginMetrics
from gpushare.deviceplugin.node.state import NodeState
from gpushare.errors import ApiError
from gpushare.model.own_node import NodePod, OwnNode

_STALE_S: Final = 60.0
"""An outage that is shorter is nothing to be told."""


class Watches:
    """Follows one node. ``see_node`` gets what the API shows of it."""

    def __init__(
        self,
        client: KubeClient,
        node: str,
        node_state: NodeState,
        metrics: PluginMetrics,
        see_node: Callable[[OwnNode], None],
    ) -> None:
        self.pods = OwnPodHandler(node_state)
        self.node = OwnNodeHandler(see_node)
        self.pod_follower = Follower(client, node_pods(node), self.pods)
        self.node_follower = Follower(client, own_node(node), self.node)
        for name, follower in (("pods", self.pod_follower), ("nodes", self.node_follower)):
            metrics.stale.labels(name).set_function(partial(getattr, follower, "lost_s"))

    def jobs(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """What runs until it is cancelled."""
        yield "node watch", self.node_follower.run()
        yield "pod watch", self.pod_follower.run()

    async def listed(self) -> None:
        """Wait for both lists."""
        await asyncio.gather(self.node.listed.wait(), self.pods.listed.wait())

    def trouble(self) -> str | None:
        """Why what is known cannot be relied on, None where it can."""
        for what, intake, follower in (
            ("pods", self.pods, self.pod_follower),
            ("node", self.node, self.node_follower),
        ):
            if not intake.listed.is_set():
                return f"{what}: {intake.trouble}"
            if follower.lost_s > _STALE_S:
                return f"{what}: as of {follower.lost_s:.0f} s ago: {intake.trouble}"
        return None


log = structlog.get_logger()


class _Intake:
    """What listeners have in common: when their list is complete, and what the API refuses."""

    def __init__(self) -> None:
        self.listed = asyncio.Event()
        self.trouble: str | None = "not listed yet"

    def synced(self, resource: str) -> None:
        """The list has been taken in."""
        log.info("listed", resource=resource)
        self.trouble = None
        self.listed.set()

    def troubled(self, resource: str, error: ApiError, retry_in_s: float) -> None:
        """The API refuses, or does not answer; what is known stays in use."""
        if self.trouble != str(error):
            log.warning("watch_restarted", resource=resource, reason=str(error), retry_s=retry_in_s)
        self.trouble = str(error)


class OwnPodHandler(_Intake):
    """Listens to the pods of this node."""

    def __init__(self, node_state: NodeState) -> None:
        super().__init__()
        self._node_state = node_state

    def changed(self, batch: Iterable[Upserted[NodePod] | Deleted]) -> None:
        """Take in pods."""
        self._node_state.update_node_pods(batch)


class OwnNodeHandler(_Intake):
    """Listens to this node. ``take`` gets what the API shows of it."""

    def __init__(self, take: Callable[[OwnNode], None]) -> None:
        super().__init__()
        self._take = take
        self.found = False

    def changed(self, batch: Iterable[Upserted[OwnNode] | Deleted]) -> None:
        """Take in the node. Its deletion changes nothing here: what runs still runs."""
        for change in batch:
            if isinstance(change, Upserted):
                self.found = True
                self._take(change.value)
