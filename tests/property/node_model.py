"""A node with arbitrary actions of kubelet, scheduler and pods, and the agent's state of it.

The model derives every allocation from the responses alone. The agent sees the same as a real
one: the API, the record, and the kubelet's checkpoint where there is one.
"""

from collections import Counter
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from gpushare.deviceplugin.core.allocations import (
    AllocateSnapshot,
    Allocation,
    Allocations,
    Key,
    choose,
    core_fits,
)
from gpushare.deviceplugin.core.decision import Capabilities, decide, with_allocation
from gpushare.deviceplugin.core.device_ids import preferred
from gpushare.deviceplugin.core.interface import Rejected
from gpushare.deviceplugin.core.matching import AllocateCall, match, match_core
from gpushare.deviceplugin.core.pod_patches import assigned_text
from gpushare.deviceplugin.core.reconcile import (
    ServedContainer,
    join,
    marked,
    remembered,
    retained,
    stale_entries,
)
from gpushare.model.annotations import parse_assigned
from gpushare.model.cards import Card
from gpushare.model.demand import ContainerDemand, ContainerKind, Demand, demand_of
from gpushare.model.devices import long_id
from gpushare.model.modes import Mode
from gpushare.model.objects import Node
from gpushare.scheduling.book import Book, Reservation
from gpushare.scheduling.fitting import PodRequest, Rejection, place
from tests.support.builders.gpu_pods import NODE, cards, gpu_pod, with_gpu_pods
from tests.support.builders.scheduling import sound

SIZES = (8, 6)
CAPABLE = Capabilities(isolation=True, library="v1")


@dataclass
class Pod:
    """A pod as the kubelet runs it: the allocation of each container, GPU UUID → units."""

    uid: str
    demand: Demand
    allocated: dict[str, dict[str, int]] = field(default_factory=dict)
    ids: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def waiting(self) -> list[ContainerDemand]:
        return [c for c in self.demand.containers if c.mem and c.name not in self.allocated]

    @property
    def used(self) -> dict[str, tuple[int, int]]:
        """GPU UUID → peak units and percent of its containers."""
        mem, core = Counter[str](), Counter[str]()
        asked = {c.name: c.core for c in self.demand.containers}
        for name, allocated in self.allocated.items():
            for uuid, units in allocated.items():
                mem[uuid] += units
                core[uuid] += asked[name] // len(allocated)
        most = self.demand.per_card
        return {uuid: (min(mem[uuid], most.mem), min(core[uuid], most.core)) for uuid in mem}


