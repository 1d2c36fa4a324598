"""The daemon as a separate process, with the stub of NVML and the FAKE of the control daemon."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gpushare.errors import ConfigError
from gpushare.model.hardware import Gpu, Inventory
from gpushare.mps.layout import ready_lock_of
from gpushare.mps.ready_lock import is_ready
from gpushare.mpsd.daemon import create_folders, shareable
from gpushare.mpsd.settings import MpsSettings
from testbed import until
from testbed.mps import install
from testbed.nvml import NvmlStub, card
from tests.support.fixtures.daemons import DEADLINE_S, Daemon
from tests.support.fixtures.nvml import compute_mode, needs_compiler

NO_PERMISSION = 4
EXCLUSIVE_PROCESS = "3"
DEFAULT = "0"


class MpsDaemon(Daemon):
    """The MPS daemon, with its ready locks in ``state``."""

    def __init__(self, process: asyncio.subprocess.Process, state: Path) -> None:
        super().__init__(process)
        self.state = state

    def up(self, uuid: str) -> bool:
        return is_ready(ready_lock_of(self.state, uuid))


@asynccontextmanager
async def running(folder: Path, stub: NvmlStub) -> AsyncIterator[MpsDaemon]:
    state, shm = folder / "state", folder / "shm"
    argv = ["-m", "gpushare", "mps", "--interval-seconds=0.1", "--ops-host=127.0.0.1", "--ops-port=0"]
    path = f"{install(folder / 'bin').parent}:{os.environ['PATH']}"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *argv,
        f"--state={state}",
        f"--shm={shm}",
        env={**os.environ, **stub.env, "PATH": path},
        stderr=asyncio.subprocess.PIPE,
        process_group=0,
    )
    daemon = MpsDaemon(process, state)
    try:
        await daemon.started()
        yield daemon
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


async def ready(daemon: MpsDaemon) -> None:
    async def reported() -> bool:
        return (await daemon.get("/readyz")).status_code == 200

    await until(reported, "the daemon to be ready", DEADLINE_S)


@needs_compiler
async def test_each_gpu_has_a_daemon_from_start_to_sigterm(tmp_path: Path) -> None:
    stub = NvmlStub(tmp_path / "nvml", cards=[card("T4")] * 2)
    uuids = [stub.uuid(0), stub.uuid(1)]
    async with running(tmp_path, stub) as daemon:
        await ready(daemon)
        assert all(map(daemon.up, uuids))
        assert [compute_mode(stub, index) for index in (0, 1)] == [EXCLUSIVE_PROCESS] * 2
        metrics = (await daemon.get("/metrics")).text
        for uuid in uuids:
            assert f'gpushare_mps_up{{uuid="{uuid}"}} 1.0' in metrics
        assert oct((tmp_path / "shm").stat().st_mode)[-4:] == "1777"
        assert await daemon.end() == 0
    assert not any(map(daemon.up, uuids))
    assert [compute_mode(stub, index) for index in (0, 1)] == [DEFAULT] * 2


@needs_compiler
async def test_a_compute_mode_that_cannot_be_set_is_reported_and_the_gpu_is_shared(
    tmp_path: Path,
) -> None:
    stub = NvmlStub(tmp_path / "nvml", cards=[card("T4")])
    stub.fail("nvmlDeviceSetComputeMode", NO_PERMISSION)
    async with running(tmp_path, stub) as daemon:
        reported = await daemon.line("compute_mode_not_set")
        assert reported["command"] == f"nvidia-smi -i {stub.uuid(0)} -c EXCLUSIVE_PROCESS"
        await ready(daemon)


@needs_compiler
async def test_a_gpu_that_comes_later_gets_its_daemon(tmp_path: Path) -> None:
    stub = NvmlStub(tmp_path / "nvml", cards=[card("T4")])
    stub.fail("nvmlDeviceGetUUID", 999)
    async with running(tmp_path, stub) as daemon:
        stub.heal()

        async def up() -> bool:
            return daemon.up(stub.uuid(0))

        await until(up, "the control daemon", DEADLINE_S)


@needs_compiler
async def test_a_replaced_driver_ends_the_daemon_and_its_control_daemons(tmp_path: Path) -> None:
    stub = NvmlStub(tmp_path / "nvml", cards=[card("T4")])
    async with running(tmp_path, stub) as daemon:
        await ready(daemon)
        stub.load_driver("580.95.05")
        reported = await daemon.line("driver_replaced")
        assert "kernel driver was replaced" in str(reported["reason"])
        assert await daemon.ended() == 1
        assert not daemon.up(stub.uuid(0))
    async with running(tmp_path, stub) as daemon:
        await ready(daemon)


@needs_compiler
async def test_without_a_driver_the_daemon_waits_and_logs_the_reason(tmp_path: Path) -> None:
    stub = NvmlStub(tmp_path / "nvml", cards=[card("T4")])
    state = stub.state.rename(tmp_path / "away")
    async with running(tmp_path, stub) as daemon:
        assert "driver is not loaded" in str((await daemon.line("cards_not_read"))["reason"])
        answer = await daemon.get("/readyz")
        assert (answer.status_code, "driver is not loaded" in answer.text) == (503, True)
        assert (await daemon.get("/healthz")).status_code == 200
        state.rename(stub.state)
        await ready(daemon)


def test_gpus_in_mig_mode_get_no_daemon() -> None:
    gpus = (Gpu(0, "GPU-0", "T4", 15079), Gpu(1, "GPU-1", "A100", 40960, mig=True))
    assert shareable(Inventory("580", None, gpus)) == {"GPU-0"}


def test_the_error_for_an_unusable_directory_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    wrong = MpsSettings(state=tmp_path / "file" / "state", shm=tmp_path)
    with pytest.raises(ConfigError, match=f"cannot use {tmp_path}/file"):
        create_folders(wrong)
