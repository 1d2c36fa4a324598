"""The node agent's books against a kubelet, a scheduler and pods that do what they like.

The model keeps what every container was really told, by the answers alone. Pods are admitted in any
order, twins are taken for each other, some come without a card, kubelet and agent forget.
"""

from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from gpushare.deviceplugin.decision import decide, with_grant
from gpushare.deviceplugin.ids import long_id, preferred
from gpushare.deviceplugin.interface import Refused
from gpushare.deviceplugin.joining import Served, join, retained
from gpushare.deviceplugin.matching import Call, match
from gpushare.deviceplugin.published import assigned_text
from gpushare.deviceplugin.tenancy import Tenancy, choose
from gpushare.model.annotations import parse_assigned
from gpushare.model.demand import ContainerDemand, Demand, Kind, demand_of
from gpushare.model.objects import Node
from gpushare.scheduling.book import Book, Reservation, make_book, shares_of
from gpushare.scheduling.fitting import Refusal, Seeker, place
from tests.support.builders import sound
from tests.support.tenants import NODE, cards, tenant, with_tenants

SIZES = (8, 6)


@dataclass
class Pod:
    """A pod as the kubelet runs it: what each container was told, card UUID → units."""

    uid: str
    demand: Demand
    told: dict[str, dict[str, int]] = field(default_factory=dict)
    ids: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def waiting(self) -> list[ContainerDemand]:
        return [c for c in self.demand.containers if c.mem and c.name not in self.told]


@st.composite
def demands(draw: st.DrawFn) -> Demand:
    kinds = draw(
        st.sampled_from(([Kind.MAIN], [Kind.MAIN] * 2, [Kind.INIT, Kind.MAIN], [Kind.SIDECAR, Kind.MAIN]))
    )
    count = draw(st.sampled_from((1, 1, 1, 2)))
    return sound(
        demand_of(
            [ContainerDemand(f"c{i}", kind, draw(st.integers(1, 3)) * count) for i, kind in enumerate(kinds)],
            str(count),
        )
    )


