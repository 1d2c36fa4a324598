"""Watches of this node and its pods: what has been listed, and how stale it is.

Handlers pass the objects on to the node state and to the agent; they decide nothing.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import partial
from typing import Any, Final

import structlog

from gpushare.adapters.kube.agent_resources import local_node, local_pods
from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.watch import Follower
from gpushare.deviceplugin.metrics import PluginMetrics
from gpushare.deviceplugin.node.state import NodeState
from gpushare.errors import ApiError
from gpushare.model.changes import Deleted, Upserted
from gpushare.model.local_node import LocalNode, LocalPod

log = structlog.get_logger()

_STALE_S: Final = 60.0
"""Shorter outages of the API server are not reported."""


class _WatchHandler:
    """State of one watch: whether its list is complete, and the last error."""

    def __init__(self) -> None:
        self.listed = asyncio.Event()
        self.problem: str | None = "not listed yet"

    def synced(self, resource: str) -> None:
        """The list is complete."""
        log.info("listed", resource=resource)
        self.problem = None
        self.listed.set()

    def failed(self, resource: str, error: ApiError, retry_in_s: float) -> None:
        """The API server is unavailable or has refused the request; known objects stay in use."""
        if self.problem != str(error):
            log.warning("watch_restarted", resource=resource, reason=str(error), retry_s=retry_in_s)
        self.problem = str(error)


class LocalPodHandler(_WatchHandler):
    """Passes pods of this node to the node state."""

    def __init__(self, node_state: NodeState) -> None:
        super().__init__()
        self._node_state = node_state

    def changed(self, batch: Iterable[Upserted[LocalPod] | Deleted]) -> None:
        """Apply changed pods."""
        self._node_state.apply_pods(batch)


class LocalNodeHandler(_WatchHandler):
    """Passes this node to ``on_change``. ``found`` is whether the API server has ever returned it."""

    def __init__(self, on_change: Callable[[LocalNode], None]) -> None:
        super().__init__()
        self._on_change = on_change
        self.found = False

    def changed(self, batch: Iterable[Upserted[LocalNode] | Deleted]) -> None:
        """Apply a change of the node. Its deletion is ignored: pods on it keep running."""
        for change in batch:
            if isinstance(change, Upserted):
                self.found = True
                self._on_change(change.value)


class NodeWatches:
    """The watches of one node. ``on_node`` receives each change of the Node object."""

    def __init__(
        self,
        client: KubeClient,
        node: str,
        node_state: NodeState,
        metrics: PluginMetrics,
        on_node: Callable[[LocalNode], None],
    ) -> None:
        self.pods = LocalPodHandler(node_state)
        self.node = LocalNodeHandler(on_node)
        self.pod_follower = Follower(client, local_pods(node), self.pods)
        # One check is enough, and that of a single object is cheap for every API server.
        self.node_follower = Follower(client, local_node(node), self.node, ends_if_restored=True)
        for name, follower in (("pods", self.pod_follower), ("nodes", self.node_follower)):
            metrics.stale.labels(name).set_function(partial(getattr, follower, "lost_s"))

    def jobs(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """The watches by name; each runs until cancelled."""
        yield "node_watch", self.node_follower.run()
        yield "pod_watch", self.pod_follower.run()

    def retry_now(self) -> None:
        """End the pause of watches that have failed."""
        self.pod_follower.retry_now()
        self.node_follower.retry_now()

    async def listed(self) -> None:
        """Wait until node and pods have been listed."""
        await asyncio.gather(self.node.listed.wait(), self.pods.listed.wait())

    def problem(self) -> str | None:
        """Why node or pods are not known or stale; None if both are up to date."""
        for name, handler, follower in (
            ("pods", self.pods, self.pod_follower),
            ("node", self.node, self.node_follower),
        ):
            if not handler.listed.is_set():
                return f"{name}: {handler.problem}"
            if follower.lost_s > _STALE_S:
                return f"{name}: as of {follower.lost_s:.0f} s ago: {handler.problem}"
        return None
