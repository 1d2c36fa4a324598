"""Allocations of one node: its GPUs, its pods, the units allocated to each container, and the sums. Pure.

An allocation is the result of one answered Allocate call. A pod keeps its allocations while it exists in
the API, and after that until its last process has ended. Allocations name GPUs by UUID, because indices
can change.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpushare.isolation.layout import IsolationMounts
from gpushare.model.annotations import Shares, even_shares, known_shares
from gpushare.model.cards import Card
from gpushare.model.demand import Amount, Demand, Malformed
from gpushare.model.local_node import GpuPod
from gpushare.model.modes import Mode
from gpushare.model.objects import Node
from gpushare.scheduling.advice.refusals import refusal
from gpushare.scheduling.book import Book, Reservation
from gpushare.scheduling.fitting import PodRequest, Rejection, place, unfit

Key = tuple[str, str]
"""Pod UID as the kubelet knows it, and container name."""


@dataclass(frozen=True, slots=True)
class Enforcement:
    """The files that are mounted into a container to limit it to its units.

    ``directory`` is the name of the container directory with limit and region, ``library`` the version of the
    library, and ``limit`` the text of the limit file. ``launches`` is whether the container has the build
    that limits launches too.
    """

    directory: str
    library: str
    limit: str
    launches: bool = False

    @property
    def mounts(self) -> IsolationMounts:
        """The mounted files, as the mounts of the container identify them."""
        return IsolationMounts(self.library, self.directory, self.launches)


@dataclass(frozen=True, slots=True)
class Allocation:
    """The units of one container on each GPU, as pairs of UUID and units.

    ``core`` is the percent of compute that the pod uses of each GPU; it is stored because the pod's object
    may be gone. ``first_device_id`` is the lowest device ID of the call: the kubelet's checkpoint identifies
    the container by it, and ``confirmed`` is whether it has; it is empty once the checkpoint has lost the
    container. ``diverged`` is whether the pod ever got other GPUs than those of its annotations. ``total`` is
    the whole demand of the pod in units, and ``at_ns`` the time of the response in nanoseconds; both are 0 if
    another plugin responded. ``enforcement`` is None for a container without limit files.
    """

    uid: str
    container: str
    pod: str
    cards: tuple[tuple[str, int], ...]
    first_device_id: str
    core: int = 0
    total: int = 0
    at_ns: int = 0
    confirmed: bool = False
    diverged: bool = False
    enforcement: Enforcement | None = None

    @property
    def key(self) -> Key:
        """Identifies the container."""
        return self.uid, self.container

    @property
    def forgotten(self) -> bool:
        """Whether the checkpoint had the container once, and no longer has it."""
        return self.confirmed and not self.first_device_id

    @property
    def units(self) -> int:
        """Units on all its GPUs."""
        return sum(units for _, units in self.cards)


@dataclass(frozen=True, slots=True)
class Allocations:
    """The node at one moment. ``gpu_pods`` are its GPU pods by the kubelet's UID.

    ``isolated`` is whether the administrator wants containers limited to their units. ``context_mib`` has the
    measured size of a CUDA context by GPU UUID. ``by_container`` are the allocations, and ``by_pod`` the same
    by the UID of the pod.
    """

    node: str
    cards: tuple[Card, ...] = ()
    mode: Mode = Mode.SHARE
    placement: str | None = None
    isolated: bool = True
    context_mib: Mapping[str, int] = field(default_factory=dict)
    gpu_pods: Mapping[str, GpuPod] = field(default_factory=dict)
    by_container: Mapping[Key, Allocation] = field(default_factory=dict)
    by_pod: Mapping[str, tuple[Allocation, ...]] = field(init=False, compare=False, repr=False)
    indices: Mapping[str, int] = field(init=False, compare=False, repr=False)
    shares: dict[str, Shares] = field(init=False, compare=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        by_pod: dict[str, tuple[Allocation, ...]] = {}
        for allocation in self.by_container.values():
            by_pod[allocation.uid] = (*by_pod.get(allocation.uid, ()), allocation)
        object.__setattr__(self, "by_pod", by_pod)
        object.__setattr__(self, "indices", {card.uuid: card.index for card in self.cards})

    def of_pod(self, uid: str) -> tuple[Allocation, ...]:
        """The allocations of a pod's containers."""
        return self.by_pod.get(uid, ())

    def index_of(self, uuid: str) -> int | None:
        """The current index of a GPU; None if the node no longer has it."""
        return self.indices.get(uuid)