class NodeOfPods:
    """One node: an agent that sees only what a real one sees, and the truth beside it."""

    def __init__(self) -> None:
        self.agent = Tenancy(NODE, cards(*SIZES))
        self.pods: dict[str, Pod] = {}
        self.free = {long_id(card, n) for card in self.agent.cards for n in range(card.units)}
        self.clock = 0

    def bind(self, data: st.DataObject) -> None:
        """A pod comes to the node: by the extender where it finds a place, or past it."""
        demand = data.draw(demands())
        how = data.draw(st.sampled_from(("extender", "extender", "nobody", "forged")))
        self.clock += 1
        uid = f"pod-{self.clock}"
        places: tuple[int, ...] | None = None
        if how == "extender":
            found = place(self.extenders_book(), Seeker(uid, demand))
            if isinstance(found, Refusal):
                return
            places = tuple(index for index, _ in found)
        elif how == "forged":
            places = tuple(data.draw(st.permutations((0, 1)))[: demand.cards])
        if demand.mem > len(self.free):
            return
        newcomer = tenant(uid, demand, card=places, bound=self.clock)
        if how == "forged":
            newcomer = replace(newcomer, pod=replace(newcomer.pod, seal=None))
        self.pods[uid] = Pod(uid, demand)
        self.agent = with_tenants(self.agent, newcomer)

    def allocate(self, data: st.DataObject) -> None:
        """The kubelet admits whichever pod it likes; a pod under way goes on first."""
        waiting = [pod for pod in self.pods.values() if pod.waiting]
        if not waiting:
            return
        pod = data.draw(st.sampled_from([pod for pod in waiting if pod.told] or waiting))
        container = pod.waiting[0]
        self.agent = join(self.agent, self.checkpoint())
        done = frozenset(entry.key for entry in self.checkpoint())
        ids = self.kubelets_ids(container.mem, done, random_ids=data.draw(st.booleans()))
        found = match(self.agent, Call(container.mem, done=done)) if ids else None
        if not ids or found is None:
            self.gone(pod)
            return
        decision = decide(self.agent, found, ids, self.clock)
        if isinstance(decision, Refused):
            self.gone(pod)
            return
        self.agent = with_grant(self.agent, decision.grant)
        assert sum(units for _, units in decision.grant.cards) == container.mem
        if not pod.told and data.draw(st.integers(0, 4)) == 4:
            # The answer is lost on its way: the kubelet fails the pod.
            self.gone(pod)
            return
        pod.told[container.name] = dict(decision.grant.cards)
        pod.ids[container.name] = ids
        self.free -= set(ids)

    def delete(self, data: st.DataObject) -> None:
        if self.pods:
            self.gone(data.draw(st.sampled_from(list(self.pods.values()))))

    def restart_agent(self, _: st.DataObject) -> None:
        """What is left is the record and the API."""
        self.agent = Tenancy(NODE, self.agent.cards, tenants=self.agent.tenants, grants=self.agent.grants)

    def look(self, _: st.DataObject) -> None:
        """The agent looks at the checkpoint, and lets go of who is gone."""
        self.agent = retained(join(self.agent, self.checkpoint()), frozenset())

    def gone(self, pod: Pod) -> None:
        del self.pods[pod.uid]
        for ids in pod.ids.values():
            self.free |= set(ids)
        tenants = {uid: t for uid, t in self.agent.tenants.items() if uid != pod.uid}
        self.agent = retained(replace(join(self.agent, self.checkpoint()), tenants=tenants), frozenset())

    def checkpoint(self) -> list[Served]:
        return [
            Served(pod.uid, name, min(ids), len(ids))
            for pod in self.pods.values()
            for name, ids in pod.ids.items()
        ]

    def kubelets_ids(
        self, amount: int, done: frozenset[tuple[str, str]], *, random_ids: bool
    ) -> tuple[str, ...]:
        available = sorted(self.free)
        if len(available) < amount:
            return ()
        if random_ids:
            return tuple(available[-amount:])
        found = match(self.agent, Call(amount, done=done))
        wanted = (
            choose(self.agent, found.tenant, found.tenant.demand) if found and found.tenant.demand else ()
        )
        wish = () if isinstance(wanted, Refusal) else wanted
        return tuple(preferred(available, (), amount, wish, self.agent.cards))

    def extenders_view(self) -> Node:
        word = parse_assigned(assigned_text(self.agent))
        assert word is not None
        return Node(NODE, self.agent.cards, assigned=word)

    def extenders_book(self) -> Book:
        """The extender believes sealed claims, and the agent above them."""
        reservations = {
            uid: Reservation(uid, uid, t.demand, t.claim if t.pod.seal else None)
            for uid, t in self.agent.tenants.items()
            if t.demand
        }
        return make_book(NODE, self.extenders_view(), frozenset(), reservations, {})

    def no_card_is_over_its_size(self) -> None:
        used = dict.fromkeys((card.uuid for card in self.agent.cards), 0)
        for pod in self.pods.values():
            sums: dict[str, int] = {}
            for told in pod.told.values():
                for uuid, units in told.items():
                    sums[uuid] = sums.get(uuid, 0) + units
            for uuid, units in sums.items():
                used[uuid] += min(units, pod.demand.per_card.mem)
        assert all(used[card.uuid] <= card.units for card in self.agent.cards), used

    def a_pod_is_on_as_many_cards_as_it_asked_for_and_on_no_other(self) -> None:
        for pod in self.pods.values():
            places = {frozenset(told) for told in pod.told.values()}
            assert len(places) <= 1 or len({len(p) for p in places}) > 1

    def once_joined_the_agent_knows_who_got_what(self) -> None:
        joined = join(self.agent, self.checkpoint())
        for pod in self.pods.values():
            for name, told in pod.told.items():
                assert dict(joined.grants[pod.uid, name].cards) == told

    def the_extender_reads_the_truth_or_nothing(self) -> None:
        """A pod lies where it is, or on every card; never only where it is not."""
        self.agent = join(self.agent, self.checkpoint())
        node = self.extenders_view()
        for pod in self.pods.values():
            t = self.agent.tenants[pod.uid]
            if not pod.told or t.demand is None:
                continue
            seen = shares_of(Reservation(pod.uid, pod.uid, t.demand, t.claim if t.pod.seal else None), node)
            told = {uuid for cards_ in pod.told.values() for uuid in cards_}
            assert seen is None or {f"GPU-{index}" for index, _ in seen} == told

    def check(self) -> None:
        self.no_card_is_over_its_size()
        self.a_pod_is_on_as_many_cards_as_it_asked_for_and_on_no_other()
        self.once_joined_the_agent_knows_who_got_what()
        self.the_extender_reads_the_truth_or_nothing()


@given(data=st.data())
def test_whatever_comes_no_card_is_over_its_size_and_the_books_tell_the_truth(data: st.DataObject) -> None:
    node = NodeOfPods()
    steps = (*[node.bind] * 4, *[node.allocate] * 5, node.delete, node.delete, node.look, node.restart_agent)
    for step in data.draw(st.lists(st.sampled_from(range(len(steps))), min_size=20, max_size=60)):
        steps[step](data)
        node.check()
