"""Who may bind: holds the Lease, renews it, gives it back, and knows the holder's address.

Without the Lease nobody binds, whatever the reason. A single replica that has no right to it can be
started so that it binds all the same (``allow_without_lease``); to begin with that, and to end it, costs
the wait and the lists of any other take-over.
"""

import asyncio
import contextlib
import datetime as dt
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from http import HTTPStatus
from typing import Final

import structlog

from gpushare.errors import ApiError
from gpushare.extender.lease import (
    LeaseAction,
    LeaseDurations,
    Observation,
    bind_from,
    decide,
    goes_alone,
    lapses_at,
    look,
    nobody_since,
    recreated,
)
from gpushare.ports import KubeApi, LeaseRecord

log = structlog.get_logger()

_NOT_HELD: Final = "this extender does not hold the Lease"
_REFUSED: Final = (
    "this extender may not use its Lease ({error}): grant its account get, create and update on leases"
)
_BY_FLAG: Final = ", or start the only replica with --allow-without-lease"
_BY_RESTART: Final = ", or restart it if it is the only replica: --allow-without-lease counts from the start"
_ALONE: Final = "this extender binds without a Lease, which only a single replica may ({error})"
_WAITS: Final = "this extender took the Lease over and is waiting for the last holder's binds"
_WAITS_ALONE: Final = "this extender has no Lease and waits before its first bind as if another still bound"


