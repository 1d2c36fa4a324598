"""Leader election: acquires, renews and releases the Lease, and knows the address of its holder.

A replica without the Lease does not bind. ``only_replica`` is for a single replica that uses none.
"""

import asyncio
import contextlib
import datetime as dt
from collections.abc import Awaitable, Callable
from dataclasses import replace
from http import HTTPStatus
from typing import Final

import structlog

from gpushare.errors import ApiError, ApiRestored
from gpushare.extender.api import ExtenderApi
from gpushare.extender.lease import (
    LeaseAction,
    LeaseDurations,
    LeaseObservation,
    Replica,
    binds_from,
    binds_until,
    decide,
    observe,
    recreated,
    restored,
    unchanged_since_release,
    wait_cause,
)
from gpushare.ports import LeaseRecord
from gpushare.runtime.times import boot_time, now_text

log = structlog.get_logger()

_NOT_HELD: Final = "this extender does not hold the Lease"
_REFUSED: Final = (
    "this extender may not use its Lease ({error}): grant its account get, create and update on leases, "
    "or start the only replica with --allow-without-lease"
)
_NOT_ANNOUNCED: Final = "this extender has not announced its binds in the Lease yet"


def waiting_text(wait_s: float, cause: str) -> str:
    """When a replica will begin to bind, and why only then; ``wait_s`` are the seconds until then."""
    from_ = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=max(0.0, wait_s))
    return f"this extender binds from {from_.strftime('%H:%M:%S UTC')} on: {cause}"


