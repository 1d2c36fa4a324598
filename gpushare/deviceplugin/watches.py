"""What the agent follows at the API: the pods of its node, and the node itself.

What belongs here: whether their lists are there, and how old they are. What does not: what comes of them
(``household``, and whoever takes the node).
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any, Final

from gpushare.adapters.kube.agent_resources import own_node, residents_of
from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.watch import Follower
from gpushare.deviceplugin.household import Household
from gpushare.deviceplugin.intake import NodeIntake, PodIntake
from gpushare.deviceplugin.metrics import PluginMetrics
from gpushare.model.facts import NodeFacts

_STALE_S: Final = 60.0
"""An outage that is shorter is nothing to be told."""


class Watches:
    """Follows one node. ``see_node`` gets what the API shows of it."""

    def __init__(
        self,
        client: KubeClient,
        node: str,
        household: Household,
        metrics: PluginMetrics,
        see_node: Callable[[NodeFacts], None],
    ) -> None:
        self.pods = PodIntake(household)
        self.node = NodeIntake(see_node)
        self.pod_follower = Follower(client, residents_of(node), self.pods)
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