@dataclass(frozen=True, slots=True)
class AllocateSnapshot:
    """What an Allocate call is decided on: the node at one moment, as record, API and kubelet show it.

    ``done`` are the containers that have their devices: those in the kubelet's checkpoint without stale
    entries. While it cannot be read (``readable`` is False), these are those with an allocation, unless the
    kubelet has forgotten it before.
    ``node_read`` is whether the labels of the node, and so its mode, are known. ``terminated`` are pods with
    GPUs that are finished or deleted, and ``unlisted`` GPU pods that only the kubelet knows, by UID.
    """

    allocations: Allocations
    done: frozenset[Key] = frozenset()
    readable: bool = True
    node_read: bool = True
    terminated: frozenset[str] = frozenset()
    unlisted: frozenset[str] = frozenset()


def diverges(allocations: Allocations, allocation: Allocation) -> bool:
    """Whether the pod's annotations name other GPUs than the allocation."""
    gpu_pod = allocations.gpu_pods.get(allocation.uid)
    annotated = {index for index, _ in (gpu_pod.claim or ())} if gpu_pod else set()
    return annotated != {allocations.index_of(uuid) for uuid, _ in allocation.cards}


def allocated_shares(allocations: Allocations, uid: str) -> Shares | None:
    """The GPUs of a pod by its allocations: index and amount. None if it has none, or if a GPU is gone.

    A pod reserves its peak usage on its GPUs; the sum over its containers may be larger, because init
    containers pass their units on.
    """
    mine = allocations.of_pod(uid)
    present = all(allocations.index_of(uuid) is not None for each in mine for uuid, _ in each.cards)
    return _shares(allocations, uid) if mine and present else None


def _shares(allocations: Allocations, uid: str) -> Shares:
    """The amounts of a pod on those of its GPUs that the node still has."""
    if uid not in allocations.shares:
        allocations.shares[uid] = _computed_shares(allocations, uid)
    return allocations.shares[uid]


def _computed_shares(allocations: Allocations, uid: str) -> Shares:
    """By the demand of the pod, unless its number of GPUs is another one: then by container."""
    mine = allocations.of_pod(uid)
    units: Counter[str] = Counter()
    for allocation in mine:
        units.update(dict(allocation.cards))
    units_by_index = {
        index: amount for uuid, amount in units.items() if (index := allocations.index_of(uuid)) is not None
    }
    gpu_pod = allocations.gpu_pods.get(uid)
    demand = gpu_pod.demand if gpu_pod else None
    # Not the sum of the containers: init containers pass their units on.
    if demand and demand.cards == len(units):
        return even_shares(demand, tuple(units_by_index))
    core = max((each.core for each in mine), default=0)
    most = _most_per_gpu(gpu_pod, mine)
    return tuple(sorted((index, Amount(min(amount, most), core)) for index, amount in units_by_index.items()))


def _most_per_gpu(gpu_pod: GpuPod | None, mine: Sequence[Allocation]) -> int:
    """The peak usage of the pod on each of its GPUs: its limits cannot be edited, unlike its label.

    All its units if it is unknown: after a mistake the containers of a pod may be on different GPUs.
    """
    asked = gpu_pod.pod.demand if gpu_pod else None
    demand = asked.at_least if isinstance(asked, Malformed) else asked
    gpus = {frozenset(uuid for uuid, _ in each.cards) for each in mine}
    if demand and len(gpus) == 1:
        return demand.mem // len(gpus.pop())
    return sum(each.units for each in mine)


def book_of(allocations: Allocations, *, asking: str | None = None, claims: bool = True) -> Book:
    """The book of this node for one pod, without that pod's own allocations.

    ``asking`` is the UID of that pod. ``claims`` is whether reservations of pods without an allocation count.
    Those that name no GPU of the node never do: their pods get a GPU by a later call.
    """
    # The extender decides at the bind which users may share a GPU.
    node = Node(allocations.node, allocations.cards, allocations.mode, allocations.placement, multi_user=True)
    reservations = {r.uid: r for r in _reservations(allocations, asking, claims=claims)}
    return Book(allocations.node, node, reservations=reservations)