class Leadership:
    """This replica's part in the election."""

    def __init__(
        self,
        api: ExtenderApi,
        *,
        replica: Replica,
        durations: LeaseDurations,
        catch_up: Callable[[], Awaitable[None]],
        binding: Callable[[], bool],
        clock: Callable[[], float] = boot_time,
    ) -> None:
        self._api = api
        self._replica = replica
        self._durations = durations
        self._catch_up = catch_up
        self._binding = binding
        self._clock = clock
        self._observation: LeaseObservation | None = None
        self._first_observation: LeaseObservation | None = None
        self._binds_until = 0.0
        self._ready = False
        self._waits = ""
        self._preparation: asyncio.Task[None] | None = None
        self._release_at_end = False
        self._announced = False
        self._wanted = asyncio.Event()
        self._announcements: list[asyncio.Future[None]] = []
        self.degraded: str | None = None
        """The effect of the missing right to the Lease, as text; None if the right is granted."""
        self.began = asyncio.Event()
        """Set whenever this replica starts to lead. The one that waits for it clears it."""

    @property
    def leads(self) -> bool:
        """Whether this replica may bind now, once it has announced that."""
        return self._refusal() is None

    @property
    def waiting(self) -> str | None:
        """Why this replica leads and does not bind yet; None if it binds, or does not lead."""
        return self._waits if self._clock() < self._binds_until and not self._ready else None

    @property
    def holder(self) -> LeaseRecord | None:
        """The last observed holder, if it is another replica."""
        record = self._observation.record if self._observation else None
        return record if record and record.holder not in ("", self._replica.identity) else None

    def fence(self) -> str | None:
        """Why a bind POST must not start now; None if it may. Call it immediately before each POST."""
        refusal = self._refusal()
        if refusal is None and not self._announced:
            return _NOT_ANNOUNCED
        return refusal

    async def announce(self) -> None:
        """Write into the Lease that binds are in progress, unless it says so. Call it before each bind.

        ``binding`` must be True from now on, until the outcome of the bind is known. Returns also if this
        replica may not bind or the write failed; the fence is closed then.
        """
        if self._announced or not self.leads:
            return
        written = asyncio.get_running_loop().create_future()
        self._announcements.append(written)
        self._wanted.set()
        await written

    def _refusal(self) -> str | None:
        if self._clock() >= self._binds_until:
            return self.degraded or _NOT_HELD
        return None if self._ready else self._waits

    def release_at_end(self) -> None:
        """Release the Lease when ``run`` is cancelled. Call it once no bind can be in progress.

        Otherwise the Lease expires, and the next holder waits until such a bind must have ended.
        """
        self._release_at_end = True

    async def observe_lease(self) -> None:
        """Read the Lease before the first lists start.

        If it was released then, and this replica is the next to take it, those lists contain all binds and
        need not be repeated.
        """
        with contextlib.suppress(ApiError):
            self._observation = self._first_observation = LeaseObservation(
                await self._api.read_lease(), self._clock()
            )

    async def run(self) -> None:
        """Take part in the election until cancelled; then release the Lease or let it expire."""
        try:
            while True:
                await self._round()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._durations.retry_s):
                        # A bind that waits for its announcement ends the pause.
                        await self._wanted.wait()
        finally:
            if self._preparation:
                # It would go on after the end of this replica.
                self._preparation.cancel()
            await self._release()

    async def _round(self) -> None:
        self._wanted.clear()
        # Taken before the write: a bind that comes during it must have another one.
        waiting, self._announcements = self._announcements, []
        try:
            # A renewal that takes longer is good for nothing: it counts from its start.
            async with asyncio.timeout(self._durations.renew_deadline_s):
                await self._step()
            self.degraded = None
        except TimeoutError:
            log.warning("lease_unreachable", reason="no answer in time")
        except ApiError as error:
            if error.status == HTTPStatus.FORBIDDEN:
                self._forbidden(error)
            else:
                log.warning("lease_unreachable", status=error.status, reason=str(error))
        finally:
            # Also after a failure. The fence then tells those binds why they may not start.
            for written in waiting:
                if not written.done():
                    written.set_result(None)

    async def _step(self) -> None:
        record = await self._api.read_lease()
        before = self._observation.record if self._observation else None
        if before and record and restored(before, record):
            raise ApiRestored("Lease", before=before.version, now=record.version)
        # After the read: what it returned is at least as old. Before the write, which counts from its start.
        now = self._clock()
        if record and recreated(before, record):
            self._reset()
        self._observation = observe(self._observation, record, now)
        action = decide(self._observation, self._replica.identity, now)
        if action is LeaseAction.FOLLOW:
            self._step_down()
        else:
            await self._acquire_or_renew(self._observation, action, now)

    async def _acquire_or_renew(self, observation: LeaseObservation, action: LeaseAction, now: float) -> None:
        """Take or renew the Lease as it was observed, and prepare to bind."""
        if action is not LeaseAction.RENEW:
            self._reset()  # another replica may have bound pods meanwhile
        record = self._record(observation.record, quiet=not self._binding())
        if record.quiet:
            self._announced = False  # also if the write fails: it may have an effect
        written = await self._api.write_lease(record)
        self._announced = not record.quiet
        if recreated(observation.record, written):
            self._reset()  # as above: it was deleted
            observation = LeaseObservation(None, now)
        self._observation = observe(observation, written, self._clock())
        # From before the write on: others count from when they see it, which is later.
        self._binds_until = binds_until(now, self._durations)
        earliest = binds_from(observation, self._durations, now)
        listed = unchanged_since_release(self._first_observation, observation)
        self._start_preparation(earliest, wait_cause(observation.record), listed=listed)

    def _forbidden(self, error: ApiError) -> None:
        """The API server forbids the use of the Lease, so this replica cannot lead any longer."""
        before, self.degraded = self.degraded, _REFUSED.format(error=error)
        if self.degraded != before:
            log.warning("degraded_mode", right="leases", effect=self.degraded)

    def _record(self, before: LeaseRecord | None, *, quiet: bool) -> LeaseRecord:
        transitions = before.transitions if before else 0
        if before is None or before.holder != self._replica.identity:
            transitions += 1
        return LeaseRecord(
            holder=self._replica.identity,
            address=self._replica.address,
            duration_s=round(self._durations.lease_s),
            renewed=now_text(),
            transitions=transitions,
            version=before.version if before else "",
            quiet=quiet,
        )

    def _start_preparation(self, earliest: float, cause: str, *, listed: bool) -> None:
        """Start ``_prepare``, unless it runs or has finished."""
        if not self._ready and (self._preparation is None or self._preparation.done()):
            self._waits = waiting_text(earliest - self._clock(), cause)
            self._preparation = asyncio.create_task(self._prepare(earliest, listed=listed))

    async def _prepare(self, earliest: float, *, listed: bool) -> None:
        """Wait for the last holder's binds to end, and list pods and nodes before the first own bind.

        ``listed``: no bind can have happened since the current lists started.
        """
        wait_s = max(0.0, earliest - self._clock())
        log.info("waiting_to_bind", wait_s=round(wait_s, 1), lease=True)
        # First the wait, then the lists: they must contain what late POSTs of the last holder did.
        await asyncio.sleep(wait_s)
        if not listed:
            await self._catch_up()
        self._ready = True
        self.began.set()
        log.info("leading")

    def _step_down(self) -> None:
        if self._ready or self._preparation:
            log.warning(
                "lease_lost",
                holder=self._observation and self._observation.record and self._observation.record.holder,
            )
        self._reset()
        self._binds_until = 0.0
        self._announced = False

    def _reset(self) -> None:
        """Require a new preparation before the next bind."""
        if self._preparation:
            self._preparation.cancel()
        self._preparation = None
        self._ready = False

    async def _release(self) -> None:
        """Release the Lease, so that the next holder need not wait; only if this replica may bind now.

        Otherwise it may have taken the Lease from a replica with binds that have not ended yet.
        """
        record = self._observation.record if self._observation else None
        may_release = self._release_at_end and self.leads
        # Before another replica can read that the Lease is free.
        self._binds_until = 0.0
        if not may_release or record is None:
            return
        try:
            await self._api.write_lease(replace(record, holder="", address="", duration_s=1))
        except ApiError as error:
            log.warning("lease_not_released", reason=str(error))
