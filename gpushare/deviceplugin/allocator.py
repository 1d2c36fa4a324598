"""Allocate calls, one after the other: match, decide, write down, answer.

The kubelet never asks a second time for a pod that was refused, so a pod that is not known yet is waited
for, and so is a card whose last pod is still going. What is answered is on the disk before.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import structlog

from gpushare.contract import EVENT_REFUSED
from gpushare.deviceplugin.answer import Style, answer_for, picks_itself, poison
from gpushare.deviceplugin.decision import NO_ROOM, Granted, decide, no_core, no_core_left, unmatched
from gpushare.deviceplugin.household import Household
from gpushare.deviceplugin.ids import card_of, cards_by_name
from gpushare.deviceplugin.interface import Answer, Refused
from gpushare.deviceplugin.lineup import Unit
from gpushare.deviceplugin.matching import Call, Match, core_only, match, match_core, twin_with_core
from gpushare.deviceplugin.record import Record
from gpushare.deviceplugin.tenancy import Grant, Key, choose, core_fits
from gpushare.errors import ConfigError
from gpushare.model.tenants import Tenant
from gpushare.ports import Note, pod_note
from gpushare.scheduling.fitting import Refusal

log = structlog.get_logger()

T = TypeVar("T")

PATIENCE_S: Final = 5.0
_LOOK_AGAIN_S: Final = 0.25


@dataclass(frozen=True, slots=True)
class Manners:
    """Settings: the style of answers, the unit, and whether refusals go out as the original's poison."""

    style: Style
    unit: Unit
    poison: bool = False
    patience_s: float = PATIENCE_S


