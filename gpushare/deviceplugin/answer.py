"""The answer to an Allocate call: environment, mounts and device names of one container."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
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
from gpushare.deviceplugin.interface import Answer, Mount, Refused
from gpushare.deviceplugin.lineup import Unit
from gpushare.deviceplugin.mps import Part, envs_of
from gpushare.deviceplugin.tenancy import Grant, Tenancy
from gpushare.isolation.layout import Folders, binds
from gpushare.model.cards import Card
from gpushare.model.demand import Demand
from gpushare.model.tenants import Tenant
from gpushare.mps.layout import Folders as MpsFolders
from gpushare.mps.layout import mounted

_NONE: Final = "void"
"""Tells NVIDIA's runtime to add no device of its own."""


class Strategy(StrEnum):
    """How a container is told its cards."""

    MOUNTS = "volume-mounts"
    CDI = "cdi"
    ENV = "envvar"


@dataclass(frozen=True, slots=True)
class Style:
    """Settings of the answer. ``by_index`` names cards by index as the original does, not by UUID.

    ``folders`` are where the node has what holds containers, ``mps`` where it has what MPS needs.
    """

    strategy: Strategy = Strategy.MOUNTS
    by_index: bool = False
    folders: Folders = field(default_factory=Folders)
    mps: MpsFolders = field(default_factory=MpsFolders)


def answer_for(
    tenancy: Tenancy, grant: Grant, demand: Demand, style: Style, mps: Part | None = None
) -> Answer:
    """What the container of the grant gets; ``mps`` is its part where MPS serves its card."""
    answer = _cards_for(tenancy, grant, demand, style)
    mounts = (*answer.mounts, *_hold_for(grant, style))
    if mps is None:
        return replace(answer, mounts=mounts)
    # As NVIDIA's own device plugin mounts them: whether programs write into the pipes' folder is not told.
    shared = (Mount(host, inside, read_only=False) for inside, host in mounted(style.mps, mps.card).items())
    return replace(answer, envs={**answer.envs, **envs_of(mps)}, mounts=(*mounts, *shared))


def _hold_for(grant: Grant, style: Style) -> Iterator[Mount]:
    if grant.hold:
        for bind in binds(style.folders, grant.hold.given):
            yield Mount(bind.host, bind.inside, bind.read_only)


def _cards_for(tenancy: Tenancy, grant: Grant, demand: Demand, style: Style) -> Answer:
    cards = sorted(_cards(tenancy, grant), key=lambda card: card.index)
    names = [str(card.index) if style.by_index else card.uuid for card in cards]
    envs = {
        ENV_IDX: str(cards[0].index),
        ENV_POD: str(demand.mem),
        ENV_CONTAINER: str(grant.units),
        ENV_DEV: str(cards[0].units),
        **({} if tenancy.isolated else {ENV_NO_ISOLATION: "true"}),
    }
    match style.strategy:
        case Strategy.ENV:
            return Answer({**envs, ENV_VISIBLE_DEVICES: ",".join(names)})
        case Strategy.CDI:
            devices = tuple(f"{CDI_KIND}={name}" for name in names)
            return Answer({**envs, ENV_VISIBLE_DEVICES: _NONE}, cdi_devices=devices)
        case Strategy.MOUNTS:
            mounts = tuple(Mount("/dev/null", f"{VISIBLE_BY_MOUNTS}/{name}") for name in names)
            return Answer({**envs, ENV_VISIBLE_DEVICES: VISIBLE_BY_MOUNTS}, mounts)


def _cards(tenancy: Tenancy, grant: Grant) -> list[Card]:
    uuids = {uuid for uuid, _ in grant.cards}
    return [card for card in tenancy.cards if card.uuid in uuids]


def picks_itself(tenant: Tenant, container: str, style: Style) -> Refused | None:
    """Why a container that names its devices by environment cannot be held to its card that way.

    The pod's own value comes last in the container's environment and wins over the plugin's.
    """
    if style.strategy is not Strategy.ENV or container not in tenant.picks_devices:
        return None
    return Refused(
        "own_devices",
        f"pod {tenant.pod.full_name}, container {container} sets {ENV_VISIBLE_DEVICES} itself, which would "
        "win over its card: take it out of the pod, or start the device plugin with "
        f"--device-list-strategy={Strategy.MOUNTS}",
    )


def poison(amount: int, unit: Unit, cards: tuple[Card, ...], reason: str) -> Answer:
    """The original's answer where no card is found: the container starts and NVIDIA's hook fails it."""
    return Answer(
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
