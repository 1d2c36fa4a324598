"""Builders of demands, GPUs, nodes, pods and ledgers, with a default for each field.

A node is described by its GPU sizes, ``node("n", 14, 14)``; a pod by its request and its GPU,
``pod("a", 4, at="n", card=0)``. A pod on a node without ``card`` has an unknown GPU.
"""

from gpushare.model.annotations import Shares, even_shares
from gpushare.model.cards import Card
from gpushare.model.demand import ContainerDemand, ContainerKind, Demand, Malformed, demand_of
from gpushare.model.disruption import DisruptionBudget
from gpushare.model.modes import Mode
from gpushare.model.objects import Node, Pod
from gpushare.model.selector import Selector, Term
from gpushare.scheduling.events import NodeObserved, PodObserved, Reserved
from gpushare.scheduling.filtering import score_steps
from gpushare.scheduling.fitting import PodRequest, Rejection, place
from gpushare.scheduling.ledger import EMPTY_LEDGER, Ledger, apply
from tests.support.steps import finished

T4 = 14
"""Units of the T4 in the ACK documentation: 15079 MiB, in whole GiB."""
V16 = 16276
"""MiB of the 16 GiB GPUs in the figures of the ACK documentation."""
USER = 1000
"""Default user ID of the pods."""


def main(mem: int, core: int = 0, name: str = "main", *, user: int | None = USER) -> ContainerDemand:
    return ContainerDemand(name, ContainerKind.MAIN, mem, core, user)


def sidecar(mem: int, core: int = 0, name: str = "side") -> ContainerDemand:
    return ContainerDemand(name, ContainerKind.SIDECAR, mem, core)


def init(mem: int, core: int = 0, name: str = "init") -> ContainerDemand:
    return ContainerDemand(name, ContainerKind.INIT, mem, core)


def sound(found: Demand | Malformed) -> Demand:
    """The demand; fails if it is malformed."""
    assert isinstance(found, Demand), found.problem
    return found


def demand(mem: int = 4, *, core: int = 0, cards: int = 1, user: int | None = USER) -> Demand:
    """The demand of a pod with one container."""
    return sound(demand_of([main(mem, core, user=user)], str(cards)))


def node(  # noqa: PLR0913 - as for a pod
    name: str,
    *units: int,
    mode: Mode = Mode.SHARE,
    placement: str | None = None,
    closed: str | None = None,
    assigned: dict[str, dict[int, int]] | None = None,
    broken: tuple[int, ...] = (),
    multi_user: bool = False,
    pods_per_card: int = 0,
    whole: dict[int, tuple[str, ...]] | None = None,
) -> Node:
    """A node with one GPU per size; ``broken`` are the indices of the unhealthy ones.

    ``whole`` are the whole-GPU pods by index of their GPU.
    """
    full = whole or {}
    cards = tuple(
        Card(index, size, healthy=index not in {*broken, *full}, whole_gpu_pods=full.get(index, ()))
        for index, size in enumerate(units)
    )
    return Node(name, cards, mode, placement, closed, assigned or {}, multi_user, pods_per_card)


def pod(  # noqa: PLR0913 - each argument is one fact about a pod, and a test names the few it needs
    uid: str,
    asks: int | Demand | Malformed = 4,
    *,
    at: str | None = None,
    card: int | tuple[int, ...] | None = None,
    name: str | None = None,
    priority: int = 0,
    terminating: bool = False,
    finished: bool = False,
    nominated: str | None = None,
    placement: str | None = None,
    mode: Mode | None = None,
    labels: dict[str, str] | None = None,
    created: str = "",
) -> Pod:
    """A pod: pending, or on the node ``at``; ``card`` and ``mode`` are the values of its annotations."""
    wanted = demand(asks) if isinstance(asks, int) else asks
    cards = (card,) if isinstance(card, int) else card
    claim = even_shares(wanted, cards) if cards is not None and isinstance(wanted, Demand) else None
    return Pod(
        uid,
        "default",
        name or uid,
        wanted,
        node=at,
        finished=finished,
        terminating=terminating,
        priority=priority,
        nominated=nominated,
        claim=claim,
        placement=placement,
        created=created,
        mode=mode,
        labels=tuple((labels or {}).items()),
    )


def budget(
    name: str = "budget", *, allowed: int = 0, namespace: str = "default", **labels: str
) -> DisruptionBudget:
    """A disruption budget of the pods with these labels."""
    terms = tuple(Term(key, frozenset({value})) for key, value in labels.items())
    return DisruptionBudget(namespace, name, Selector(terms), allowed)


def unmanaged(uid: str, *, at: str | None = None) -> Pod:
    """A pod without gpushare resources."""
    return Pod(uid, "default", uid, sound(demand_of(())), node=at)


def pod_request(
    asks: int | Demand = 4, *, uid: str = "seeker", priority: int = 0, placement: str | None = None
) -> PodRequest:
    """A pod that is being placed."""
    return PodRequest(uid, demand(asks) if isinstance(asks, int) else asks, priority, placement)


def cluster(*things: Node | Pod) -> Ledger:
    """A ledger after these objects, in that order."""
    return seen(EMPTY_LEDGER, *things)


def seen(ledger: Ledger, *things: Node | Pod) -> Ledger:
    """The ledger after these objects too."""
    return apply(
        ledger, *(NodeObserved(thing) if isinstance(thing, Node) else PodObserved(thing) for thing in things)
    )


def decided(ledger: Ledger, who: Pod, name: str) -> Shares:
    """The GPUs that bind would choose on that node; fails if it rejects the pod."""
    shares = tried(ledger, who, name)
    assert not isinstance(shares, Rejection), shares.text
    return shares


def tried(ledger: Ledger, who: Pod, name: str) -> Shares | Rejection:
    """The decision of bind for that node."""
    assert isinstance(who.demand, Demand)
    return place(ledger.books[name], PodRequest(who.uid, who.demand, who.priority, who.placement))


def reserved(ledger: Ledger, who: Pod, name: str) -> Ledger:
    """The ledger after a bind to that node."""
    assert isinstance(who.demand, Demand)
    return apply(ledger, Reserved(who, who.demand, name, decided(ledger, who, name)))


def score(ledger: Ledger, who: PodRequest, name: str) -> int:
    """The score of one node."""
    return finished(score_steps(ledger, who, (name,)))[name]


def free(ledger: Ledger, name: str) -> list[int]:
    """Free units of each GPU of a node."""
    return [usage.free.mem for usage in ledger.books[name].usages]


def free_core(ledger: Ledger, name: str) -> list[int]:
    """Free core percent of each GPU of a node."""
    return [usage.free.core for usage in ledger.books[name].usages]
