"""The answer to an Allocate call: environment, mounts and device names of one container."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from gpushare.contract import (
    CDI_KIND,
    ENV_CONTAINER,
    ENV_DEV,
    ENV_IDX,
    ENV_NO_ISOLATION,
    ENV_POD,
    ENV_VISIBLE_DEVICES,
    VISIBLE_BY_MOUNTS,
)
from gpushare.deviceplugin.core.allocations import Allocation, Allocations
from gpushare.deviceplugin.core.interface import AllocateResponse, Mount, Rejected
from gpushare.deviceplugin.core.limits import MpsShare, envs_of
from gpushare.isolation.layout import IsolationDirs, bind_mounts
from gpushare.model.cards import Card
from gpushare.model.demand import Demand
from gpushare.model.options import DeviceListStrategy, MemoryUnit
from gpushare.model.own_node import GpuPod
from gpushare.mps.layout import MpsDirs as MpsFolders
from gpushare.mps.layout import mounted

_NONE: Final = "void"
"""Tells NVIDIA's runtime to add no device of its own."""


@dataclass(frozen=True, slots=True)
class ResponseSettings:
    """Settings of the answer. ``by_index`` names cards by index as the original does, not by UUID.

    ``folders`` are where the node has what holds containers, ``mps`` where it has what MPS needs.
    """

    strategy: DeviceListStrategy = DeviceListStrategy.MOUNTS
    by_index: bool = False
    folders: IsolationDirs = field(default_factory=IsolationDirs)
    mps: MpsFolders = field(default_factory=MpsFolders)


def response_for(
    allocations: Allocations,
    grant: Allocation,
    demand: Demand,
    style: ResponseSettings,
    mps: MpsShare | None = None,
) -> AllocateResponse:
    """What the container of the grant gets; ``mps`` is its part where MPS serves its card."""
    answer = _cards_for(allocations, grant, demand, style)
    mounts = (*answer.mounts, *_hold_for(grant, style))
    if mps is None:
        return replace(answer, mounts=mounts)
    # As NVIDIA's own device plugin mounts them: whether programs write into the pipes' folder is not told.
    shared = (Mount(host, inside, read_only=False) for inside, host in mounted(style.mps, mps.card).items())
    return replace(answer, envs={**answer.envs, **envs_of(mps)}, mounts=(*mounts, *shared))


def _hold_for(grant: Allocation, style: ResponseSettings) -> Iterator[Mount]:
    if grant.hold:
        for bind in bind_mounts(style.folders, grant.hold.given):
            yield Mount(bind.host, bind.inside, bind.read_only)


def _cards_for(
    allocations: Allocations, grant: Allocation, demand: Demand, style: ResponseSettings
) -> AllocateResponse:
    cards = sorted(_cards(allocations, grant), key=lambda card: card.index)
    names = [str(card.index) if style.by_index else card.uuid for card in cards]
    envs = {
        ENV_IDX: str(cards[0].index),
        ENV_POD: str(demand.mem),
        ENV_CONTAINER: str(grant.units),
        ENV_DEV: str(cards[0].units),
        **({} if allocations.isolated else {ENV_NO_ISOLATION: "true"}),
    }
    match style.strategy:
        case DeviceListStrategy.ENV:
            return AllocateResponse({**envs, ENV_VISIBLE_DEVICES: ",".join(names)})
        case DeviceListStrategy.CDI:
            devices = tuple(f"{CDI_KIND}={name}" for name in names)
            return AllocateResponse({**envs, ENV_VISIBLE_DEVICES: _NONE}, cdi_devices=devices)
        case DeviceListStrategy.MOUNTS:
            mounts = tuple(Mount("/dev/null", f"{VISIBLE_BY_MOUNTS}/{name}") for name in names)
            return AllocateResponse({**envs, ENV_VISIBLE_DEVICES: VISIBLE_BY_MOUNTS}, mounts)


def _cards(allocations: Allocations, grant: Allocation) -> list[Card]:
    uuids = {uuid for uuid, _ in grant.cards}
    return [card for card in allocations.cards if card.uuid in uuids]


def sets_visible_devices(gpu_pod: GpuPod, container: str, style: ResponseSettings) -> Rejected | None:
    """Why a container that names its devices by environment cannot be held to its card that way.

    The pod's own value comes last in the container's environment and wins over the plugin's.
    """
    if style.strategy is not DeviceListStrategy.ENV or container not in gpu_pod.picks_devices:
        return None
    return Rejected(
        "own_devices",
        f"pod {gpu_pod.pod.full_name}, container {container} sets {ENV_VISIBLE_DEVICES} itself, which would "
        "win over its card: take it out of the pod, or start the device plugin with "
        f"--device-list-strategy={DeviceListStrategy.MOUNTS}",
    )


def legacy_failure_env(
    amount: int, unit: MemoryUnit, cards: tuple[Card, ...], reason: str
) -> AllocateResponse:
    """The original's answer where no card is found: the container starts and NVIDIA's hook fails it."""
    return AllocateResponse(
        {
            ENV_VISIBLE_DEVICES: f"no-gpu-has-{amount}{unit}-to-run",
            ENV_IDX: "-1",
            ENV_POD: str(amount),
            ENV_CONTAINER: str(amount),
            ENV_DEV: str(cards[0].units if cards else 0),
        },
        result=reason,
    )


def cards_told(envs: Mapping[str, str], paths: Iterable[str], cdi: Iterable[str]) -> tuple[str, ...]:
    """The names of cards, UUIDs or indices, that an answer speaks of, whoever gave it.

    ``paths`` are the mounts' places in the container, ``cdi`` the names of CDI devices.
    """
    by_mount = _after(f"{VISIBLE_BY_MOUNTS}/", paths)
    by_cdi = _after(f"{CDI_KIND}=", cdi)
    value = envs.get(ENV_VISIBLE_DEVICES, "")
    by_env = [] if value in (_NONE, VISIBLE_BY_MOUNTS) else [name for name in value.split(",") if name]
    return tuple(by_mount or by_cdi or by_env)


def _after(prefix: str, texts: Iterable[str]) -> list[str]:
    return [text.removeprefix(prefix) for text in texts if text.startswith(prefix)]
