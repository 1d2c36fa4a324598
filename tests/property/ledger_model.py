"""A naive model of the ledger: facts about pods and nodes, from which everything is recomputed.

Written from the design documents, not from the ledger's code; the ledger must agree with it.
"""

from dataclasses import dataclass, field, replace

from gpushare.model.annotations import Shares
from gpushare.model.demand import Demand
from gpushare.model.modes import Mode
from gpushare.model.objects import Node, Pod


@dataclass(frozen=True)
class NaiveReservation:
    """A pod that reserves units on a node."""

    node: str
    demand: Demand
    claim: Shares | None
    confirmed: bool
    mode: Mode | None = None


@dataclass
class NaiveLedger:
    """The known facts. ``nodes`` are those that exist now."""

    nodes: dict[str, Node] = field(default_factory=dict)
    unhealthy: dict[str, frozenset[int]] = field(default_factory=dict)
    reserved: dict[str, NaiveReservation] = field(default_factory=dict)
    waiting: dict[str, str] = field(default_factory=dict)

    def sees(self, pod: Pod) -> None:
        """The API shows a pod with a valid demand."""
        assert isinstance(pod.demand, Demand)
        self.waiting.pop(pod.uid, None)
        before = self.reserved.get(pod.uid)
        if pod.finished:
            self.reserved.pop(pod.uid, None)
        elif pod.node is None:
            if pod.nominated is not None and not pod.terminating:
                self.waiting[pod.uid] = pod.nominated
        elif before is None or before.node != pod.node:
            self.reserved[pod.uid] = NaiveReservation(
                pod.node, pod.demand, pod.claim, confirmed=True, mode=pod.mode
            )
        elif not before.confirmed:
            self.reserved[pod.uid] = replace(before, claim=pod.claim, confirmed=True, mode=pod.mode)

    def reserves(self, uid: str, reserved: NaiveReservation) -> None:
        """Bind has decided."""
        self.reserved[uid] = reserved

    def bind_accepted(self, uid: str) -> None:
        """The API has accepted the bind."""
        if uid in self.reserved:
            self.reserved[uid] = replace(self.reserved[uid], confirmed=True)

    def bind_failed(self, uid: str) -> None:
        """The API has certainly not carried out the bind."""
        if uid in self.reserved and not self.reserved[uid].confirmed:
            del self.reserved[uid]

    def loses(self, uid: str) -> None:
        """The pod is gone."""
        self.reserved.pop(uid, None)
        self.waiting.pop(uid, None)

    def lies_on(self, uid: str) -> set[int]:
        """The GPUs that a pod counts against: node annotation first, then the claim; all of them if in doubt.

        A pod that requests zero units gets no GPU, so it counts on none.
        """
        if self.reserved[uid].demand.mem == 0:
            return set()
        gpus, _ = self.parts_of(uid)
        return gpus

    def parts_of(self, uid: str) -> tuple[set[int], int]:
        """The GPUs of a pod, and the number of parts of its demand: that of the agent outranks the label.

        If in doubt, all units may be on one GPU, whatever the label says.
        """
        reserved = self.reserved[uid]
        node = self.nodes[reserved.node]
        everywhere = {card.index for card in node.cards}
        parts = reserved.demand.cards
        if uid in node.assigned:
            shares = dict(node.assigned[uid])
            parts = len(shares)
        else:
            shares = {index: share.mem for index, share in reserved.claim or ()}
        sound = (
            len(shares) == parts > 0
            and shares.keys() <= everywhere
            and {each * parts for each in shares.values()} == {reserved.demand.mem}
        )
        return (set(shares), parts) if sound else (everywhere, 1)

    def free(self, name: str, index: int) -> tuple[int, int]:
        """Units and percent of compute that a card has left; less than nothing if it is over-committed."""
        node = self.nodes[name]
        card = next(card for card in node.cards if card.index == index)
        mem = 0 if card.whole_gpu_pods else card.units
        core = 100 if node.mode in ("core_mem", "mps") and not card.whole_gpu_pods else 0
        for uid, reserved in self.reserved.items():
            if reserved.node == name and index in self.lies_on(uid):
                _, parts = self.parts_of(uid)
                mem -= reserved.demand.mem // parts
                core -= reserved.demand.core // parts
        return mem, core

    def on_card(self, name: str, index: int) -> list[NaiveReservation]:
        """The pods that count on a card of a node that is there."""
        return [h for uid, h in self.reserved.items() if h.node == name and index in self.lies_on(uid)]

    def is_open(self, name: str, index: int) -> bool:
        """Whether a GPU takes pods: healthy, not over-committed, of one mode, below the maximum of pods.

        A card that a pod has as a whole GPU takes none.
        """
        node = self.nodes[name]
        card = next(card for card in node.cards if card.index == index)
        healthy = card.healthy and not card.whole_gpu_pods
        listed = index in self.unhealthy.get(name, ())
        here = self.on_card(name, index)
        alike = {reserved.mode for reserved in here} <= {None, node.mode}
        more = node.pods_per_card == 0 or len(here) < node.pods_per_card
        return healthy and not listed and alike and more and min(self.free(name, index)) >= 0
