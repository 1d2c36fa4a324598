"""What a container is given: the grant that an Allocate call gets, or why it gets none."""

from dataclasses import dataclass, replace
from typing import Final

from gpushare.contract import (
    LABEL_CARDS_PER_POD,
    LABEL_MODE,
    LABEL_NO_ISOLATION,
    MPS_NAME,
    RESOURCE_CORE,
    RESOURCE_MEM,
)
from gpushare.deviceplugin.core.allocations import Allocation, Allocations, Enforcement, choose
from gpushare.deviceplugin.core.interface import Rejected
from gpushare.deviceplugin.core.limits import MpsShare, has_compute_share, limit_of, mps_share_of
from gpushare.deviceplugin.core.matching import Match
from gpushare.deviceplugin.core.reconcile import is_astray
from gpushare.errors import InvalidRequest
from gpushare.isolation.layout import directory_name
from gpushare.model.demand import Demand, Malformed
from gpushare.model.modes import Mode
from gpushare.scheduling.fitting import Rejection

NO_ROOM: Final = "no_room"
NO_LIBRARY: Final = "no_library"
NO_MPS: Final = "no_mps"
_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class Granted:
    """A decision that has not been taken in. ``mps`` is its container's part by MPS, None without MPS."""

    match: Match
    demand: Demand
    grant: Allocation
    mps: MpsShare | None = None


def decide(allocations: Allocations, found: Match, ids: tuple[str, ...], now_ns: int) -> Granted | Rejected:
    """The grant for a container. It never promises more of a card than the card has."""
    gpu_pod = found.gpu_pod
    demand = gpu_pod.pod.demand
    who = f"pod {gpu_pod.pod.full_name}, container {found.container.name}"
    if isinstance(demand, Malformed):
        return Rejected("malformed", f"{who}: {demand.problem}")
    grant = _known(allocations, found) or _fresh(allocations, found, demand)
    if isinstance(grant, Rejection):
        return Rejected(NO_ROOM, f"{who}: {grant.text}")
    again = grant.sure or grant.again
    called = replace(grant, lead=min(ids), total=demand.mem, at_ns=now_ns, sure=False, again=again)
    return Granted(found, demand, called)


def _known(allocations: Allocations, found: Match) -> Allocation | None:
    """The same question again, after a lost answer or a lost checkpoint, has the same answer."""
    grant = allocations.grants.get((found.gpu_pod.uid, found.container.name))
    there = grant and all(allocations.index_of(uuid) is not None for uuid, _ in grant.cards)
    return grant if there else None


