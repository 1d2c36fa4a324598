"""A household, its allocator and what is around them, with nothing running; the kubelet is the test."""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path

from gpushare.adapters.kube.watch import Deleted, Upserted
from gpushare.deviceplugin.allocator import Allocator, Manners
from gpushare.deviceplugin.answer import Strategy, Style
from gpushare.deviceplugin.asking import Kubelet
from gpushare.deviceplugin.controls import Controls
from gpushare.deviceplugin.departures import Departures
from gpushare.deviceplugin.household import Household, Recorded
from gpushare.deviceplugin.joining import Served
from gpushare.deviceplugin.keeper import Keeper
from gpushare.deviceplugin.lineup import Lineup, Unit
from gpushare.deviceplugin.metrics import PluginMetrics
from gpushare.deviceplugin.places import Places
from gpushare.deviceplugin.plugins import CorePlugin, MemPlugin
from gpushare.deviceplugin.publisher import Publisher
from gpushare.deviceplugin.record import Record
from gpushare.deviceplugin.telling import Teller
from gpushare.deviceplugin.watchdog import Watchdog
from gpushare.isolation.layout import Folders
from gpushare.model.facts import NodeFacts
from gpushare.model.tenants import Tenant
from gpushare.mps.layout import Folders as MpsFolders
from gpushare.ports import Note
from tests.support.tenants import NODE, cards
from tests.unit.deviceplugin.nodeapi import FakeNodeApi


class Setting:
    """``named`` and ``whole`` are what the kubelet's checkpoint says, of units of memory and of whole GPUs.

    ``names`` are the pods that the kubelet has taken in, ``alive`` those whose control group it keeps.
    """

    def __init__(
        self,
        folder: Path,
        *units: int,
        poison: bool = False,
        alive: Iterable[str] = (),
        patience_s: float = 0.3,
        paces: bool = False,
    ) -> None:
        self.named: tuple[Served, ...] | None = ()
        self.names: frozenset[str] | None = None
        self.whole: dict[str, frozenset[str]] = {}
        self.alive = set(alive)
        self.notes: list[Note] = []
        self.strange: list[Tenant] = []
        self.slow_s = 0.0
        self.record = Record(folder, Unit.GIB)
        self.metrics = PluginMetrics()
        self.watchdog = Watchdog(self.metrics)
        self.household = Household(NODE, self.record.read(), self._recorded)
        self.household.take_lineup(Lineup(Unit.GIB, cards(*units)))
        self.household.take_node(NodeFacts(NODE), None)
        self.household.settle()
        self.departures = Departures(self.household, lambda uids: uids & self.alive, beginning_s=0)
        folders = Folders(folder / "libraries", folder / "state")
        mps = MpsFolders(folder / "mps", folder / "shm")
        self.keeper = Keeper(
            self.household, self.record, Places(folders), Controls(mps), self.metrics, paces=paces
        )
        style = Style(Strategy.ENV, folders=folders, mps=mps)
        self.allocator = Allocator(
            self.household,
            self.departures,
            self.keeper,
            Manners(style, Unit.GIB, poison=poison, patience_s=patience_s),
            kubelet=Kubelet(self.ask, self.ask_names),
            tell=self.notes.append,
            watchdog=self.watchdog,
        )
        self.api = FakeNodeApi()
        self.publisher = Publisher(self.api, self.metrics, self.watchdog)
        self.teller = Teller(self.household, self.publisher, self.metrics, style, tell=self.notes.append)
        self.mem = MemPlugin(self.household, self.allocator)
        self.core = CorePlugin(self.household, self.allocator)

    def _recorded(self) -> Recorded | None:
        return None if self.named is None else Recorded(self.named, self.whole)

    async def ask(self) -> list[Tenant]:
        await asyncio.sleep(self.slow_s)
        return self.strange

    async def ask_names(self) -> frozenset[str] | None:
        return self.names

    def come(self, *tenants: Tenant) -> None:
        self.household.take_pods([Upserted(each.pod.uid, each) for each in tenants])

    def go(self, uid: str) -> None:
        self.household.take_pods([Deleted(uid)])

    def confirm(self, uid: str, units: int, lead: str, container: str = "main") -> None:
        self.named = (*(self.named or ()), Served(uid, container, lead, units))
        self.household.refresh()


def ids(card: int, *numbers: int) -> Sequence[str]:
    return [f"GPU-{card}-_-{number}" for number in numbers]
