"""Supervises the control daemon of one GPU and publishes its ready state.

A running daemon that does not answer is not restarted: programs that are connected still work, and a restart
would terminate them. Only a daemon that has ended is started again. A daemon that is already running, for
example after this process was killed, is used as it is.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from gpushare.errors import GpuError
from gpushare.mps.layout import ready_lock_of
from gpushare.mps.ready_lock import ReadyLock
from gpushare.mpsd.control import ALIVE, SERVERS, backoff_s, clients_of, is_alive, pids_in, quit_within
from gpushare.mpsd.metrics import MpsMetrics
from gpushare.mpsd.process import ControlDaemon
from gpushare.ports import ModeDriver

log = structlog.get_logger()

_STARTING_S: Final = 0.2
_STABLE_S: Final = 60.0
"""After so long the backoff between starts is reset."""
_QUIT_S: Final = 10
_EFFECT: Final = (
    "programs on this GPU may have failed and new ones fail until the control daemon is up: restart them"
)


class SupervisorTiming(NamedTuple):
    """Seconds until a query without an answer fails, and until ``stop`` kills the control daemon.

    ``backoff_s`` returns the seconds until the next start after that many consecutive failures.
    """

    answer_s: float = 5.0
    kill_s: float = 5.0
    backoff_s: Callable[[int], float] = backoff_s


_TIMING: Final = SupervisorTiming()


class Supervisor:
    """Supervises one GPU. ``healthy`` returns whether the control daemon may be started on it.

    ``problem`` is why the control daemon is not up, None while it is.
    """

    def __init__(
        self,
        uuid: str,
        state: Path,
        modes: ModeDriver,
        metrics: MpsMetrics,
        healthy: Callable[[], bool],
        timing: SupervisorTiming = _TIMING,
    ) -> None:
        self._uuid = uuid
        self._modes = modes
        self._metrics = metrics
        self._healthy = healthy
        self._timing = timing
        self._control = ControlDaemon(state, uuid, answer_s=timing.answer_s)
        self._lock = ReadyLock(ready_lock_of(state, uuid))
        self._failures = 0
        self._start_at = 0.0
        self._up_since = 0.0
        self._clients = 0
        self.problem: str | None = "not started yet"
        metrics.up.labels(uuid).set(0)

    async def run(self, interval_s: float) -> None:
        """Check the control daemon every ``interval_s`` seconds until cancelled."""
        try:
            while True:
                try:
                    await self.check()
                except Exception as error:  # a bug must not stop the daemon: that would end all programs
                    self.problem = f"{type(error).__name__}: {error}"
                    log.exception("check_failed", card=self._uuid)
                starting = self._control.running and not self._lock.locked
                await self._control.wait(_STARTING_S if starting else interval_s)
        finally:
            self._lock.release()

    async def check(self) -> None:
        """Check the control daemon once; start it if it has ended and its backoff is over."""
        try:
            answer = await self._control.query(ALIVE)
            problem = None if is_alive(answer) else f"unexpected answer {answer!r}"
        except GpuError as error:
            problem = str(error)
        if problem is None:
            await self._handle_up()
        else:
            self._handle_down(problem)
            if not self._control.running and self._healthy() and time.monotonic() >= self._start_at:
                await self._start()

    async def _handle_up(self) -> None:
        now = time.monotonic()
        if not self._lock.locked:
            if not self._lock.acquire():
                self.problem = "supervised by another process"
                return
            self._up_since = now
            self._metrics.up.labels(self._uuid).set(1)
            log.info("control_up", card=self._uuid)
        if now - self._up_since >= _STABLE_S:
            self._failures = 0
        self.problem = None
        await self._count_clients()

    def _handle_down(self, problem: str) -> None:
        self.problem = problem
        if self._lock.locked:
            self._lock.release()
            self._metrics.up.labels(self._uuid).set(0)
            log.error(
                "control_down",
                card=self._uuid,
                problem=problem,
                code=self._control.code,
                clients=self._clients,
                effect=_EFFECT,
                log=self._control.log_tail(),
            )

    async def _start(self) -> None:
        self._failures += 1
        self._start_at = time.monotonic() + self._timing.backoff_s(self._failures)
        await self._set_exclusive(exclusive=True)
        try:
            await self._control.start()
        except GpuError as error:
            self.problem = str(error)
            log.error("control_not_started", card=self._uuid, problem=self.problem)  # noqa: TRY400 - an expected failure has no traceback
        else:
            self._metrics.starts.labels(self._uuid).inc()
            log.info("control_started", card=self._uuid, attempt=self._failures)

    async def _set_exclusive(self, *, exclusive: bool) -> None:
        """Restrict the GPU to the MPS server, or allow all processes again."""
        try:
            await self._modes.set_exclusive(self._uuid, exclusive=exclusive)
        except GpuError as error:
            mode = "EXCLUSIVE_PROCESS" if exclusive else "DEFAULT"
            command = f"nvidia-smi -i {self._uuid} -c {mode}"
            log.warning("compute_mode_not_set", card=self._uuid, reason=str(error), command=command)
            self._metrics.exclusive.labels(self._uuid).set(0)
        else:
            self._metrics.exclusive.labels(self._uuid).set(int(exclusive))

    async def _count_clients(self) -> None:
        """Count the clients, for the log entry when the daemon ends, and trim the logs."""
        try:
            servers = pids_in(await self._control.query(SERVERS))
            lists = [await self._control.query(clients_of(server)) for server in servers]
            self._control.trim_logs()
        except (GpuError, OSError) as error:
            log.debug("clients_not_counted", card=self._uuid, reason=str(error))
            return
        self._clients = sum(len(pids_in(each)) for each in lists)
        self._metrics.clients.labels(self._uuid).set(self._clients)

    async def stop(self) -> None:
        """Stop the control daemon and its servers, which terminates the programs on the GPU."""
        self._lock.release()
        try:
            await self._control.query(quit_within(_QUIT_S))
        except GpuError as error:
            log.warning("control_not_stopped", card=self._uuid, reason=str(error))
        await self._control.wait_or_kill(self._timing.kill_s)
        await self._set_exclusive(exclusive=False)
        log.info("control_stopped", card=self._uuid, clients=self._clients)
