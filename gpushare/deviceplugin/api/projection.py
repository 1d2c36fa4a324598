"""What the household means for others: wishes to the publisher, events on pods and node, gauges.

Nothing is decided here, and nobody waits for it.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import structlog

from gpushare.contract import (
    EVENT_ASSIGNED,
    EVENT_CARD_FREE,
    EVENT_CARD_IN_USE,
    EVENT_REFUSED,
    RESOURCE_MEM,
)
from gpushare.deviceplugin.api.writer import ApiWriter
from gpushare.deviceplugin.core.allocations import Allocation, Key, held
from gpushare.deviceplugin.core.node_patch import desired_node
from gpushare.deviceplugin.core.pod_patches import assigned_text, pod_patches
from gpushare.deviceplugin.core.response import ResponseSettings, sets_visible_devices
from gpushare.deviceplugin.metrics import PluginMetrics
from gpushare.deviceplugin.node.state import NodeState
from gpushare.model.own_node import GpuPod
from gpushare.ports import Event, node_event, pod_event

log = structlog.get_logger()

_PAUSE_S: Final = 0.01


class Projector:
    """Tells of one household. ``style`` is that of the answers, ``tell`` takes events."""

    def __init__(
        self,
        node_state: NodeState,
        publisher: ApiWriter,
        metrics: PluginMetrics,
        style: ResponseSettings,
        *,
        tell: Callable[[Event], None],
    ) -> None:
        self._node_state = node_state
        self._publisher = publisher
        self._metrics = metrics
        self._style = style
        self._tell = tell
        self._confirmed: Mapping[Key, Allocation] = {g.key: g for g in _confirmed(node_state)}
        self._notices: tuple[str, ...] = ()
        self._in_use: frozenset[int] = frozenset()

    async def run(self) -> None:
        """Tell of every change, until cancelled; what happens within a moment is told together."""
        told = -1
        while True:
            if told == self._node_state.generation:
                await self._node_state.changed()
            told = self._node_state.generation
            self.tell()
            await asyncio.sleep(_PAUSE_S)

    def tell(self) -> None:
        """Tell of the household as it is."""
        self._publish()
        self._tell_whole_gpus()
        before, self._confirmed = self._confirmed, {g.key: g for g in _confirmed(self._node_state)}
        for key, grant in self._confirmed.items():
            gpu_pod = self._node_state.allocations.gpu_pods.get(grant.uid)
            if gpu_pod and not (key in before and before[key].cards == grant.cards):
                self._tell_move(gpu_pod, grant)
                self._tell_mistake(gpu_pod, grant)
                self._tell_bypass(gpu_pod, grant)

    def _publish(self) -> None:
        house = self._node_state
        shared_gpus = house.advertised
        self._publisher.set_node(desired_node(shared_gpus, assigned_text(house.allocations)))
        self._publisher.set_pods(pod_patches(house.allocations))
        if shared_gpus:
            self._publisher.set_unhealthy(shared_gpus.closed)
        here = house.allocations.by_pod.keys() & house.allocations.gpu_pods.keys()
        self._metrics.pods.labels("running").set(len(here))
        self._metrics.pods.labels("leaving").set(len(house.allocations.by_pod) - len(here))

    def _tell_whole_gpus(self) -> None:
        """Cards are full, or full no longer, because of what another plugin gave out."""
        before, self._notices = self._notices, self._node_state.notices
        for text in self._notices:
            if text not in before:
                self._tell_card(EVENT_CARD_IN_USE, text)
        cards = self._node_state.advertised.cards if self._node_state.advertised else ()
        was, self._in_use = self._in_use, frozenset(card.index for card in cards if card.whole_gpu_pods)
        for card in cards:
            if card.index in was - self._in_use:
                self._tell_card(EVENT_CARD_FREE, f"card {card.index} is no longer in use as a whole GPU")
        self._metrics.cards.labels("whole").set(len(self._in_use))

    def _tell_card(self, reason: str, text: str) -> None:
        log.warning("card_in_use" if reason == EVENT_CARD_IN_USE else "card_free", text=text)
        self._tell(node_event(self._node_state.allocations.node, reason, text))

    def _tell_move(self, gpu_pod: GpuPod, grant: Allocation) -> None:
        """A pod got another card than it was promised."""
        shares = held(self._node_state.allocations, grant.uid)
        if not grant.astray or not shares or shares == gpu_pod.claim:
            return
        cards = ", ".join(f"{share.mem} on card {index}" for index, share in shares)
        promised = ", ".join(f"card {index}" for index, _ in gpu_pod.claim or ()) or "no card"
        self._metrics.corrected.labels("moved" if gpu_pod.claim else "unplaced").inc()
        log.info("pod_corrected", pod=grant.pod, cards=cards, promised=promised)
        text = f"holds {cards}; its annotations named {promised}"
        self._tell(pod_event(gpu_pod.pod, EVENT_ASSIGNED, text))

    def _tell_mistake(self, gpu_pod: GpuPod, grant: Allocation) -> None:
        """A container has the answer that was meant for another pod, of another size."""
        asked = gpu_pod.demand.mem if gpu_pod.demand else 0
        if grant.total in (0, asked):
            return
        self._metrics.corrected.labels("mistaken").inc()
        text = (
            f"container {grant.container} was told {grant.total} {RESOURCE_MEM} for its whole pod, which "
            f"asks for {asked}: the kubelet asked for several pods at a time; make the pod anew to correct it"
        )
        log.warning("pod_mistaken", pod=grant.pod, text=text)
        self._tell(pod_event(gpu_pod.pod, EVENT_ASSIGNED, text, warning=True))

    def _tell_bypass(self, gpu_pod: GpuPod, grant: Allocation) -> None:
        """A container that would have been refused has got the answer that was meant for its twin."""
        refused = sets_visible_devices(gpu_pod, grant.container, self._style)
        if refused and grant.at_ns:
            log.warning(
                "allocate_refused", resource=RESOURCE_MEM, reason=refused.reason, text=refused.text, late=True
            )
            self._tell(pod_event(gpu_pod.pod, EVENT_REFUSED, refused.text, warning=True))


def _confirmed(node_state: NodeState) -> Iterator[Allocation]:
    """What the kubelet has confirmed to be so."""
    return (grant for grant in node_state.allocations.grants.values() if grant.sure)
