"""Allocate calls, one after the other: match, decide, write down, answer.

The kubelet never asks a second time for a pod that was refused, so a pod that is not known yet is waited
for, and so is a card whose last pod is still going. All waits of a call share one deadline: the kubelet
sets none, but admits no other pod meanwhile. What is answered is on the disk before.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import structlog

from gpushare.contract import EVENT_REFUSED
from gpushare.deviceplugin.core.allocations import Allocation, Key, choose, core_fits
from gpushare.deviceplugin.core.decision import (
    NO_LIBRARY,
    NO_MPS,
    NO_ROOM,
    Granted,
    decide,
    no_core,
    no_core_left,
    unmatched,
)
from gpushare.deviceplugin.core.device_ids import card_of, cards_by_name
from gpushare.deviceplugin.core.interface import AllocateResponse, Rejected
from gpushare.deviceplugin.core.matching import (
    AllocateCall,
    Match,
    contested,
    core_only,
    match,
    match_core,
    twin_with_core,
)
from gpushare.deviceplugin.core.response import (
    ResponseSettings,
    legacy_failure_env,
    response_for,
    sets_visible_devices,
)
from gpushare.deviceplugin.isolation.manager import EnforcementManager
from gpushare.deviceplugin.kubelet.client import KubeletClient
from gpushare.deviceplugin.kubelet.retries import Retries
from gpushare.deviceplugin.node.release import CardReleaser
from gpushare.deviceplugin.node.state import NodeState
from gpushare.deviceplugin.watchdog import Watchdog
from gpushare.errors import ConfigError
from gpushare.model.options import MemoryUnit
from gpushare.ports import Event, pod_event
from gpushare.scheduling.fitting import Rejection

log = structlog.get_logger()

PATIENCE_S: Final = 5.0
_PREFERENCE_S: Final = 1.0
"""How long the kubelet's choice of IDs may wait for a pod that it knows and the API has not shown yet."""
_STUCK_S: Final = 30.0
"""Beyond its patience a call waits for the disk alone."""


@dataclass(frozen=True, slots=True)
class AllocateSettings:
    """Settings: the style of answers, the unit, and whether refusals go out as the original's poison."""

    style: ResponseSettings
    unit: MemoryUnit
    legacy_failure_env: bool = False
    patience_s: float = PATIENCE_S


class _Decision(NamedTuple):
    """A decision and whom it is for."""

    match: Match
    decision: Granted | Rejected


