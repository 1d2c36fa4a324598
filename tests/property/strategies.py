"""Many small clusters: few GPUs with few units, so that pods compete."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from gpushare.model.demand import ContainerDemand, ContainerKind, Demand, demand_of
from gpushare.model.modes import Mode
from gpushare.model.objects import Node, Pod
from gpushare.scheduling.fitting import PodRequest
from gpushare.scheduling.ledger import Ledger
from tests.support.builders.scheduling import cluster, demand, main, node, pod

NODES = ("n0", "n1")
MODES = (Mode.SHARE, Mode.CGPU, Mode.CORE_MEM, Mode.MPS)
USERS = (1000, 1000, 1000, 2000, None)
PLACEMENTS = (None, "binpack", "spread", "topology")

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def containers(draw: st.DrawFn, amounts: st.SearchStrategy[int]) -> tuple[ContainerDemand, ...]:
    """Init containers and sidecars in any order, then containers."""
    kinds = [
        *draw(st.lists(st.sampled_from((ContainerKind.INIT, ContainerKind.SIDECAR)), max_size=4)),
        *([ContainerKind.MAIN] * draw(st.integers(1, 3))),
    ]
    return tuple(
        ContainerDemand(f"c{i}", kind, draw(amounts), draw(st.sampled_from((0, 0, 10, 20))))
        for i, kind in enumerate(kinds)
    )


@st.composite
def rich_demands(draw: st.DrawFn) -> Demand:
    """Sound demands of every shape: init containers, sidecars, several cards, compute, nothing at all."""
    cards = draw(st.integers(1, 3))
    listed = tuple(
        ContainerDemand(c.name, c.kind, c.mem * cards, c.core * cards if c.mem else 0)
        for c in draw(containers(st.integers(0, 6)))
    )
    found = demand_of(listed, str(cards))
    if not isinstance(found, Demand):  # too much compute in all: only memory then
        found = demand_of([ContainerDemand(c.name, c.kind, c.mem) for c in listed], str(cards))
    assert isinstance(found, Demand)
    return found


@st.composite
def small_demands(draw: st.DrawFn, most: int = 10) -> Demand:
    """One container, mostly one card and memory only."""
    cards = draw(st.sampled_from((1, 1, 1, 2)))
    mem = draw(st.integers(0, most))
    core = draw(st.sampled_from((0, 0, 0, 30, 60))) if mem else 0
    user = draw(st.sampled_from(USERS))
    found = demand_of([main(mem * cards, core * cards, user=user)], str(cards))
    assert isinstance(found, Demand)
    return found


WHOLE_GPUS: tuple[dict[int, tuple[str, ...]], ...] = (
    {},
    {},
    {0: ("default/app",)},
    {1: ("default/app", "default/other")},
)


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    """A node of up to three cards, of which one may be broken and one in use as a whole GPU."""
    sizes = draw(st.lists(st.integers(0, 12), min_size=1, max_size=3))
    return node(
        name,
        *sizes,
        mode=draw(st.sampled_from(MODES)),
        placement=draw(st.sampled_from(PLACEMENTS)),
        closed=draw(st.sampled_from((None, None, None, "label"))),
        broken=draw(st.sampled_from(((), (), (0,)))),
        whole=draw(st.sampled_from(WHOLE_GPUS)),
        multi_user=draw(st.booleans()),
        pods_per_card=draw(st.sampled_from((0, 0, 1, 2))),
    )


@st.composite
def bound_pods(draw: st.DrawFn, uid: str, names: tuple[str, ...]) -> Pod:
    """A pod on a node; its GPUs are known, unknown or wrong."""
    wanted = draw(small_demands())
    cards = tuple(range(wanted.cards)) if draw(st.booleans()) else tuple(range(1, 1 + wanted.cards))
    return pod(
        uid,
        wanted,
        at=draw(st.sampled_from(names)),
        card=draw(st.sampled_from((cards, cards, None))),
        priority=draw(st.integers(-1, 3)),
        terminating=draw(st.sampled_from((False, False, True))),
        mode=draw(st.sampled_from((None, *MODES))),
    )


@st.composite
def pending_pods(draw: st.DrawFn, uid: str, names: tuple[str, ...]) -> Pod:
    """A pod that has been nominated."""
    return pod(
        uid, draw(small_demands()), nominated=draw(st.sampled_from(names)), priority=draw(st.integers(0, 3))
    )


def several(
    make: Callable[[str], st.SearchStrategy[Pod]], prefix: str, most: int, least: int = 0
) -> st.SearchStrategy[list[Pod]]:
    """So many pods with distinct UIDs."""
    return st.integers(least, most).flatmap(
        lambda count: st.tuples(*(make(f"{prefix}{i}") for i in range(count))).map(list)
    )


@st.composite
def ledgers(draw: st.DrawFn, nominees: int = 2) -> Ledger:
    """A cluster in any state, valid or not."""
    return cluster(
        *(draw(nodes(name)) for name in NODES),
        *draw(several(lambda uid: bound_pods(uid, NODES), "p", 6)),
        *draw(several(lambda uid: pending_pods(uid, NODES), "q", nominees)),
    )


@st.composite
def pod_requests(draw: st.DrawFn) -> PodRequest:
    """A pod that is being placed, sometimes one of the nominated ones."""
    return PodRequest(
        draw(st.sampled_from(("seeker", "seeker", "q0"))),
        draw(small_demands().filter(lambda demand: not demand.empty)),
        draw(st.integers(0, 4)),
        draw(st.sampled_from(PLACEMENTS)),
    )


@st.composite
def crowding_pods(draw: st.DrawFn, uid: str, cards: tuple[int, ...]) -> Pod:
    """A pod on one card of the node, on two or all of them, or on one of which nothing is known."""
    card = draw(st.sampled_from((*((index,) for index in cards), cards[-2:], cards, None)))
    width = len(card or (0,))
    return pod(
        uid,
        demand(draw(st.integers(1, 8)) * width, cards=width, user=draw(st.sampled_from(USERS))),
        at="n0",
        card=card,
        priority=draw(st.integers(-2, 3)),
        terminating=draw(st.sampled_from((False, False, False, True))),
        mode=draw(st.sampled_from((None, Mode.CGPU, Mode.CGPU, Mode.MPS, Mode.MPS))),
    )


@st.composite
def crowded(draw: st.DrawFn, nominees: int = 1) -> Ledger:
    """One schedulable node with GPUs that are mostly reserved by pods of every priority."""
    sizes = draw(st.lists(st.integers(6, 12), min_size=1, max_size=3))
    cards = tuple(range(len(sizes)))
    return cluster(
        node(
            "n0",
            *sizes,
            mode=draw(st.sampled_from((Mode.SHARE, Mode.CGPU, Mode.MPS))),
            placement=draw(st.sampled_from(PLACEMENTS)),
            pods_per_card=draw(st.sampled_from((0, 0, 2))),
        ),
        *draw(several(lambda uid: crowding_pods(uid, cards), "p", 6, least=3)),
        *draw(several(lambda uid: pending_pods(uid, ("n0",)), "q", nominees)),
    )


@st.composite
def preemptors(draw: st.DrawFn) -> PodRequest:
    """A pod of some priority that needs much of a card, or of two."""
    cards = draw(st.sampled_from((1, 1, 1, 2)))
    return PodRequest(
        "seeker", demand(draw(st.integers(4, 12)) * cards, cards=cards), draw(st.integers(1, 4))
    )


@st.composite
def waited_for(draw: st.DrawFn) -> Ledger:
    """One open node, some of it being cleared, and pods that wait for that."""
    sizes = draw(st.lists(st.integers(6, 12), min_size=1, max_size=3))
    going = [
        pod(f"p{card}", draw(st.integers(1, size)), at="n0", card=card, terminating=True)
        for card, size in enumerate(sizes)
        if draw(st.booleans())
    ]
    waiting = [
        pod(f"q{i}", draw(st.integers(1, 12)), nominated="n0", priority=draw(st.integers(1, 3)))
        for i in range(draw(st.integers(1, 2)))
    ]
    return cluster(node("n0", *sizes, placement=draw(st.sampled_from(PLACEMENTS))), *going, *waiting)