def _reservations(allocations: Allocations, asking: str | None, *, claims: bool) -> Iterable[Reservation]:
    for uid, mine in allocations.by_pod.items():
        if uid != asking:
            yield from _reserved_by(allocations, uid, mine[0].pod)
    indices = {card.index for card in allocations.cards}
    for uid, gpu_pod in allocations.gpu_pods.items() if claims else ():
        # A pod with an allocation counts by that, whatever its annotations say.
        if uid == asking or uid in allocations.by_pod or not gpu_pod.demand:
            continue
        if known_shares(gpu_pod.demand, gpu_pod.claim, None, indices):
            yield Reservation(uid, gpu_pod.pod.full_name, gpu_pod.demand, gpu_pod.claim)


def _reserved_by(allocations: Allocations, uid: str, pod: str) -> Iterable[Reservation]:
    """One reservation for each GPU: the allocations of a pod need not be equal parts."""
    for index, share in _shares(allocations, uid):
        demand = Demand((), share.mem, share.core, 1)
        yield Reservation(f"{uid}/{index}", pod, demand, ((index, share),))


def choose(allocations: Allocations, gpu_pod: GpuPod, demand: Demand) -> tuple[int, ...] | Rejection:
    """The GPU indices for a pod: of its allocations, else of its annotations, else by placement policy.

    The annotations are followed unless the units there are allocated to another pod. Then the pod gets
    other GPUs or is rejected; no unit is allocated twice.
    """
    if allocations.of_pod(gpu_pod.uid):
        return _same_gpus(allocations, gpu_pod, demand)
    # Only what was allocated counts against a claim: the extender has counted the claims of others.
    book = book_of(allocations, asking=gpu_pod.uid, claims=False)
    claim = gpu_pod.claim if len(gpu_pod.claim or ()) == demand.cards else None
    # Annotations are a request: they are followed only where the units are really free. Those about GPUs were
    # considered at the bind.
    if claim and not unfit(book, replace(demand, gpus=None)) and _fits(book, claim):
        return tuple(index for index, _ in claim)
    pod = gpu_pod.pod
    # Allocations do not name labels, and a pod without a bind may come before the pods that it names.
    devices = replace(demand, gpus=demand.gpus and demand.gpus.devices)
    pod_request = PodRequest(pod.uid, devices, pod.priority, pod.placement)
    # Without a claim of its own a pod must not take what is reserved for others.
    book = book_of(allocations, asking=gpu_pod.uid)
    found = place(book, pod_request)
    if isinstance(found, Rejection):
        return Rejection(refusal(book, pod_request))
    return tuple(index for index, _ in found)


def _same_gpus(allocations: Allocations, gpu_pod: GpuPod, demand: Demand) -> tuple[int, ...] | Rejection:
    """The GPUs of a pod that has allocations, if the whole pod fits there.

    It may not fit if its first container was mistaken for one of another pod that has the same amount and
    a smaller demand.
    """
    mine = allocated_shares(allocations, gpu_pod.uid)
    if mine is None:
        return Rejection("a GPU allocated to it is gone from the node")
    book = book_of(allocations, asking=gpu_pod.uid, claims=False)
    if len(mine) != demand.cards or not all(_has_free(book, index, share) for index, share in mine):
        gpus = ", ".join(f"GPU {index}" for index, _ in mine)
        return Rejection(
            f"its other containers use {gpus}, where its demand of {demand.mem} units does not fit"
        )
    return tuple(index for index, _ in mine)


def _has_free(book: Book, index: int, share: Amount) -> bool:
    """Whether the GPU has the amount free, schedulable or not: a pod stays on its GPUs."""
    return any(
        usage.card.index == index and usage.free.mem >= share.mem and usage.free.core >= share.core
        for usage in book.usages
    )


def _fits(book: Book, claim: Shares) -> bool:
    usages = {usage.card.index: usage for usage in book.usages}
    return all(index in usages and usages[index].fits(share) for index, share in claim)


def core_fits(allocations: Allocations, allocation: Allocation, percent: int) -> bool:
    """Whether the allocation's GPUs have that percent of compute free for the allocation's pod."""
    book = book_of(allocations, asking=allocation.uid, claims=False)
    indices = {allocations.index_of(uuid) for uuid, _ in allocation.cards}
    free = [usage.free for usage in book.usages if usage.card.index in indices]
    return all(each.core * len(allocation.cards) >= percent for each in free)