class Leadership:
    """This replica's part in the election."""

    def __init__(
        self,
        api: KubeApi,
        *,
        identity: str,
        address: str,
        terms: LeaseDurations,
        catch_up: Callable[[], Awaitable[None]],
        allow_without_lease: bool = False,
    ) -> None:
        self._api = api
        self._identity = identity
        self._address = address
        self._terms = terms
        self._catch_up = catch_up
        self._sight: Observation | None = None
        self._scouted: Observation | None = None
        self._lapses = 0.0
        self._ready = False
        self._joining: asyncio.Task[None] | None = None
        self._gives_back = False
        self._allow_without_lease = allow_without_lease
        self._not_before = 0.0
        self._alone = False
        self.reduced: str | None = None
        """What it means, in words, that the right to the Lease is missing; None where it is not."""

    @property
    def leads(self) -> bool:
        """Whether this replica may bind now."""
        return self.refusal() is None

    @property
    def holder(self) -> LeaseRecord | None:
        """The holder as last seen, if it is another replica."""
        record = self._sight.record if self._sight else None
        return record if record and record.holder not in ("", self._identity) else None

    def refusal(self) -> str | None:
        """Why a POST must not begin now; None where it may. To be asked right before each POST."""
        if time.monotonic() >= self._lapses:
            return _NOT_HELD if self._alone else self.reduced or _NOT_HELD
        if self._ready:
            return None
        return _WAITS_ALONE if self._alone else _WAITS

    def give_back_at_end(self) -> None:
        """Give the Lease back when ``run`` is cancelled. To be called once no bind can be under way any more.

        Otherwise the Lease lapses, and the next holder waits until such a bind must have ended.
        """
        self._gives_back = True

    async def scout(self) -> None:
        """Look at the Lease before the first lists are begun.

        Where it was given back, and nobody takes it before us, those lists show all binds: no other is
        needed.
        """
        with contextlib.suppress(ApiError):
            self._sight = self._scouted = Observation(await self._api.read_lease(), time.monotonic())

    async def run(self) -> None:
        """Take part until cancelled; then give the Lease back, or let it lapse."""
        try:
            while True:
                await self._round()
                await asyncio.sleep(self._terms.retry_s)
        finally:
            if self._joining:
                self._joining.cancel()
            await self._give_back()

    async def _round(self) -> None:
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._terms.renew_deadline_s):
                await self._step()
            self.reduced = None
        except TimeoutError:
            log.warning("lease_unreachable", reason="no answer in time")
        except ApiError as error:
            if error.status == HTTPStatus.FORBIDDEN:
                self._refused(error, began)
            else:
                log.warning("lease_unreachable", status=error.status, reason=str(error))

    async def _step(self) -> None:
        record = await self._api.read_lease()
        if self._alone:
            self._join_election()
        now = time.monotonic()
        if record and recreated(self._sight.record if self._sight else None, record):
            self._start_over()
        self._sight = look(self._sight, record, now)
        move = decide(self._sight, self._identity, now)
        if move is LeaseAction.FOLLOW:
            self._step_down()
        else:
            await self._hold(self._sight, move, now)

    async def _hold(self, seen: Observation, move: LeaseAction, now: float) -> None:
        """Take or renew the Lease as it was seen, and get ready to bind."""
        if move is not LeaseAction.RENEW:
            self._start_over()  # somebody else may have bound pods since we last held it
        written = await self._api.write_lease(self._record(seen.record))
        if recreated(seen.record, written):
            self._start_over()  # as above: it was deleted
            seen = Observation(None, now)
        self._sight = look(seen, written, time.monotonic())
        self._lapses = lapses_at(now, self._terms)
        earliest = max(bind_from(seen, self._terms, now), self._not_before)
        self._get_ready(earliest, listed=nobody_since(self._scouted, seen))

    def _refused(self, error: ApiError, asked: float) -> None:
        """The API server says that we have no right to the Lease: nobody binds without one but by choice."""
        alone = goes_alone(self._sight, allowed=self._allow_without_lease)
        way_out = _BY_RESTART if self._allow_without_lease else _BY_FLAG
        before, self.reduced = self.reduced, (_ALONE if alone else _REFUSED + way_out).format(error=error)
        if self.reduced != before:
            log.warning("reduced_mode", right="leases", effect=self.reduced)
        if alone:
            self._bind_alone(asked)

    def _bind_alone(self, asked: float) -> None:
        """Hold on as if the refusal were a renewal: who hears nothing from the API server stops binding."""
        now = time.monotonic()
        if now >= self._lapses:
            self._start_over()
            self._not_before = now + self._terms.take_over_s
        self._alone = True
        self._lapses = lapses_at(asked, self._terms)
        self._get_ready(self._not_before)

    def _join_election(self) -> None:
        """The Lease can be read: stop binding without it. Others may still do so, unseen."""
        log.info("lease_readable")
        self._start_over()
        self._alone = False
        self.reduced = None
        self._lapses = 0.0
        self._not_before = time.monotonic() + self._terms.take_over_s

    def _record(self, seen: LeaseRecord | None) -> LeaseRecord:
        transitions = (seen.transitions if seen else 0) + (seen is None or seen.holder != self._identity)
        return LeaseRecord(
            holder=self._identity,
            address=self._address,
            duration_s=round(self._terms.lease_s),
            renewed=dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            transitions=transitions,
            version=seen.version if seen else "",
        )

    def _get_ready(self, earliest: float, *, listed: bool = False) -> None:
        """See to it that somebody is at it, if we are not ready yet."""
        if not self._ready and (self._joining is None or self._joining.done()):
            self._joining = asyncio.create_task(self._join(earliest, listed=listed))

    async def _join(self, earliest: float, *, listed: bool) -> None:
        """Wait out the last holder's binds, then see the world as it is before the first own bind.

        ``listed``: nobody can have bound since before the lists that we have.
        """
        wait_s = max(0.0, earliest - time.monotonic())
        log.info("waiting_to_bind", wait_s=round(wait_s, 1), lease=not self._alone)
        await asyncio.sleep(wait_s)
        if not listed:
            await self._catch_up()
        self._ready = True
        log.info("leading")

    def _step_down(self) -> None:
        if self._ready or self._joining:
            log.warning("lease_lost", holder=self._sight and self._sight.record and self._sight.record.holder)
        self._start_over()
        self._lapses = 0.0

    def _start_over(self) -> None:
        """Not ready before the next catch-up."""
        if self._joining:
            self._joining.cancel()
        self._joining = None
        self._ready = False

    async def _give_back(self) -> None:
        """Only who could bind now gives the Lease back, so that the next holder need not wait.

        Any other may have taken it over from one whose binds are still to be waited for.
        """
        record = self._sight.record if self._sight else None
        may = self._gives_back and self.leads
        self._lapses = 0.0
        if not may or record is None:
            return
        try:
            await self._api.write_lease(replace(record, holder="", address="", duration_s=1))
        except ApiError as error:
            log.warning("lease_not_given_back", reason=str(error))