class Allocator:
    """Serves both resources of one node.

    ``strangers`` asks the kubelet itself for its pods: static ones are not in the API yet.
    """

    def __init__(
        self,
        household: Household,
        record: Record,
        manners: Manners,
        *,
        tell: Callable[[Note], None],
        strangers: Callable[[], Awaitable[list[Tenant]]] | None = None,
    ) -> None:
        self.manners = manners
        self._household = household
        self._record = record
        self._tell = tell
        self._strangers = strangers
        self._turn = asyncio.Lock()
        self._core_asked: int | None = None
        self._last: Grant | None = None
        self._refusals: frozenset[Key] = frozenset()

    def wanted_cards(self, amount: int) -> tuple[int, ...]:
        """The cards on which the next container of that amount belongs, as far as one can know."""
        return self._cards_for(self._match(amount, frozenset()))

    def core_cards(self, percent: int) -> tuple[int, ...]:
        """The same for a container that asks for that share of compute."""
        done = self._household.refresh()
        return self._cards_for(match_core(self._household.tenancy, percent, done))

    def _cards_for(self, found: Match | None) -> tuple[int, ...]:
        demand = found.tenant.demand if found else None
        if found is None or demand is None:
            return ()
        cards = choose(self._household.tenancy, found.tenant, demand)
        return () if isinstance(cards, Refusal) else cards

    async def serve_mem(self, ids: Sequence[str]) -> Answer | Refused:
        """The container's card, or why it gets none."""
        async with self._turn:
            self._last = None
            outcome = await self._serve(tuple(ids))
            self._core_asked = None
        if isinstance(outcome, Refused) and self.manners.poison:
            log.warning("allocate_refused", reason=outcome.reason, text=outcome.text, answer="poison")
            return poison(len(ids), self.manners.unit, self._household.tenancy.cards)
        return outcome

    async def serve_core(self, ids: Sequence[str]) -> Answer | Refused:
        """Nothing but consent: the card comes with the memory, of which the kubelet asks apart.

        It asks for both in any order. After memory, the compute is for that very container, which may
        be a twin of the one that was thought of: it must fit on the card that was given.
        """
        percent = len(ids)
        async with self._turn:
            last, self._last = self._last, None
            if last and twin_with_core(self._household.tenancy, last, percent, self._household.refresh()):
                fits = core_fits(self._household.tenancy, last, percent)
                return Answer() if fits else self._refused(no_core_left(last, percent), None)
            return await self._consent_to_core(percent)

    async def _consent_to_core(self, percent: int) -> Answer | Refused:
        """The compute comes first: the memory that is asked for next is of such a container."""
        attempt = self._core_match(percent)
        lonely = core_only(self._household.tenancy, percent)
        if lonely and not attempt():
            return self._refused(no_core(self._household.tenancy, percent, lonely), lonely)
        if await self._once(attempt):
            self._core_asked = percent
            return Answer()
        return self._refused(no_core(self._household.tenancy, percent, None), None)

    def _core_match(self, percent: int) -> Callable[[], Match | None]:
        return lambda: match_core(self._household.tenancy, percent, self._household.refresh())

    async def _serve(self, ids: tuple[str, ...]) -> Answer | Refused:
        if self._household.refusal:
            return Refused("not_serving", self._household.refusal)
        names = cards_by_name(self._household.tenancy.cards)
        cards = {card.index for each in ids if (card := card_of(each, names))}
        found = await self._once(lambda: self._match(len(ids), frozenset(cards)))
        if found is None:
            return self._refused(unmatched(self._household.tenancy, len(ids)), None)
        picks = picks_itself(found.tenant, found.container.name, self.manners.style)
        decision = picks or await self._decision(found, ids)
        return (
            self._refused(decision, found) if isinstance(decision, Refused) else await self._granted(decision)
        )

    def _match(self, amount: int, cards: frozenset[int]) -> Match | None:
        done = self._household.refresh()
        tenancy = self._household.tenancy
        call = Call(amount, cards, self._core_asked, done, self._refusals)
        found = match(tenancy, call) or (match(tenancy, replace(call, core=None)) if call.core else None)
        log.debug("matched", amount=amount, cards=sorted(cards), pod=found and found.tenant.pod.full_name)
        return found

    async def _decision(self, found: Match, ids: tuple[str, ...]) -> Granted | Refused:
        """A card that a pod is just leaving is waited for."""

        def attempt() -> Granted | Refused | None:
            leaving = self._household.let_go()
            decision = decide(self._household.tenancy, found, ids, time.time_ns())
            wait = isinstance(decision, Refused) and decision.reason == NO_ROOM and leaving
            return None if wait else decision

        return await self._once(attempt) or decide(self._household.tenancy, found, ids, time.time_ns())

    async def _granted(self, decision: Granted) -> Answer | Refused:
        """Taken in, then written down, then answered: a crash in between loses no promise."""
        grant = decision.grant
        self._household.take_grant(grant)
        try:
            await self._record.keep(lambda: self._household.tenancy.grants)
        except ConfigError as error:
            self._household.drop_grant(grant)
            return self._refused(Refused("record", str(error)), decision.match)
        self._last = grant
        log.info("allocated", pod=grant.pod, container=grant.container, cards=dict(grant.cards))
        return answer_for(self._household.tenancy, grant, decision.demand, self.manners.style)

    def _refused(self, refused: Refused, found: Match | None) -> Refused:
        if found:
            here = self._household.tenancy.tenants
            self._refusals = frozenset(key for key in self._refusals if key[0] in here)
            self._refusals |= {(found.tenant.uid, found.container.name)}
            self._tell(pod_note(found.tenant.pod, EVENT_REFUSED, refused.text, warning=True))
        return refused

    async def _once(self, attempt: Callable[[], T | None]) -> T | None:
        """What the attempt gives as soon as it gives something; None when the patience is over."""
        deadline = time.monotonic() + self.manners.patience_s
        asked = False
        while (result := attempt()) is None and (left_s := deadline - time.monotonic()) > 0:
            if self._strangers and not asked:
                asked = True
                self._household.take_strangers(await self._strangers())
            else:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._household.changed(), min(left_s, _LOOK_AGAIN_S))
        return result
