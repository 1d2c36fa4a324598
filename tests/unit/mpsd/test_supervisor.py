"""The supervisor of a control daemon, which is a real process: the FAKE of ``testbed.mps``."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gpushare.errors import GpuError
from gpushare.mps.layout import logs_of, pipes_of, ready_lock_of
from gpushare.mps.ready_lock import is_ready
from gpushare.mpsd.metrics import MpsMetrics
from gpushare.mpsd.process import ControlDaemon
from gpushare.mpsd.supervisor import Supervisor, SupervisorTiming
from testbed.mps import install
from tests.support.waiting import until

CARD = "GPU-1"


class Modes:
    """Records compute modes; ``error`` is the error that the driver returns, if any."""

    def __init__(self) -> None:
        self.exclusive: dict[str, bool] = {}
        self.error: str | None = None

    async def set_exclusive(self, uuid: str, *, exclusive: bool) -> None:
        if self.error:
            raise GpuError(self.error)
        self.exclusive[uuid] = exclusive


class Here:
    """One GPU and its supervisor, which restarts its control daemon without a backoff.

    ``failures`` has the argument of each call of the backoff.
    """

    def __init__(self, state: Path, *, answer_s: float = 5.0, kill_s: float = 5.0) -> None:
        self.state = state
        self.modes = Modes()
        self.metrics = MpsMetrics()
        self.healthy = True
        self.failures: list[int] = []
        timing = SupervisorTiming(answer_s, kill_s, self._backoff_s)
        self.supervisor = Supervisor(CARD, state, self.modes, self.metrics, lambda: self.healthy, timing)
        self.client = ControlDaemon(state, CARD, answer_s=answer_s)

    def _backoff_s(self, failures: int) -> float:
        self.failures.append(failures)
        return 0

    def value(self, name: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, {"uuid": CARD})

    @property
    def up(self) -> bool:
        return is_ready(ready_lock_of(self.state, CARD))

    @property
    def pid(self) -> int:
        return int((pipes_of(self.state, CARD) / "nvidia-cuda-mps-control.pid").read_text())

    @property
    def log(self) -> str:
        return (logs_of(self.state, CARD) / "control.log").read_text()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the supervisor, then stop it and the control daemon."""
        task = asyncio.create_task(self.supervisor.run(0.05))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})
            self.healthy = True
            await self.supervisor.stop()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    install(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    return Here(tmp_path / "state")


async def test_a_gpu_gets_a_control_daemon_and_is_exclusive_to_mps(here: Here) -> None:
    async with here.running():
        await until(lambda: here.up)
        assert f"Start for card {CARD}" in here.log
        assert here.modes.exclusive == {CARD: True}
        assert here.supervisor.problem is None
        assert (here.value("gpushare_mps_up"), here.value("gpushare_mps_exclusive")) == (1, 1)
        assert (pipes_of(here.state, CARD) / "control").is_socket()
        pid = here.pid
    assert not here.up
    assert here.modes.exclusive == {CARD: False}
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_clients_are_counted(here: Here) -> None:
    async with here.running():
        await until(lambda: here.up)
        for pid in (11, 12):
            await here.client.query(f"fake_client {pid}")
        await until(lambda: here.value("gpushare_mps_clients") == 2)


async def test_a_killed_daemon_is_restarted_and_its_clients_are_logged(here: Here) -> None:
    with capture_logs() as logs:
        async with here.running():
            await until(lambda: here.up)
            await here.client.query("fake_client 11")
            await until(lambda: here.value("gpushare_mps_clients") == 1)
            before = here.pid
            os.kill(before, signal.SIGKILL)
            await until(lambda: not here.up)
            await until(lambda: here.up)
            assert here.pid != before
            assert here.value("gpushare_mps_starts_total") == 2
    (down,) = [each for each in logs if each["event"] == "control_down"]
    assert (down["card"], down["code"], down["clients"]) == (CARD, -signal.SIGKILL, 1)
    assert "programs on this GPU may have failed" in down["effect"]
    assert "FAKE" in down["log"]


async def test_a_failed_start_is_retried_with_backoff(here: Here) -> None:
    broken = pipes_of(here.state, CARD) / "fake_broken"
    broken.parent.mkdir(parents=True)
    broken.touch()
    async with here.running():
        await until(lambda: here.failures[:3] == [1, 2, 3])
        assert not here.up
        assert here.value("gpushare_mps_up") == 0
        assert "Cannot find MPS control daemon" in str(here.supervisor.problem)
        broken.unlink()
        await until(lambda: here.up)


async def test_a_hanging_daemon_is_reported_and_not_restarted(here: Here) -> None:
    here = Here(here.state, answer_s=2, kill_s=0.05)
    async with here.running():
        await until(lambda: here.up)
        pid = here.pid
        with pytest.raises(GpuError, match="does not answer 'fake_hang' within"):
            await here.client.query("fake_hang")
        await until(lambda: "fake_hang" in here.log and not here.up)
        await here.supervisor.check()
        os.kill(pid, 0)
        assert here.value("gpushare_mps_starts_total") == 1
        assert "does not answer" in str(here.supervisor.problem)


async def test_a_running_daemon_is_used_as_it_is(here: Here) -> None:
    await here.client.start()
    await until((pipes_of(here.state, CARD) / "control").is_socket)
    async with here.running():
        await until(lambda: here.up)
        assert here.value("gpushare_mps_starts_total") is None
        assert here.client.running
    await here.client.wait_or_kill(10)
    assert here.client.code == 0


async def test_a_lock_error_is_reported_and_stops_nothing(here: Here) -> None:
    await here.client.start()
    await until((pipes_of(here.state, CARD) / "control").is_socket)
    ready_lock_of(here.state, CARD).mkdir()
    async with here.running():
        await until(lambda: "IsADirectoryError" in str(here.supervisor.problem))
        ready_lock_of(here.state, CARD).rmdir()
        await until(lambda: here.up)
    await here.client.wait_or_kill(10)


async def test_an_unhealthy_gpu_gets_no_control_daemon(here: Here) -> None:
    here.healthy = False
    async with here.running():
        await here.supervisor.check()
        assert here.value("gpushare_mps_starts_total") is None
        here.healthy = True
        await until(lambda: here.up)


async def test_a_failure_to_set_the_compute_mode_is_logged_with_the_command(here: Here) -> None:
    here.modes.error = "no permission"
    with capture_logs() as logs:
        async with here.running():
            await until(lambda: here.up)
    first = next(each for each in logs if each["event"] == "compute_mode_not_set")
    assert first["reason"] == "no permission"
    assert first["command"] == f"nvidia-smi -i {CARD} -c EXCLUSIVE_PROCESS"
    assert here.value("gpushare_mps_exclusive") == 0


async def test_a_missing_program_is_reported_with_a_hint(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    alone = Here(here.state)
    await alone.supervisor.check()
    assert "nvidia-cuda-mps-control was not found" in str(alone.supervisor.problem)
    assert "NVIDIA_DRIVER_CAPABILITIES=compute,utility" in str(alone.supervisor.problem)


async def test_large_logs_are_emptied(here: Here) -> None:
    async with here.running():
        await until(lambda: here.up)
        log = logs_of(here.state, CARD) / "server.log"
        log.write_bytes(b"x" * (5 * 1024 * 1024))
        await until(lambda: log.stat().st_size == 0)
