"""Keeps the control daemon of one card up, and tells others whether it is.

A daemon that is there and does not answer is left alone: programs that it let in go on, and its end would
be theirs. Only one that has ended is started again. One that somebody else has started, such as a daemon of
ours that was killed, is taken as it is.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

from gpushare.errors import GpuError
from gpushare.mps.layout import ready_lock_of
from gpushare.mps.ready_lock import ReadyLock
from gpushare.mpsd.control import ALIVE, SERVERS, clients_of, end_within, is_alive, pause_s, pids_in
from gpushare.mpsd.metrics import MpsMetrics
from gpushare.mpsd.process import ControlDaemon
from gpushare.ports import ModeDriver

log = structlog.get_logger()

_STARTING_S: Final = 0.2
_STEADY_S: Final = 60.0
"""Who was up for so long begins anew with short pauses."""
_END_S: Final = 10
_KILL_S: Final = 5.0
_AFTER_IT: Final = "programs on this card may have failed, and new ones fail until it is up: start them again"


class Supervisor:
    """Of one card. ``well`` says whether the card is fit for a start."""

    def __init__(
        self, uuid: str, state: Path, modes: ModeDriver, metrics: MpsMetrics, well: Callable[[], bool]
    ) -> None:
        self._uuid = uuid
        self._modes = modes
        self._metrics = metrics
        self._well = well
        self._control = ControlDaemon(state, uuid)
        self._mark = ReadyLock(ready_lock_of(state, uuid))
        self._failures = 0
        self._start_at = 0.0
        self._up_since = 0.0
        self._clients = 0
        self.problem: str | None = "was not started yet"
        metrics.up.labels(uuid).set(0)

    async def run(self, interval_s: float) -> None:
        """Until cancelled."""
        try:
            while True:
                try:
                    await self.look()
                except (
                    Exception
                ) as error:  # a defect costs one look; the daemon's end would cost all programs
                    self.problem = f"{type(error).__name__}: {error}"
                    log.exception("look_failed", card=self._uuid)
                starting = self._control.running and not self._mark.held
                await self._control.ended(_STARTING_S if starting else interval_s)
        finally:
            self._mark.drop()

    async def look(self) -> None:
        """One look, and what follows from it."""
        try:
            answer = await self._control.ask(ALIVE)
            problem = None if is_alive(answer) else f"it answers {answer!r}"
        except GpuError as error:
            problem = str(error)
        if problem is None:
            await self._is_up()
        else:
            self._is_down(problem)
            if not self._control.running and self._well() and time.monotonic() >= self._start_at:
                await self._start()

    async def _is_up(self) -> None:
        now = time.monotonic()
        if not self._mark.held:
            if not self._mark.take():
                self.problem = "another daemon keeps it up"
                return
            self._up_since = now
            self._metrics.up.labels(self._uuid).set(1)
            log.info("control_up", card=self._uuid)
        if now - self._up_since >= _STEADY_S:
            self._failures = 0
        self.problem = None
        await self._count()

    def _is_down(self, problem: str) -> None:
        self.problem = problem
        if self._mark.held:
            self._mark.drop()
            self._metrics.up.labels(self._uuid).set(0)
            log.error(
                "control_down",
                card=self._uuid,
                problem=problem,
                code=self._control.code,
                clients=self._clients,
                effect=_AFTER_IT,
                log=self._control.last_words(),
            )

    async def _start(self) -> None:
        self._failures += 1
        self._start_at = time.monotonic() + pause_s(self._failures)
        await self._close_the_card(exclusive=True)
        try:
            await self._control.start()
        except GpuError as error:
            self.problem = str(error)
            log.error("control_not_started", card=self._uuid, problem=self.problem)  # noqa: TRY400 - an expected failure has no traceback
        else:
            self._metrics.starts.labels(self._uuid).inc()
            log.info("control_started", card=self._uuid, attempt=self._failures)

    async def _close_the_card(self, *, exclusive: bool) -> None:
        """Leave the card to MPS alone, or to everybody again."""
        try:
            await self._modes.set_exclusive(self._uuid, exclusive=exclusive)
        except GpuError as error:
            mode = "EXCLUSIVE_PROCESS" if exclusive else "DEFAULT"
            by_hand = f"nvidia-smi -i {self._uuid} -c {mode}"
            log.warning("compute_mode_not_set", card=self._uuid, reason=str(error), way_out=by_hand)
            self._metrics.exclusive.labels(self._uuid).set(0)
        else:
            self._metrics.exclusive.labels(self._uuid).set(int(exclusive))

    async def _count(self) -> None:
        """Whom it serves, for those who read of its end; and the logs, which nobody else looks after."""
        try:
            servers = pids_in(await self._control.ask(SERVERS))
            lists = [await self._control.ask(clients_of(server)) for server in servers]
            self._control.trim_logs()
        except (GpuError, OSError) as error:
            log.debug("clients_not_counted", card=self._uuid, reason=str(error))
            return
        self._clients = sum(len(pids_in(each)) for each in lists)
        self._metrics.clients.labels(self._uuid).set(self._clients)

    async def stop(self) -> None:
        """End the daemon and its servers, and with them the programs on the card."""
        self._mark.drop()
        try:
            await self._control.ask(end_within(_END_S))
        except GpuError as error:
            log.warning("control_not_ended", card=self._uuid, reason=str(error))
        await self._control.end(_KILL_S)
        await self._close_the_card(exclusive=False)
        log.info("control_ended", card=self._uuid, clients=self._clients)