@st.composite
def demands(draw: st.DrawFn) -> Demand:
    kinds = draw(
        st.sampled_from(
            (
                [ContainerKind.MAIN],
                [ContainerKind.MAIN] * 2,
                [ContainerKind.INIT, ContainerKind.MAIN],
                [ContainerKind.SIDECAR, ContainerKind.MAIN],
            )
        )
    )
    count = draw(st.sampled_from((1, 1, 1, 2)))
    core = st.sampled_from((0, 20, 50, 80))
    containers = [
        ContainerDemand(f"c{i}", kind, draw(st.integers(1, 2)) * count, draw(core) // len(kinds) * count)
        for i, kind in enumerate(kinds)
    ]
    return sound(demand_of(containers, str(count)))


class NodeModel:
    """One node: an agent with the information of a real one, and the true state beside it."""

    def __init__(self) -> None:
        self.cards = cards(*SIZES)
        self.agent = Allocations(NODE, self.cards, Mode.CORE_MEM)
        self.pods: dict[str, Pod] = {}
        self.rejected: frozenset[Key] = frozenset()
        self.removed: list[ServedContainer] = []
        self.stale: frozenset[ServedContainer] = frozenset()
        self.readable = True
        self.clock = 0

    # --- actions ----------------------------------------------------------------------------

    def bind(self, data: st.DataObject) -> None:
        """A pod is bound to the node: by the extender if it fits, or bypassing the extender."""
        demand = data.draw(demands())
        how = data.draw(st.sampled_from(("extender", "extender", "unplaced", "forged")))
        self.clock += 1
        uid = f"pod-{self.clock}"
        places: tuple[int, ...] | None = None
        if how == "extender":
            found = place(self.extenders_book(), PodRequest(uid, demand))
            if isinstance(found, Rejection):
                return
            places = tuple(index for index, _ in found)
        elif how == "forged":
            places = tuple(data.draw(st.permutations((0, 1)))[: demand.cards])
        newcomer = gpu_pod(uid, demand, card=places, bound=self.clock)
        if how == "forged":
            newcomer = replace(newcomer, pod=replace(newcomer.pod, seal=None))
        self.pods[uid] = Pod(uid, demand)
        self.agent = with_gpu_pods(self.agent, newcomer)

    def allocate(self, data: st.DataObject) -> None:
        """The kubelet admits any pod; a pod under admission continues first."""
        waiting = [pod for pod in self.pods.values() if pod.waiting]
        if not waiting:
            return
        pod = data.draw(st.sampled_from([pod for pod in waiting if pod.allocated] or waiting))
        container = pod.waiting[0]
        self.join()
        core_first = container.core if data.draw(st.booleans()) else None
        ids = self.kubelets_ids(container.mem, random_ids=data.draw(st.booleans()))
        allocation = self.asked(container, ids, core_first) if ids else None
        if allocation is None:
            self.failed(pod, lingers=data.draw(st.booleans()))
            return
        if not pod.allocated and data.draw(st.integers(0, 4)) == 4:
            # The response is lost: the kubelet fails the pod.
            self.failed(pod, lingers=False)
            return
        if data.draw(st.booleans()):
            # The agent reads the checkpoint before the kubelet has written this call.
            self.look(data)
        pod.allocated[container.name] = dict(allocation.cards)
        pod.ids[container.name] = ids
        self.removed = []

    def asked(
        self, container: ContainerDemand, ids: tuple[str, ...], core_first: int | None
    ) -> Allocation | None:
        """Both calls for a container; None if one of them is rejected."""
        snapshot = self.snapshot()
        self.clock += 1
        if core_first and match_core(snapshot, core_first) is None:
            return None
        call = AllocateCall(container.mem, core=core_first or None, refused=self.rejected)
        found = match(snapshot, call)
        if found is None:
            return None
        decision = decide(self.agent, found, ids, CAPABLE, self.clock)
        if isinstance(decision, Rejected):
            self.rejected |= {(found.gpu_pod.uid, found.container.name)}
            return None
        self.agent = with_allocation(self.agent, decision.allocation, min(ids))
        assert sum(units for _, units in decision.allocation.cards) == container.mem
        late = container.core and not core_first
        return (
            None
            if late and not core_fits(self.agent, decision.allocation, container.core)
            else decision.allocation
        )

    def delete(self, data: st.DataObject) -> None:
        """Any pod is deleted, even one that has failed and is still in the API."""
        if self.agent.gpu_pods:
            self.gone(data.draw(st.sampled_from(sorted(self.agent.gpu_pods))))

    def restart_agent(self, _: st.DataObject) -> None:
        """Only the record and the API remain."""
        there = self.agent
        self.rejected = frozenset()
        self.stale = frozenset()
        self.agent = Allocations(
            NODE, there.cards, there.mode, gpu_pods=there.gpu_pods, by_container=there.by_container
        )

    def look(self, _: st.DataObject) -> None:
        """The agent reads the checkpoint and drops deleted pods."""
        self.join()
        self.release()

    def hide_or_show_checkpoint(self, _: st.DataObject) -> None:
        """The agent can no longer read the checkpoint, or can again."""
        self.readable = not self.readable

    def lose_checkpoint(self, data: st.DataObject) -> None:
        """The kubelet restarts with all units free; pods under admission fail.

        Of the others, some continue. Some with one container wait for a restart, for which the kubelet
        allocates again; those with several may get other GPUs for some of their containers.
        """
        self.readable = True
        self.join()
        for pod in [pod for pod in self.pods.values() if pod.allocated and pod.waiting]:
            self.gone(pod.uid)
        self.removed = []
        for pod in self.pods.values():
            pod.ids.clear()
            if len(pod.demand.containers) == 1 and data.draw(st.booleans()):
                pod.allocated.clear()
            running = frozenset(
                c.name for c in pod.demand.containers if c.kind is not ContainerKind.INIT and pod.allocated
            )
            self.agent = with_gpu_pods(self.agent, replace(self.agent.gpu_pods[pod.uid], running=running))

    def reboot(self, data: st.DataObject) -> None:
        """GPUs disappear or return; pods on a missing one stay in the API for a while."""
        there = data.draw(st.sampled_from((self.cards, self.cards[:1], self.cards[1:])))
        self.agent = marked(replace(self.agent, cards=there))

    # --- state ----------------------------------------------------------------------------

    def failed(self, pod: Pod, *, lingers: bool) -> None:
        """The kubelet has failed a pod, which may stay in the API."""
        if lingers and not pod.allocated:
            del self.pods[pod.uid]
        else:
            self.gone(pod.uid)

    def gone(self, uid: str) -> None:
        self.join()
        self.removed += [entry for entry in self.checkpoint() if entry.uid == uid]
        self.pods.pop(uid, None)
        gpu_pods = {key: t for key, t in self.agent.gpu_pods.items() if key != uid}
        self.agent = replace(self.agent, gpu_pods=gpu_pods)
        self.release()

    def release(self) -> None:
        """The agent drops deleted pods, but not what only the checkpoint can tell the owner of."""
        unconfirmed = {each.uid for each in self.agent.by_container.values() if not each.confirmed}
        self.agent = retained(self.agent, frozenset() if self.readable else frozenset(unconfirmed))
        if self.readable:
            self.stale = stale_entries(self.agent, self.checkpoint(), self.stale)

    def join(self) -> None:
        """The agent joins with the checkpoint, if it can read that."""
        if not self.readable:
            return
        served = self.checkpoint()
        self.agent = join(self.agent, served, self.stale)
        self.stale = stale_entries(self.agent, served, self.stale)

    def snapshot(self) -> AllocateSnapshot:
        if not self.readable:
            return AllocateSnapshot(self.agent, remembered(self.agent), readable=False)
        done = frozenset(entry.key for entry in self.checkpoint() if entry not in self.stale)
        return AllocateSnapshot(self.agent, done)

    def checkpoint(self) -> list[ServedContainer]:
        """The entries of removed pods stay until the kubelet writes its checkpoint after a call."""
        live = [
            ServedContainer(pod.uid, name, min(ids), len(ids), tuple(pod.allocated[name]))
            for pod in self.pods.values()
            for name, ids in pod.ids.items()
        ]
        return [*self.removed, *live]

    def kubelets_ids(self, amount: int, *, random_ids: bool) -> tuple[str, ...]:
        taken = {each for pod in self.pods.values() for ids in pod.ids.values() for each in ids}
        everything = {long_id(card, n) for card in self.agent.cards for n in range(card.units)}
        available = sorted(everything - taken)
        if len(available) < amount:
            return ()
        if random_ids:
            return tuple(available[-amount:])
        found = match(self.snapshot(), AllocateCall(amount, refused=self.rejected))
        wanted = (
            choose(self.agent, found.gpu_pod, found.gpu_pod.demand) if found and found.gpu_pod.demand else ()
        )
        preference = () if isinstance(wanted, Rejection) else wanted
        return tuple(preferred(available, (), amount, preference, self.agent.cards))

    def extenders_view(self) -> Node:
        assigned = parse_assigned(assigned_text(self.agent))
        assert assigned is not None
        return Node(NODE, self.agent.cards, self.agent.mode, assigned=assigned)

    def extenders_book(self) -> Book:
        """The extender trusts sealed annotations, and the node annotation first."""
        reservations = {
            uid: Reservation(uid, uid, t.demand, t.claim if t.pod.seal else None)
            for uid, t in self.agent.gpu_pods.items()
            if t.demand
        }
        return Book(NODE, self.extenders_view(), reservations=reservations)

    def uuid_of(self, index: int) -> str:
        return next(card.uuid for card in self.cards if card.index == index)

    @property
    def lost(self) -> set[str]:
        """The GPUs that are missing."""
        return {card.uuid for card in self.cards} - {card.uuid for card in self.agent.cards}

    def card(self, uuid: str) -> Card:
        return next(card for card in self.cards if card.uuid == uuid)
