"""The decision on an Allocate call: an allocation and its effect on the node, or why there is none. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gpushare.contract import (
    ISOLATION_INSTALLER_NAME,
    LABEL_CARDS_PER_POD,
    LABEL_MODE,
    LABEL_NO_ISOLATION,
    MPS_NAME,
    RESOURCE_CORE,
    RESOURCE_MEM,
)
from gpushare.deviceplugin.core.allocations import (
    AllocateSnapshot,
    Allocation,
    Allocations,
    Enforcement,
    choose,
    diverges,
)
from gpushare.deviceplugin.core.conflicts import rejection
from gpushare.deviceplugin.core.interface import Rejected
from gpushare.deviceplugin.core.limits import MpsShare, has_compute_share, is_limited, limit_of, mps_share_of
from gpushare.deviceplugin.core.matching import AllocateCall, Match, candidates, is_unclear, match
from gpushare.errors import InvalidRequest
from gpushare.isolation.layout import directory_name
from gpushare.isolation.limits import is_same_limit
from gpushare.model.demand import Demand, Malformed
from gpushare.model.device_lists import BY_MOUNTS, DeviceList
from gpushare.model.modes import Mode
from gpushare.scheduling.fitting import Rejection

_UNKNOWN_POD: Final = "unknown_pod"
_AMBIGUOUS: Final = "ambiguous"
NO_UNITS: Final = "no_room"
_NO_LIBRARY: Final = "no_library"
_NO_MOUNTS: Final = "no_isolation_mounts"
_NOEXEC: Final = "noexec"
_NO_MPS: Final = "no_mps"
_NODE_UNREAD: Final = "node_unread"
_TEMPORARY: Final = frozenset({_UNKNOWN_POD, _AMBIGUOUS, _NO_LIBRARY, _NO_MPS, _NODE_UNREAD})
"""Reasons for a rejection that other programs may remove at any moment."""
_FOLDER_FLAGS: Final = "--isolation-libraries of the node agent and --folder of the installer"
_NAMED: Final = 5
"""Pods that a rejection names at most."""
_REPLACED: Final = "a controller replaces its pod, a bare pod must be created again"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What the node can enforce at the moment of an Allocate call.

    ``isolation`` is whether the agent sees the directories of the isolation library, and ``noexec`` the mount
    point of the node from which no program can load it, if there is one. ``library`` is the version that new
    containers get, None while none is installed; ``launches`` whether launches can be paced with it. ``mps``
    is whether the agent sees the MPS directory, and ``mps_gpus`` are the UUIDs of the GPUs with a ready MPS
    control daemon. The directories are for error texts.
    """

    isolation: bool = False
    noexec: str = ""
    library: str | None = None
    launches: bool = False
    mps: bool = False
    mps_gpus: frozenset[str] = frozenset()
    libraries_dir: str = ""
    state_dir: str = ""
    mps_dir: str = ""


@dataclass(frozen=True, slots=True)
class Allocated:
    """A positive decision that is not part of the node state yet. ``mps`` is None without MPS.

    ``first_device_id`` is the lowest device ID of the call.
    """

    found: Match
    demand: Demand
    allocation: Allocation
    first_device_id: str
    mps: MpsShare | None = None


@dataclass(frozen=True, slots=True)
class CallDecision:
    """The decision on a call. ``found`` is None if no container waits for that amount.

    ``final`` is whether waiting cannot change it.
    """

    outcome: Allocated | Rejected
    found: Match | None
    final: bool


def decide_call(
    snapshot: AllocateSnapshot,
    call: AllocateCall,
    capabilities: Capabilities,
    now_ns: int,
    *,
    device_list: DeviceList = BY_MOUNTS,
    terminating: bool = False,
) -> CallDecision:
    """The decision on an Allocate call: which container it is for, and what that gets.

    ``terminating`` is whether terminated pods still hold GPUs; the other arguments are those of ``decide``.
    """
    found = match(snapshot, call)
    if not snapshot.node_read:
        outcome: Allocated | Rejected = node_unread(snapshot.allocations.node)
    elif found is None:
        outcome = unmatched(snapshot, call)
    else:
        outcome = decide(snapshot.allocations, found, call.ids, capabilities, now_ns, device_list=device_list)
    # No watch reports the end of a pod that only the kubelet knows: its list may show that it is gone.
    final = is_final(outcome, terminating=terminating or bool(snapshot.unlisted))
    # The kubelet has given a rejected pod up: the watch will show the pod that this call is for.
    given_up = isinstance(outcome, Rejected) and found is not None and found.key in call.refused
    return CallDecision(outcome, found, final and not given_up)


