"""The response to an Allocate call: environment, mounts and device names of one container. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from gpushare.contract import (
    CDI_KINDS,
    ENV_CONTAINER,
    ENV_DEV,
    ENV_IDX,
    ENV_NO_ISOLATION,
    ENV_POD,
    ENV_VISIBLE_DEVICES,
    VISIBLE_BY_MOUNTS,
)
from gpushare.deviceplugin.core.allocations import Allocation, Allocations
from gpushare.deviceplugin.core.interface import AllocateResponse, Mount
from gpushare.deviceplugin.core.limits import MpsShare, envs_of
from gpushare.isolation.layout import IsolationDirs, bind_mounts
from gpushare.model.cards import Card
from gpushare.model.demand import Demand
from gpushare.model.device_lists import DeviceList
from gpushare.model.options import DeviceListStrategy, MemoryUnit
from gpushare.mps.layout import MpsDirs, mounted

_NONE: Final = "void"
"""Makes NVIDIA's container runtime add no devices."""


@dataclass(frozen=True, slots=True)
class ResponseSettings:
    """Settings of the response. ``by_index`` names GPUs by index, as the Aliyun plugin does, not by UUID.

    ``folders`` are the isolation directories of the node, ``mps`` its MPS directories.
    """

    by_index: bool = False
    folders: IsolationDirs = field(default_factory=IsolationDirs)
    mps: MpsDirs = field(default_factory=MpsDirs)


def response_for(
    allocations: Allocations,
    allocation: Allocation,
    demand: Demand,
    device_list: DeviceList,
    settings: ResponseSettings,
    mps: MpsShare | None = None,
) -> AllocateResponse:
    """The response for the container of the allocation; ``mps`` are its MPS limits, None without MPS.

    ``device_list`` is how it gets its GPUs.
    """
    cards = sorted(_cards(allocations, allocation), key=lambda card: card.index)
    names = [str(card.index) if settings.by_index else card.uuid for card in cards]
    response = _with_devices(_envs(allocations, allocation, demand, cards[0]), names, device_list)
    mounts = (*response.mounts, *_isolation_mounts(allocation, settings))
    if mps is None:
        return replace(response, mounts=mounts)
    # Writable as with NVIDIA's device plugin: programs may write to the pipe directory.
    shared = (
        Mount(host, inside, read_only=False) for inside, host in mounted(settings.mps, mps.card).items()
    )
    return replace(response, envs={**response.envs, **envs_of(mps)}, mounts=(*mounts, *shared))


def _isolation_mounts(allocation: Allocation, settings: ResponseSettings) -> Iterator[Mount]:
    if allocation.enforcement:
        for bind in bind_mounts(settings.folders, allocation.enforcement.mounts):
            yield Mount(bind.host, bind.inside, bind.read_only)


def _envs(allocations: Allocations, allocation: Allocation, demand: Demand, first: Card) -> dict[str, str]:
    return {
        ENV_IDX: str(first.index),
        ENV_POD: str(demand.mem),
        ENV_CONTAINER: str(allocation.units),
        ENV_DEV: str(first.units),
        **({} if allocations.isolated else {ENV_NO_ISOLATION: "true"}),
    }


def _with_devices(envs: dict[str, str], names: list[str], device_list: DeviceList) -> AllocateResponse:
    match device_list.strategy:
        case DeviceListStrategy.ENV:
            return AllocateResponse({**envs, ENV_VISIBLE_DEVICES: ",".join(names)})
        case DeviceListStrategy.CDI:
            devices = tuple(f"{device_list.cdi_kind}={name}" for name in names)
            return AllocateResponse({**envs, ENV_VISIBLE_DEVICES: _NONE}, cdi_devices=devices)
        case DeviceListStrategy.MOUNTS:
            mounts = tuple(Mount("/dev/null", f"{VISIBLE_BY_MOUNTS}/{name}") for name in names)
            return AllocateResponse({**envs, ENV_VISIBLE_DEVICES: VISIBLE_BY_MOUNTS}, mounts)


def _cards(allocations: Allocations, allocation: Allocation) -> list[Card]:
    uuids = {uuid for uuid, _ in allocation.cards}
    return [card for card in allocations.cards if card.uuid in uuids]


def failing_response(reason: str) -> AllocateResponse:
    """A response with which no container starts: every runtime refuses a device that the node does not have.

    The error of the runtime contains the name of the device, and so the reason.
    """
    device = f"/dev/gpushare-rejected-{reason}"
    return AllocateResponse({ENV_VISIBLE_DEVICES: _NONE}, devices=(device,), result=reason)


def legacy_failure(amount: int, unit: MemoryUnit, cards: tuple[Card, ...], reason: str) -> AllocateResponse:
    """The Aliyun plugin's response without a suitable GPU: NVIDIA's hook fails the container at its start."""
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


def named_gpus(envs: Mapping[str, str], paths: Iterable[str], cdi: Iterable[str]) -> tuple[str, ...]:
    """The UUIDs or indices of the GPUs in the response of any device plugin.

    ``paths`` are the paths of the mounts in the container, ``cdi`` the names of CDI devices.
    """
    by_mount = _after(f"{VISIBLE_BY_MOUNTS}/", paths)
    by_cdi = [name for kind in CDI_KINDS for name in _after(f"{kind}=", cdi)]
    value = envs.get(ENV_VISIBLE_DEVICES, "")
    by_env = [] if value in (_NONE, VISIBLE_BY_MOUNTS) else [name for name in value.split(",") if name]
    return tuple(by_mount or by_cdi or by_env)


def _after(prefix: str, texts: Iterable[str]) -> list[str]:
    return [text.removeprefix(prefix) for text in texts if text.startswith(prefix)]
