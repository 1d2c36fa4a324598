"""What a pod requests: units of GPU memory and percent of compute, per container, per GPU and in total.

The values come only from the containers' *limits*. The total follows the rule of Kubernetes for pods
(KEP-753): the larger of the sum of containers and sidecars, and of each init container plus the sidecars
declared before it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

from gpushare.contract import (
    CORE_PER_CARD,
    CORE_STEP,
    LABEL_CARDS_PER_POD,
    RESOURCE_CORE,
    RESOURCE_MEM,
    RESOURCE_WHOLE_GPU,
)
from gpushare.model.gpu_choice import GpuChoice
from gpushare.model.quantity import parse_small

_GIB: Final = 1 << 30


def suffix_hint(amount: int) -> str:
    """What to write instead of an amount that was written in bytes, such as ``4Gi``."""
    decimal, rest = divmod(amount, 10**9)
    right, wrong = (-(-amount // _GIB), f"{amount / _GIB:g}Gi") if rest else (decimal, f"{decimal}G")
    return f"{RESOURCE_MEM} counts GiB by default: write {right}, not {wrong}"


SUFFIX: Final = suffix_hint(4 * _GIB)
"""The same for an unknown amount."""
IMPLAUSIBLE: Final = 1 << 20
"""Units that no GPU has: a TiB, if a unit is a MiB."""
UNITS_AND_WHOLE: Final = (
    f"requests {RESOURCE_MEM} and {RESOURCE_WHOLE_GPU}: a container gets a part of a GPU, or whole GPUs; "
    "remove one of them"
)
NO_WHOLE_GPUS: Final = (
    f"{RESOURCE_MEM} alone gives it a part of a GPU, and nodes that share their GPUs offer no whole ones"
)
Users = frozenset[int | None]
"""Unix UIDs; None stands for an unknown one."""


class Amount(NamedTuple):
    """An amount on one GPU: memory in units, compute in percent of the GPU."""

    mem: int
    core: int = 0


class ContainerKind(StrEnum):
    """How a container takes part in the pod's lifecycle."""

    MAIN = "container"
    SIDECAR = "sidecar"
    INIT = "init container"


@dataclass(frozen=True, slots=True)
class ContainerDemand:
    """The limits of one container, in declaration order within its pod's list.

    ``user`` is the Unix UID from the security context; None if the image decides. ``whole`` is whether it
    requests whole GPUs too.
    """

    name: str
    kind: ContainerKind
    mem: int
    core: int = 0
    user: int | None = None
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Demand:
    """A valid request. ``containers`` lists init containers and sidecars first, as declared.

    ``users`` are the users of the containers that use a GPU. ``gpus`` is which GPUs the pod may use, None for
    any.
    """

    containers: tuple[ContainerDemand, ...]
    mem: int
    core: int
    cards: int
    users: Users = frozenset()
    gpus: GpuChoice | None = None

    @property
    def empty(self) -> bool:
        """Whether it requests nothing, so that the pod may go to any node, as one without the resources."""
        return not (self.mem or self.core)

    @property
    def has_suffix(self) -> bool:
        """Whether the amount was certainly written in bytes, such as ``4Gi``, which Kubernetes accepts."""
        return self.per_card.mem >= IMPLAUSIBLE

    @property
    def suffix_hint(self) -> str:
        """What to write instead of an amount with a suffix."""
        return suffix_hint(self.per_card.mem)

    @property
    def per_card(self) -> Amount:
        """The amount that the pod reserves on each of its GPUs."""
        return Amount(self.mem // self.cards, self.core // self.cards)


@dataclass(frozen=True, slots=True)
class Malformed:
    """An invalid value, with the problem as text for its author.

    ``at_least`` is the demand that a pod with invalid limits has nevertheless when it runs; None if unknown.
    """

    problem: str
    at_least: Demand | None = None


def demand_of(containers: Iterable[ContainerDemand], cards_label: str | None = None) -> Demand | Malformed:
    """The demand of a pod from its containers, init containers and sidecars first, as declared.

    ``cards_label`` is the value of the pod label ``aliyun.com/gpu-count``, None if absent.
    """
    listed = tuple(containers)
    cards = 1 if cards_label is None else parse_small(cards_label)
    users = frozenset(container.user for container in listed if container.mem)
    total = Demand(listed, *_peak(listed), cards or 1, users)
    if not cards:
        problem: str | None = f"label {LABEL_CARDS_PER_POD}={cards_label!r} is not a number of GPUs (1, 2, …)"
    else:
        problem = _problem(total)
    return Malformed(problem, replace(total, cards=1)) if problem else total


def _peak(containers: tuple[ContainerDemand, ...]) -> Amount:
    """Σ containers + Σ sidecars, or an init container + the sidecars before it; the larger amount of each."""
    mem = core = peak_mem = peak_core = 0
    for container in containers:
        own_mem, own_core = max(0, container.mem), max(0, container.core)
        if container.kind is ContainerKind.INIT:
            peak_mem, peak_core = max(peak_mem, mem + own_mem), max(peak_core, core + own_core)
        else:
            mem, core = mem + own_mem, core + own_core
    return Amount(max(peak_mem, mem), max(peak_core, core))


def _problem(demand: Demand) -> str | None:
    for container in demand.containers:
        if problem := _container_problem(container, demand.cards):
            return problem
    if demand.per_card.core > CORE_PER_CARD:
        return f"limits {RESOURCE_CORE}={demand.core} exceed {CORE_PER_CARD} on each of {demand.cards} GPUs"
    return None


def _container_problem(container: ContainerDemand, cards: int) -> str | None:
    subject = f"{container.kind} {container.name}"
    for name, amount in ((RESOURCE_MEM, container.mem), (RESOURCE_CORE, container.core)):
        if amount < 0:
            return f"{subject}: limit {name}={amount} is negative"
        if amount % cards:
            return f"{subject}: limit {name}={amount} cannot be spread evenly over {cards} GPUs"
    if container.whole and container.mem > 0:
        return f"{subject}: {UNITS_AND_WHOLE}"
    if container.core and not container.mem:
        return f"{subject}: asks for {RESOURCE_CORE} without {RESOURCE_MEM} on the same GPU"
    if container.core // cards % CORE_STEP:
        core = f"{RESOURCE_CORE}={container.core}"
        return f"{subject}: limit {core} is not a multiple of {CORE_STEP} on each GPU"
    return None