def decide(
    allocations: Allocations,
    found: Match,
    ids: Sequence[str],
    capabilities: Capabilities,
    now_ns: int,
    *,
    device_list: DeviceList = BY_MOUNTS,
) -> Allocated | Rejected:
    """The allocation of the matched container. It never exceeds the free units of a GPU.

    ``ids`` are the device IDs of the call, ``now_ns`` is the wall clock in nanoseconds, and ``device_list``
    is how containers get their GPUs.
    """
    gpu_pod = found.gpu_pod
    subject = f"pod {gpu_pod.pod.full_name}, container {found.container.name}"
    demand = gpu_pod.pod.demand
    if isinstance(demand, Malformed):
        return Rejected("malformed", f"{subject}: {demand.problem}")
    first = min(ids)
    units = _repeated(allocations, found, first) or _new(allocations, found, demand, first)
    if isinstance(units, Rejection):
        return Rejected(NO_UNITS, f"{subject}: {units.text}")
    allocation = replace(units, total=demand.mem, at_ns=now_ns)
    mps = _mps_share(allocations, allocation, demand, capabilities)
    if isinstance(mps, Rejected):
        return mps
    enforcement = _enforcement(allocations, allocation, demand, capabilities)
    if isinstance(enforcement, Rejected):
        return enforcement
    limited = replace(allocation, enforcement=enforcement)
    return rejection(gpu_pod, limited, device_list, mps) or Allocated(found, demand, limited, first, mps)


def is_final(decision: Allocated | Rejected, *, terminating: bool) -> bool:
    """Whether waiting cannot change the decision; ``terminating``: pods of the node may release GPUs."""
    if isinstance(decision, Allocated):
        return True
    return decision.reason not in _TEMPORARY and not (decision.reason == NO_UNITS and terminating)


def _repeated(allocations: Allocations, found: Match, first_device_id: str) -> Allocation | None:
    """The allocation of a container that has one and calls again; None without one.

    One that the kubelet has forgotten stays as it is. The checkpoint will have the container with the device
    IDs of this call, or another container, which then counts beside it.
    """
    allocation = allocations.by_container.get(found.key)
    if allocation is None or any(allocations.index_of(uuid) is None for uuid, _ in allocation.cards):
        return None
    if allocation.forgotten:
        return allocation
    return replace(allocation, first_device_id=first_device_id, confirmed=False)


