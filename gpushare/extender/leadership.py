"""Who may bind: holds the Lease, renews it, gives it back, and knows the holder's address.

Without the right to the Lease this replica binds as if it were alone: a reduced mode that is logged
and measured, meant for one replica.
"""

import asyncio
import contextlib
import datetime as dt
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from http import HTTPStatus

import structlog

from gpushare.errors import ApiError
from gpushare.extender.lease import Move, Sight, Terms, bind_from, decide, lapses_at, look, nobody_since
from gpushare.ports import KubeApi, LeaseRecord

log = structlog.get_logger()


class Leadership:
    """This replica's part in the election."""

    def __init__(
        self,
        api: KubeApi,
        *,
        identity: str,
        address: str,
        terms: Terms,
        catch_up: Callable[[], Awaitable[None]],
    ) -> None:
        self._api = api
        self._identity = identity
        self._address = address
        self._terms = terms
        self._catch_up = catch_up
        self._sight: Sight | None = None
        self._scouted: Sight | None = None
        self._lapses = 0.0
        self._ready = False
        self._joining: asyncio.Task[None] | None = None
        self._gives_back = False
        self._others = False
        self.alone = False

    @property
    def leads(self) -> bool:
        """Whether this replica holds the Lease and has caught up."""
        return self.refusal() is None

    @property
    def holder(self) -> LeaseRecord | None:
        """The holder as last seen, if it is another replica."""
        record = self._sight.record if self._sight else None
        return record if record and record.holder not in ("", self._identity) else None

    def refusal(self) -> str | None:
        """Why a POST must not begin now; None where it may. To be asked right before each POST."""
        if self.alone:
            return None
        if time.monotonic() >= self._lapses:
            return "this extender does not hold the Lease"
        return (
            None
            if self._ready
            else "this extender took the Lease over and is waiting for the last holder's binds"
        )

    def give_back_at_end(self) -> None:
        """Give the Lease back when ``run`` is cancelled. To be called once no bind can be under way any more.

        Otherwise the Lease lapses, and the next holder waits until such a bind must have ended.
        """
        self._gives_back = True

    async def scout(self) -> None:
        """Look at the Lease before the first lists are begun.

        Where nobody holds it, nor takes it before us, those lists show all binds: no other is needed.
        """
        with contextlib.suppress(ApiError):
            self._sight = self._scouted = Sight(await self._api.read_lease(), time.monotonic())
            self._others = self.holder is not None

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
        try:
            async with asyncio.timeout(self._terms.renew_deadline_s):
                await self._step()
        except TimeoutError:
            log.warning("lease_unreachable", reason="no answer in time")
        except ApiError as error:
            if error.status == HTTPStatus.FORBIDDEN:
                self._go_alone(error)
            else:
                log.warning("lease_unreachable", status=error.status, reason=str(error))

    async def _step(self) -> None:
        self._sight = look(self._sight, await self._api.read_lease(), time.monotonic())
        now = time.monotonic()
        move = decide(self._sight, self._identity, now)
        self._others |= self.holder is not None
        if not nobody_since(self._scouted, self._sight):
            self._scouted = None
        if move is Move.FOLLOW:
            self._step_down()
            return
        sight = self._sight
        if move is not Move.RENEW:
            self._start_over()  # somebody else may have bound pods since we last held it
        written = await self._api.write_lease(self._record(sight.record))
        self._sight = look(sight, written, time.monotonic())
        self._lapses = lapses_at(now, self._terms)
        if not self._ready and (self._joining is None or self._joining.done()):
            self._joining = asyncio.create_task(
                self._join(
                    bind_from(sight, self._terms, now, others=self._others), listed=bool(self._scouted)
                )
            )
        self._scouted = None
        self.alone = False

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

    async def _join(self, earliest: float, *, listed: bool) -> None:
        """Wait out the last holder's binds, then see the world as it is before the first own bind.

        ``listed``: nobody can have bound since before the lists that we have.
        """
        log.info("lease_taken", wait_s=round(max(0.0, earliest - time.monotonic()), 1))
        await asyncio.sleep(max(0.0, earliest - time.monotonic()))
        if not listed:
            await self._catch_up()
        self._ready = True
        log.info("leading")

    def _step_down(self) -> None:
        if self._ready or self._joining:
            log.warning("lease_lost", holder=self._sight and self._sight.record and self._sight.record.holder)
        self._start_over()
        self._lapses = 0.0
        self.alone = False

    def _start_over(self) -> None:
        """Not ready before the next catch-up."""
        if self._joining:
            self._joining.cancel()
        self._joining = None
        self._ready = False

    def _go_alone(self, error: ApiError) -> None:
        if not self.alone:
            log.warning(
                "reduced_mode",
                right="leases",
                effect="binds as if it were the only replica",
                reason=str(error),
            )
        self.alone = True

    async def _give_back(self) -> None:
        """Only a Lease that is ours is given back, so that the next holder need not wait."""
        record = self._sight.record if self._sight else None
        self._lapses = 0.0
        if not self._gives_back or record is None or record.holder != self._identity:
            return
        try:
            await self._api.write_lease(replace(record, holder="", address="", duration_s=1))
        except ApiError as error:
            log.warning("lease_not_given_back", reason=str(error))