class Allocator:
    """Serves both resources of one node. ``tell`` takes events."""

    def __init__(
        self,
        node_state: NodeState,
        releaser: CardReleaser,
        keeper: EnforcementManager,
        manners: AllocateSettings,
        *,
        kubelet: KubeletClient,
        tell: Callable[[Event], None],
        watchdog: Watchdog,
    ) -> None:
        self._manners = manners
        self._node_state = node_state
        self._releaser = releaser
        self._keeper = keeper
        self._kubelet = kubelet
        self._attempts = Retries(node_state, kubelet)
        self._tell = tell
        self._watchdog = watchdog
        self._turn = asyncio.Lock()
        self._core_asked: int | None = None
        self._last: Allocation | None = None
        self._refusals: frozenset[Key] = frozenset()

    async def wanted_cards(self, amount: int) -> tuple[int, ...]:
        """The cards on which the next container of that amount belongs, as far as one can know.

        With IDs of other cards the kubelet would fail the container after a reboot without those cards.
        """
        return await self._cards_of(lambda: self._match(self._call(amount)))

    async def core_cards(self, percent: int) -> tuple[int, ...]:
        """The same for a container that asks for that share of compute."""

        def look() -> Match | None:
            done = self._node_state.refresh()
            return match_core(self._node_state.allocations, percent, done)

        return await self._cards_of(look)

    async def _cards_of(self, look: Callable[[], Match | None]) -> tuple[int, ...]:
        async def attempt(*, last: bool) -> Match | None:
            del last
            return look()

        patience_s = min(_PREFERENCE_S, self._manners.patience_s)
        found = await self._attempts.until(attempt, time.monotonic() + patience_s)
        return self._cards_for(found) if found else ()

    def _cards_for(self, found: Match) -> tuple[int, ...]:
        demand = found.gpu_pod.demand
        if demand is None:
            return ()
        cards = choose(self._node_state.allocations, found.gpu_pod, demand)
        return () if isinstance(cards, Rejection) else cards

    async def serve_mem(self, ids: Sequence[str]) -> AllocateResponse | Rejected:
        """The container's card, or why it gets none."""
        deadline = self._deadline()
        with self._watchdog.work("allocate", self._manners.patience_s + _STUCK_S):
            async with self._turn:
                self._last = None
                outcome = await self._serve(tuple(ids), deadline)
                self._core_asked = None
        if isinstance(outcome, Rejected) and self._manners.legacy_failure_env:
            log.warning("allocate_refused", reason=outcome.reason, text=outcome.text, answer="poison")
            return legacy_failure_env(
                len(ids), self._manners.unit, self._node_state.allocations.cards, outcome.reason
            )
        return outcome

    async def serve_core(self, ids: Sequence[str]) -> AllocateResponse | Rejected:
        """Nothing but consent: the card comes with the memory, of which the kubelet asks apart.

        It asks for both in any order. After memory, the compute is for that very container, which may
        be a twin of the one that was thought of: it must fit on the card that was given.
        """
        percent, deadline = len(ids), self._deadline()
        with self._watchdog.work("allocate", self._manners.patience_s + _STUCK_S):
            async with self._turn:
                last, self._last = self._last, None
                if last and twin_with_core(
                    self._node_state.allocations, last, percent, self._node_state.refresh()
                ):
                    fits = core_fits(self._node_state.allocations, last, percent)
                    return AllocateResponse() if fits else self._refused(no_core_left(last, percent), None)
                return await self._consent_to_core(percent, deadline)

    async def _consent_to_core(self, percent: int, deadline: float) -> AllocateResponse | Rejected:
        """The compute comes first: the memory that is asked for next is of such a container."""

        async def attempt(*, last: bool) -> Match | None:
            del last
            return match_core(self._node_state.allocations, percent, self._node_state.refresh())

        lonely = core_only(self._node_state.allocations, percent)
        if lonely and not await attempt(last=True):
            return self._refused(no_core(self._node_state.allocations, percent, lonely), lonely)
        if await self._attempts.until(attempt, deadline):
            self._core_asked = percent
            return AllocateResponse()
        return self._refused(no_core(self._node_state.allocations, percent, None), None)

    async def _serve(self, ids: tuple[str, ...], deadline: float) -> AllocateResponse | Rejected:
        if self._node_state.not_serving_reason:
            return Rejected("not_serving", self._node_state.not_serving_reason)

        async def attempt(*, last: bool) -> _Decision | None:
            return await self._verdict(ids, last=last)

        verdict = await self._attempts.until(attempt, deadline)
        if verdict is None:
            return self._refused(unmatched(self._node_state.allocations, len(ids)), None)
        if isinstance(verdict.decision, Rejected):
            return self._refused(verdict.decision, verdict.match)
        return await self._granted(verdict.decision)

    async def _verdict(self, ids: tuple[str, ...], *, last: bool) -> _Decision | None:
        """What can be decided by now; None where waiting may help. From the match on nothing is awaited."""
        leaving = await self._releaser.release_terminated()
        call = self._call(len(ids), ids)
        if contested(self._node_state.allocations, call):
            known = await self._kubelet.names()
            call = replace(self._call(len(ids), ids), known=known)
        found = self._match(call)
        if found is None:
            return None
        decision = sets_visible_devices(found.gpu_pod, found.container.name, self._manners.style) or decide(
            self._node_state.allocations, found, ids, time.time_ns()
        )
        if isinstance(decision, Granted):
            decision = self._keeper.hold(decision)
        reason = decision.reason if isinstance(decision, Rejected) else ""
        in_vain = reason in (NO_LIBRARY, NO_MPS) or (reason == NO_ROOM and leaving)
        return None if in_vain and not last else _Decision(found, decision)

    def _call(self, amount: int, ids: Sequence[str] = ()) -> AllocateCall:
        done = self._node_state.refresh()
        names = cards_by_name(self._node_state.allocations.cards)
        cards = frozenset(card.index for each in ids if (card := card_of(each, names)))
        return AllocateCall(amount, cards, self._core_asked, done, self._refusals)

    def _match(self, call: AllocateCall) -> Match | None:
        allocations = self._node_state.allocations
        found = match(allocations, call) or (
            match(allocations, replace(call, core=None)) if call.core else None
        )
        pod = found and found.gpu_pod.pod.full_name
        log.debug("matched", amount=call.amount, cards=sorted(call.cards), pod=pod)
        return found

    async def _granted(self, decision: Granted) -> AllocateResponse | Rejected:
        """Taken in, then written down, then answered: a crash in between loses no promise."""
        grant = decision.grant
        before = self._node_state.allocations.grants.get(grant.key)
        self._node_state.add_allocation(grant)
        try:
            await self._keeper.write(grant)
        except ConfigError as error:
            self._node_state.revert_allocation(grant, before)
            return self._refused(Rejected("record", str(error)), decision.match)
        self._last = grant
        log.info("allocated", pod=grant.pod, container=grant.container, cards=dict(grant.cards))
        style = self._manners.style
        return response_for(self._node_state.allocations, grant, decision.demand, style, decision.mps)

    def _refused(self, refused: Rejected, found: Match | None) -> Rejected:
        if found:
            here = self._node_state.allocations.gpu_pods
            self._refusals = frozenset(key for key in self._refusals if key[0] in here)
            self._refusals |= {(found.gpu_pod.uid, found.container.name)}
            self._tell(pod_event(found.gpu_pod.pod, EVENT_REFUSED, refused.text, warning=True))
        return refused

    def _deadline(self) -> float:
        """When a call that comes now has to be answered."""
        return time.monotonic() + self._manners.patience_s
