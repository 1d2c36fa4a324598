"""The job that makes parts of a card's time real: looks at cards and regions, and writes into the regions.

What belongs here: when to look, and the files. What does not: whose processes are which (``occupants``),
and what follows from that (``pacing``, ``strays``). While nobody is held nothing is done; containers that
are held to their memory alone are looked at now and then, for the size of their contexts. Then it is also
seen which memory of their cards no limit holds.
"""

import asyncio
import math
import time
from collections.abc import Mapping
from typing import Final, NamedTuple

import structlog

from gpushare.adapters.cgroups import containers_of
from gpushare.deviceplugin.core.allocations import Enforcement
from gpushare.deviceplugin.core.pacing import ContainerPacing, Seen, pace, unmeasured
from gpushare.deviceplugin.core.uncounted import UncountedProcess, uncounted_beside, uncounted_in
from gpushare.deviceplugin.isolation.manager import EnforcementManager
from gpushare.deviceplugin.isolation.process_owners import Found, ProcessOwners
from gpushare.deviceplugin.isolation.reporter import UncountedReporter
from gpushare.deviceplugin.metrics import PluginMetrics
from gpushare.deviceplugin.node.state import NodeState
from gpushare.errors import GpuError, InvalidRequest, SourceError
from gpushare.isolation.files import region_at, write_region
from gpushare.isolation.layout import REGION
from gpushare.isolation.limits import parse
from gpushare.ports import ProcessDriver

log = structlog.get_logger()

COMPUTE: Final = "compute"
"""What the metric of reduced modes calls it."""
_EVERY_S: Final = 1.0
_CONTEXTS_EVERY_S: Final = 10.0
_CARDS: Final = "cards"

Holds = Mapping[str, Enforcement]
"""By place."""


class PacingRound(NamedTuple):
    """Of a look: whether all could be measured that have a part of a card's time; and what no limit holds."""

    told: bool = True
    uncounted: tuple[UncountedProcess, ...] = ()


class Pacer:
    """Serves the containers of one household."""

    def __init__(
        self,
        node_state: NodeState,
        keeper: EnforcementManager,
        loads: ProcessDriver,
        occupants: ProcessOwners,
        reporter: UncountedReporter,
        metrics: PluginMetrics,
    ) -> None:
        self._node_state = node_state
        self._keeper = keeper
        self._loads = loads
        self._occupants = occupants
        self._reporter = reporter
        self._accounts: dict[str, ContainerPacing] = {}
        self._troubles: dict[str, str] = {}
        self._contexts_at = -math.inf
        self._sampled_at: float | None = None
        metrics.sample_age.set_function(lambda: self.age_s)

    @property
    def age_s(self) -> float:
        """How old the last sample is by which rates are set; 0 where nobody needs one."""
        return 0.0 if self._sampled_at is None else time.monotonic() - self._sampled_at

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            holds = {hold.place: hold for hold in self._keeper.holds.values()}
            if not holds:
                self._sampled_at = None
                await self._node_state.changed()
                continue
            try:
                await self.round(holds)
            except Exception:  # a defect costs one round; where it costs all, the samples grow old
                log.exception("pacing_failed")
            await asyncio.sleep(_EVERY_S)

    async def round(self, holds: Holds) -> None:
        """One look at those who need one now."""
        now = time.monotonic()
        paced = {place: hold for place, hold in holds.items() if hold.launches}
        if not paced:
            self._sampled_at = None
        elif self._sampled_at is None:
            self._sampled_at = now
        due = now - self._contexts_at >= _CONTEXTS_EVERY_S
        if not (due or paced):
            return
        try:
            found = await self._loads.processes()
            # Many files, some as a container left them: not on the thread that answers the kubelet.
            looked_at, cards = (holds, self._keeper.cards) if due else (paced, frozenset[str]())
            outcome = await asyncio.to_thread(self._look_at, looked_at, found, cards)
        except (GpuError, SourceError, OSError) as error:
            self._tell(_CARDS, str(error))
            return
        self._tell(_CARDS, "")
        if due:
            self._contexts_at = now
            self._reporter.take(outcome.uncounted)
        if paced and outcome.told:
            self._sampled_at = now
        self._accounts = {place: each for place, each in self._accounts.items() if place in holds}
        self._troubles = {what: each for what, each in self._troubles.items() if what in holds}

    def _look_at(self, holds: Holds, found: Found, cards: frozenset[str]) -> PacingRound:
        """``cards`` are those on which others than these are looked for too. Raises SourceError."""
        seen = self._occupants.look(found)
        outcomes = [
            self._one(hold, {uuid: on.get(place, {}) for uuid, on in seen.held.items()})
            for place, hold in holds.items()
        ]
        others = {uuid: on for uuid, on in seen.others.items() if uuid in cards}
        pids = {each.pid for on in others.values() for each in on if not self._occupants.serves(each.pid)}
        homes = containers_of(pids, self._occupants.proc)
        uncounted = (
            *(each for outcome in outcomes for each in outcome.uncounted),
            *uncounted_beside(others, homes),
        )
        return PacingRound(all(outcome.told for outcome in outcomes), uncounted)

    def _one(self, hold: Enforcement, seen: Mapping[str, Seen]) -> PacingRound:
        if not (hold.launches or any(seen.values())):
            return PacingRound()
        try:
            limits = parse(hold.limit)
            path = self._occupants.state / hold.place / REGION
            region = region_at(path, limits)
            before = self._accounts.get(hold.place, ContainerPacing())
            on = [seen.get(limit.uuid) for limit in limits]
            account, writes = pace(limits, region, on, time.monotonic_ns(), before)
            if writes:
                write_region(path, writes)
        except (OSError, SourceError, InvalidRequest) as error:
            self._accounts.pop(hold.place, None)
            self._tell(hold.place, str(error))
            return PacingRound()
        self._tell(hold.place, "")
        self._accounts[hold.place] = account
        return PacingRound(
            not unmeasured(limits, account), tuple(uncounted_in(hold.place, limits, region, seen))
        )

    def _tell(self, what: str, trouble: str) -> None:
        """Each once, until it is another."""
        if trouble and trouble != self._troubles.get(what):
            log.warning("not_paced", what=what, reason=trouble, effect="the last rates stay")
        self._troubles[what] = trouble