def _fresh(allocations: Allocations, found: Match, demand: Demand) -> Allocation | Rejection:
    gpu_pod = found.gpu_pod
    chosen = choose(allocations, gpu_pod, demand)
    if isinstance(chosen, Rejection):
        return chosen
    uuids = {card.index: card.uuid for card in allocations.cards}
    cards = tuple((uuids[index], found.container.mem // demand.cards) for index in chosen)
    grant = Allocation(
        gpu_pod.uid, found.container.name, gpu_pod.pod.full_name, cards, "", demand.per_card.core
    )
    return replace(grant, astray=is_astray(allocations, grant))


def with_hold(
    allocations: Allocations, granted: Granted, library: str, *, launches: bool
) -> Granted | Rejected:
    """The decision with what holds its container to it.

    A container that is given the same again keeps its place, where processes of its may be at work, and
    the build that it has. ``launches`` is whether launches can be held.
    """
    grant = granted.grant
    try:
        limit = limit_of(allocations, grant, granted.demand)
    except InvalidRequest as error:
        return Rejected("limit", f"pod {grant.pod}, container {grant.container}: {error}")
    known = grant.hold
    if known and (known.library, known.limit) == (library, limit):
        return granted
    hold = Enforcement(directory_name(grant.at_ns), library, limit, launches and has_compute_share(limit))
    return replace(granted, grant=replace(grant, hold=hold))


def without_hold(granted: Granted) -> Granted:
    """The decision for a container that nothing holds."""
    return replace(granted, grant=replace(granted.grant, hold=None))


def no_library(node: str, grant: Allocation, folder: str) -> Rejected:
    """The container is to be held, and there is nothing to hold it with."""
    return Rejected(
        NO_LIBRARY,
        f"pod {grant.pod}, container {grant.container}: containers of node {node} are held to their amounts, "
        f"and {folder} there has no isolation library: install it (DaemonSet cgpu-installer), or have the "
        f"node's containers run without limits by its label {LABEL_NO_ISOLATION}=true",
    )


def with_part(allocations: Allocations, granted: Granted) -> Granted | Rejected:
    """The decision with its container's part by MPS.

    A program finds one control daemon, by the folder that its environment names, and each card has its own.
    """
    grant = granted.grant
    if len(grant.cards) > 1:
        return Rejected(
            "mps_cards",
            f"pod {grant.pod}, container {grant.container}: on node {allocations.node}, of mode {Mode.MPS}, "
            f"a container can use one card, not {len(grant.cards)}: take the label {LABEL_CARDS_PER_POD} out "
            "of the pod, or use a node of another mode",
        )
    return replace(granted, mps=mps_share_of(allocations, grant, granted.demand))


def no_mps(node: str, grant: Allocation, card: str, folder: str) -> Rejected:
    """The card's control daemon is not up, without which a program would not share the card."""
    return Rejected(
        NO_MPS,
        f"pod {grant.pod}, container {grant.container}: node {node} is of mode {Mode.MPS}, and no MPS "
        f"control daemon is up there for card {card} ({folder}): see to the DaemonSet {MPS_NAME}, or give "
        f"the node another mode by its label {LABEL_MODE}",
    )


def with_grant(allocations: Allocations, grant: Allocation) -> Allocations:
    """The tenancy with this grant in place of what its container had.

    The kubelet gives out a device ID again only after it has dropped the call that had it: a grant that
    was never confirmed and has the same one came to nothing.
    """
    settled = {key: _settled(each, grant.lead) for key, each in allocations.grants.items()}
    kept = {key: each for key, each in settled.items() if each}
    return replace(allocations, grants={**kept, grant.key: grant})


def _settled(grant: Allocation, lead: str) -> Allocation | None:
    """The grant once its lead is another's: nothing, or what its container had before it asked again."""
    if grant.sure or grant.lead != lead:
        return grant
    return replace(grant, sure=True, again=False) if grant.again else None


def unmatched(allocations: Allocations, amount: int) -> Rejected:
    """Nobody of this node waits for that amount."""
    names = sorted(t.pod.full_name for t in allocations.gpu_pods.values() if not allocations.grants_of(t.uid))
    waiting = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    return Rejected(
        "unknown_pod",
        f"no container on node {allocations.node} waits for {amount} of {RESOURCE_MEM} "
        f"(pods that were not served yet: {waiting or 'none'}); a controller's pod is made anew, "
        "a bare pod must be created again",
    )


def no_core(allocations: Allocations, percent: int, lonely: Match | None) -> Rejected:
    """Nobody of this node asks for that share of compute with memory to go with it."""
    if lonely:
        return Rejected(
            "core_only",
            f"pod {lonely.gpu_pod.pod.full_name}, container {lonely.container.name} asks for {RESOURCE_CORE}="
            f"{percent} without {RESOURCE_MEM}: ask for memory on the same card too",
        )
    return Rejected(
        "unknown_pod", f"no container on node {allocations.node} asks for {RESOURCE_CORE}={percent}"
    )


def no_core_left(grant: Allocation, percent: int) -> Rejected:
    """The card that the container has been given has not that much compute left."""
    return Rejected(
        "no_core",
        f"{RESOURCE_CORE}={percent} does not fit on the card of {grant.units} of {RESOURCE_MEM} that were "
        "just given for the same container; a controller's pod is made anew",
    )