def _new(
    allocations: Allocations, found: Match, demand: Demand, first_device_id: str
) -> Allocation | Rejection:
    gpu_pod = found.gpu_pod
    chosen = choose(allocations, gpu_pod, demand)
    if isinstance(chosen, Rejection):
        return chosen
    # By UUID from here on: indices may be those of other GPUs after a reboot.
    uuids = {card.index: card.uuid for card in allocations.cards}
    cards = tuple((uuids[index], found.container.mem // demand.cards) for index in chosen)
    allocation = Allocation(
        gpu_pod.uid,
        found.container.name,
        gpu_pod.pod.full_name,
        cards,
        first_device_id,
        demand.per_card.core,
    )
    return replace(allocation, diverged=diverges(allocations, allocation))


def _mps_share(
    allocations: Allocations, allocation: Allocation, demand: Demand, capabilities: Capabilities
) -> MpsShare | Rejected | None:
    """The container's MPS limits; None on a node that does not share its GPUs by MPS.

    A program finds one control daemon, through the directory in its environment, and each GPU has its own.
    """
    if not (allocations.mode is Mode.MPS and capabilities.mps):
        return None
    subject = f"pod {allocation.pod}, container {allocation.container}"
    if len(allocation.cards) > 1:
        return Rejected(
            "mps_cards",
            f"{subject}: node {allocations.node} has sharing mode {Mode.MPS}, in which a container can use "
            f"one GPU, not {len(allocation.cards)}: remove the label {LABEL_CARDS_PER_POD} from the pod, or "
            "use a node with another mode",
        )
    share = mps_share_of(allocations, allocation, demand)
    if share.card in capabilities.mps_gpus:
        return share
    return Rejected(
        _NO_MPS,
        f"{subject}: node {allocations.node} has sharing mode {Mode.MPS}, and no MPS control daemon is ready "
        f"for GPU {share.card} ({capabilities.mps_dir}): check the DaemonSet {MPS_NAME}, or change the mode "
        f"of the node with its label {LABEL_MODE}",
    )


def _enforcement(
    allocations: Allocations, allocation: Allocation, demand: Demand, capabilities: Capabilities
) -> Enforcement | Rejected | None:
    """The files that limit the container; None if nothing limits it.

    A container that gets the same limit from the same library again keeps its container directory, where
    its processes may be running, and its build of the library.
    """
    subject = f"pod {allocation.pod}, container {allocation.container}"
    if problem := limits_problem(allocations, capabilities):
        return Rejected(problem.reason, f"{subject}: {problem.text}")
    # Without a library but with mode mps, MPS alone limits the container.
    library = capabilities.library
    if library is None or not is_limited(allocations):
        return None
    try:
        limit = limit_of(allocations, allocation, demand)
    except InvalidRequest as error:
        return Rejected("limit", f"{subject}: {error}")
    known = allocation.enforcement
    if known and known.library == library and is_same_limit(known.limit, limit):
        return known
    launches = capabilities.launches and has_compute_share(limit)
    return Enforcement(directory_name(allocation.at_ns), library, limit, launches)


def limits_problem(allocations: Allocations, capabilities: Capabilities) -> Rejected | None:
    """Why no container could be limited on this node, although containers are limited there.

    None if containers can be limited, or need not be.
    """
    if not is_limited(allocations):
        return None
    remedy = f"or disable the limits on the node with the label {LABEL_NO_ISOLATION}=true"
    if not capabilities.isolation:
        if allocations.mode is Mode.MPS:  # it limits the memory of containers too
            return None
        return Rejected(
            _NO_MOUNTS,
            f"node {allocations.node} has sharing mode {allocations.mode}, which limits containers to their "
            f"units, and its node agent does not see {capabilities.libraries_dir} and "
            f"{capabilities.state_dir} of the node: mount both into the agent, {remedy}",
        )
    if capabilities.noexec:
        return Rejected(
            _NOEXEC,
            f"node {allocations.node} limits containers to their units, and {capabilities.libraries_dir} "
            f"there is on {capabilities.noexec}, which is mounted noexec, so programs would run without the "
            f"isolation library: set another folder (isolation.folder, or {_FOLDER_FLAGS}), {remedy}",
        )
    if capabilities.library is None:
        return Rejected(
            _NO_LIBRARY,
            f"node {allocations.node} limits containers to their units, and {capabilities.libraries_dir} "
            f"there has no isolation library: install it (DaemonSet {ISOLATION_INSTALLER_NAME}), {remedy}",
        )
    return None


def without_mps(allocations: Allocations, capabilities: Capabilities) -> frozenset[str]:
    """UUIDs of the GPUs whose containers would be rejected for want of a ready MPS control daemon."""
    if not (allocations.mode is Mode.MPS and capabilities.mps):
        return frozenset()
    return frozenset(card.uuid for card in allocations.cards) - capabilities.mps_gpus


def with_allocation(
    allocations: Allocations, allocation: Allocation, first_device_id: str | None = None
) -> Allocations:
    """The node with this allocation in place of the container's previous one.

    ``first_device_id`` is that of the call, by default that of the allocation. The kubelet reuses a device ID
    only after it has dropped the call that had it: an unconfirmed allocation with the same first ID has come
    to nothing.
    """
    first = first_device_id or allocation.first_device_id
    kept = {
        key: each
        for key, each in allocations.by_container.items()
        if each.confirmed or each.first_device_id != first
    }
    return replace(allocations, by_container={**kept, allocation.key: allocation})


def unmatched(snapshot: AllocateSnapshot, call: AllocateCall) -> Rejected:
    """The rejection of a call that no container waits for, or several that must not be confused."""
    allocations = snapshot.allocations
    found = candidates(snapshot, call)
    if is_unclear(snapshot, found):
        cause = "has lost its checkpoint" if snapshot.readable else "has a checkpoint that cannot be read"
        return Rejected(
            _AMBIGUOUS,
            f"the kubelet of node {allocations.node} {cause}, so {call.amount} of {RESOURCE_MEM} may be for "
            f"any of these pods: {_listed(each.gpu_pod.pod.full_name for each in found)}; {_REPLACED}",
        )
    pods = allocations.gpu_pods.values()
    waiting = _listed(each.pod.full_name for each in pods if not allocations.of_pod(each.uid))
    return Rejected(
        _UNKNOWN_POD,
        f"no container on node {allocations.node} waits for {call.amount} of {RESOURCE_MEM} "
        f"(pods without an allocation: {waiting or 'none'}); {_REPLACED}",
    )


def _listed(pods: Iterable[str]) -> str:
    names = sorted(pods)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def node_unread(node: str) -> Rejected:
    """The rejection of any call while it is unknown whether the node limits containers."""
    return Rejected(
        _NODE_UNREAD,
        f"the API server has not returned node {node} yet, so the node agent does not know its sharing mode; "
        + _REPLACED,
    )


def no_core(allocations: Allocations, percent: int, without_mem: Match | None) -> Rejected:
    """The rejection of a call for compute; ``without_mem`` requests that percent and no memory."""
    if without_mem:
        return Rejected(
            "core_only",
            f"pod {without_mem.gpu_pod.pod.full_name}, container {without_mem.container.name} asks for "
            f"{RESOURCE_CORE}={percent} without {RESOURCE_MEM}: request memory in the same container too",
        )
    return Rejected(
        _UNKNOWN_POD, f"no container on node {allocations.node} asks for {RESOURCE_CORE}={percent}"
    )


def no_core_left(allocation: Allocation, percent: int) -> Rejected:
    """The rejection of a call for more compute than the GPU of the container has free."""
    return Rejected(
        "no_core",
        f"{RESOURCE_CORE}={percent} does not fit on the GPU of the {allocation.units} of {RESOURCE_MEM} that "
        "were just allocated to the same container; a controller replaces its pod",
    )
