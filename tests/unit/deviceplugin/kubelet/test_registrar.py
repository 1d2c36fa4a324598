"""Registration with a fake kubelet (real gRPC) that restarts, rejects, hangs up and races."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
from structlog.testing import capture_logs

from gpushare.contract import KUBELET_SOCKET
from gpushare.deviceplugin.core.interface import Device
from gpushare.deviceplugin.kubelet.endpoint import Endpoint, listing, serving
from gpushare.deviceplugin.kubelet.registrar import Registrar, RegistrationBackoff
from gpushare.deviceplugin.metrics import PluginMetrics
from gpushare.errors import KubeletError
from tests.support.fakes.device_plugin import RESOURCE, FakePlugin, sample
from tests.support.fakes.kubelet import FakeKubelet, fake_kubelet
from tests.support.waiting import until

QUICK = RegistrationBackoff(first_s=0.02, most_s=0.08, listen_s=0.2)
NEVER = RegistrationBackoff(first_s=60, most_s=60, listen_s=60)
"""A pause that ends within a test only if it is interrupted."""
REGISTRATIONS = "gpushare_device_plugin_registrations_total"
REGISTERED = "gpushare_device_plugin_registered"


class RunningRegistrar:
    """A registrar with its fake plugin; ``registrar`` runs it."""

    def __init__(self, folder: Path, waits: RegistrationBackoff) -> None:
        self.plugin, self.metrics, self.folder = FakePlugin(), PluginMetrics(), folder
        self.registrar = Registrar(self.plugin, folder, self.metrics, waits)
        self.task: asyncio.Task[None] | None = None

    def count(self, result: str) -> float:
        return sample(self.metrics, REGISTRATIONS, result=result) or 0


@asynccontextmanager
async def registrar(folder: Path, waits: RegistrationBackoff = QUICK) -> AsyncIterator[RunningRegistrar]:
    running = RunningRegistrar(folder, waits)
    running.task = asyncio.create_task(running.registrar.run())
    try:
        yield running
    finally:
        running.task.cancel()
        await asyncio.gather(running.task, return_exceptions=True)


@asynccontextmanager
async def registered(
    folder: Path, waits: RegistrationBackoff = QUICK
) -> AsyncIterator[tuple[FakeKubelet, RunningRegistrar]]:
    async with fake_kubelet(folder) as kubelet, registrar(folder, waits) as running:
        await until(lambda: running.plugin.up and kubelet.allocatable(RESOURCE) == 3)
        yield kubelet, running


async def test_the_kubelet_receives_resource_endpoint_version_and_options(tmp_path: Path) -> None:
    async with registered(tmp_path) as (kubelet, running):
        (request,) = kubelet.registrations
        assert (request.version, request.resource_name, request.endpoint) == (
            "v1beta1",
            RESOURCE,
            "plugin.sock",
        )
        assert request.options == kubelet.options[RESOURCE]
        assert request.options.get_preferred_allocation_available
        assert running.count("ok") == 1
        assert sample(running.metrics, REGISTERED) == 1


async def test_changes_reach_the_kubelet_without_a_new_registration(tmp_path: Path) -> None:
    async with registered(tmp_path) as (kubelet, running):
        running.plugin.restock(Device("a"), Device("b", healthy=False))
        await until(lambda: kubelet.healthy(RESOURCE) == {"a"})
        assert len(kubelet.registrations) == 1


async def test_a_restarted_kubelet_is_met_at_once(tmp_path: Path) -> None:
    async with registered(tmp_path, NEVER) as (kubelet, running):
        await kubelet.restart()
        assert kubelet.allocatable(RESOURCE) == 0
        await until(lambda: kubelet.allocatable(RESOURCE) == 3 and running.plugin.up)
        assert running.plugin.states == [True, False, True]
        assert running.count("error") == 0


async def test_an_unavailable_kubelet_is_waited_for(tmp_path: Path) -> None:
    async with registered(tmp_path, NEVER) as (kubelet, running):
        await kubelet.stop()
        await until(lambda: not running.plugin.up)
        assert sample(running.metrics, REGISTERED) == 0
        await kubelet.start()
        await until(lambda: kubelet.allocatable(RESOURCE) == 3)


async def test_an_absent_kubelet_is_waited_for_and_logged_once(tmp_path: Path) -> None:
    with capture_logs() as logs:
        async with registrar(tmp_path) as running:
            await until(lambda: logs)
            for name in ("other.sock", "more"):
                (tmp_path / name).touch()
            async with fake_kubelet(tmp_path) as kubelet:
                await until(lambda: kubelet.allocatable(RESOURCE) == 3 and running.plugin.up)
    events = [each["event"] for each in logs]
    assert events[:2] == ["kubelet_absent", "registered"]
    assert str(tmp_path / KUBELET_SOCKET) in logs[0]["reason"]


async def test_the_socket_of_a_dead_kubelet_is_retried_and_logged_once(tmp_path: Path) -> None:
    async with fake_kubelet(tmp_path):
        corpse = tmp_path / "corpse.sock"
        (tmp_path / KUBELET_SOCKET).rename(corpse)
    corpse.rename(tmp_path / KUBELET_SOCKET)
    with capture_logs() as logs:
        async with registrar(tmp_path) as running:
            await until(lambda: running.count("error") >= 3)
    assert [each["event"] for each in logs] == ["not_registered"]
    assert "Connection refused" in logs[0]["reason"]
    assert running.plugin.states == []


async def test_a_removed_socket_is_created_and_registered_again(tmp_path: Path) -> None:
    async with registered(tmp_path) as (kubelet, running):
        (tmp_path / "plugin.sock").unlink()
        await until(lambda: len(kubelet.registrations) == 2 and kubelet.allocatable(RESOURCE) == 3)
        await until(lambda: running.plugin.states == [True, False, True])
        assert (tmp_path / "plugin.sock").is_socket()


async def test_a_socket_that_another_process_took_over_is_won_back(tmp_path: Path) -> None:
    async with registered(tmp_path) as (kubelet, running):
        async with serving(FakePlugin([Device("theirs")]), tmp_path / "plugin.sock", PluginMetrics()):
            await until(lambda: not running.plugin.up)
        await until(lambda: running.plugin.up and "a" in kubelet.healthy(RESOURCE))


async def test_each_stream_that_the_kubelet_ends_leads_to_a_new_registration(tmp_path: Path) -> None:
    with capture_logs() as logs:
        async with registered(tmp_path) as (kubelet, running):
            for number in (2, 3):
                kubelet.drop_stream(RESOURCE)
                await until(lambda: len(kubelet.registrations) == number)  # noqa: B023 - awaited at once
                await until(lambda: running.plugin.up and kubelet.allocatable(RESOURCE) == 3)
            assert running.plugin.states == [True, False, True, False, True]
    assert [each["event"] for each in logs] == ["registered", "not_registered"] * 2 + ["registered"]


async def test_a_new_kubelet_is_met_even_if_the_old_ones_stream_stays_open(tmp_path: Path) -> None:
    async with registered(tmp_path, NEVER) as (old, running):
        fresh = FakeKubelet(tmp_path, tidy=False)
        await fresh.start()
        await until(lambda: running.plugin.up and fresh.allocatable(RESOURCE) == 3)
        assert len(old.registrations) == 1
        await fresh.stop()


async def test_a_new_client_disconnected_for_the_old_stream_registers_again(
    tmp_path: Path,
) -> None:
    async with registered(tmp_path) as (kubelet, running):
        kubelet.delay_disconnects()
        kubelet.drop_stream(RESOURCE)
        await until(lambda: len(kubelet.registrations) == 2 and running.plugin.states == [True, False, True])
        kubelet.finish_disconnects()
        await until(lambda: len(kubelet.registrations) >= 3)
        await until(lambda: kubelet.allocatable(RESOURCE) == 3 and running.plugin.up)


async def test_the_pause_lets_the_kubelet_finish_with_the_old_stream_first(tmp_path: Path) -> None:
    async with registered(tmp_path, RegistrationBackoff(first_s=0.3, most_s=1)) as (kubelet, _):
        begun = asyncio.get_running_loop().time()
        kubelet.drop_stream(RESOURCE)
        await until(lambda: len(kubelet.registrations) == 2)
        assert asyncio.get_running_loop().time() - begun >= 0.3


async def test_a_failed_registration_is_logged_and_retried(tmp_path: Path) -> None:
    with capture_logs() as logs:
        async with fake_kubelet(tmp_path) as kubelet, registrar(tmp_path) as running:
            kubelet.refuse = "requested API version is not supported"
            await until(lambda: running.count("error") >= 3)
            assert running.plugin.states == []
            kubelet.refuse = None
            await until(lambda: kubelet.allocatable(RESOURCE) == 3 and running.plugin.up)
            assert running.count("ok") == 1
    assert [each["event"] for each in logs][:2] == ["not_registered", "registered"]
    assert "requested API version is not supported" in logs[0]["reason"]


async def test_without_a_request_for_devices_the_plugin_registers_again(tmp_path: Path) -> None:
    async with fake_kubelet(tmp_path) as kubelet, registrar(tmp_path) as running:
        kubelet.deaf = True
        await until(lambda: len(kubelet.registrations) >= 2)
        assert running.plugin.states == []
        kubelet.deaf = False
        await until(lambda: running.plugin.up)


async def test_a_stream_that_ends_before_its_first_list_is_not_waited_for(tmp_path: Path) -> None:
    running = RunningRegistrar(tmp_path, NEVER)
    endpoint = Endpoint(running.plugin, running.metrics, listing(()))
    endpoint.ended.set()
    with pytest.raises(KubeletError, match="but did not read the list"):
        await asyncio.wait_for(running.registrar._opened(endpoint), 5)


async def test_pauses_between_registrations_grow_to_a_limit(tmp_path: Path) -> None:
    waits = RegistrationBackoff(first_s=0.05, most_s=0.15)
    begun = asyncio.get_running_loop().time()
    async with fake_kubelet(tmp_path) as kubelet:
        kubelet.refuse = "no"
        async with registrar(tmp_path, waits) as running:
            await until(lambda: len(kubelet.registrations) == 5)
            assert asyncio.get_running_loop().time() - begun >= 0.05 + 0.1 + 0.15 + 0.15
            # A try that takes longer than the longest pause begins with the shortest one again.
            await until(lambda: running.registrar._pause_s == waits.most_s)


async def test_a_new_kubelet_or_a_long_registration_resets_the_pause(tmp_path: Path) -> None:
    async with fake_kubelet(tmp_path) as kubelet, registrar(tmp_path) as running:
        kubelet.refuse = "no"
        await until(lambda: running.registrar._pause_s == QUICK.most_s)
        kubelet.refuse = None
        await until(lambda: running.plugin.up)
        long_enough = asyncio.get_running_loop().time() + 1.1 * QUICK.most_s
        await until(lambda: asyncio.get_running_loop().time() > long_enough)
        kubelet.drop_stream(RESOURCE)
        await until(lambda: running.registrar._pause_s == 2 * QUICK.first_s)

        kubelet.refuse = "no"
        await until(lambda: running.registrar._pause_s == QUICK.most_s)
        kubelet.refuse = None
        await kubelet.restart()
        await until(lambda: running.plugin.up)
        assert running.registrar._pause_s == QUICK.first_s


async def test_at_the_end_the_socket_is_gone_and_the_plugin_unregistered(tmp_path: Path) -> None:
    async with fake_kubelet(tmp_path) as kubelet:
        async with registrar(tmp_path) as running:
            await until(lambda: running.plugin.up)
        assert not (tmp_path / "plugin.sock").exists()
        assert running.plugin.states == [True, False]
        assert sample(running.metrics, REGISTERED) == 0
        await until(lambda: kubelet.allocatable(RESOURCE) == 0)


async def test_the_kubelet_allocates_through_a_registration(tmp_path: Path) -> None:
    async with registered(tmp_path) as (kubelet, running):
        answer = await kubelet.admit("uid", "main", RESOURCE, 2)
        assert answer.envs["IDS"] == "a,b"
        running.plugin.slow = asyncio.Event()
        lost = asyncio.create_task(kubelet.admit("uid", "other", RESOURCE, 1))
        await until(running.plugin.allocating.is_set)
        await kubelet.restart()
        with pytest.raises((grpc.aio.AioRpcError, asyncio.CancelledError)):
            await lost
        running.plugin.slow = None
        await until(lambda: kubelet.allocatable(RESOURCE) == 3)
        assert (await kubelet.admit("uid", "other", RESOURCE, 1)).envs["IDS"] == "c"


async def test_a_missing_directory_is_an_error_at_the_start(tmp_path: Path) -> None:
    running = RunningRegistrar(tmp_path / "none", QUICK)
    with pytest.raises(KubeletError, match=f"{tmp_path}/none: No such file"):
        await running.registrar.run()


async def test_a_recreated_directory_is_used_again(tmp_path: Path) -> None:
    folder = tmp_path / "device-plugins"
    folder.mkdir()
    async with registrar(folder) as running:
        async with fake_kubelet(folder):
            await until(lambda: running.plugin.up)
        await until(lambda: not running.plugin.up)
        folder.rename(tmp_path / "away")
        folder.mkdir()
        async with fake_kubelet(folder) as kubelet:
            await until(lambda: kubelet.allocatable(RESOURCE) == 3 and running.plugin.up)


async def test_a_directory_replaced_by_a_file_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "device-plugins"
    folder.mkdir()
    with capture_logs() as logs:
        async with registrar(folder) as running:
            await until(lambda: logs)
            folder.rmdir()
            folder.touch()
            assert running.task is not None
            with pytest.raises(KubeletError, match="is not a folder"):
                await asyncio.wait_for(running.task, 5)


async def test_a_directory_deleted_behind_its_mount_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "device-plugins"
    folder.mkdir()
    monkeypatch.chdir(folder)  # like a mount, it keeps the folder when its name is gone
    with capture_logs() as logs:
        async with registrar(Path()) as running:
            await until(lambda: logs)
            folder.rmdir()
            assert running.task is not None
            with pytest.raises(KubeletError, match="was deleted on the host"):
                await asyncio.wait_for(running.task, 5)


async def test_a_fault_of_the_plugin_ends_the_registrar(tmp_path: Path) -> None:
    async with registered(tmp_path) as (_, running):
        running.plugin.devices = lambda: 1 // 0  # type: ignore[method-assign,assignment,return-value]
        running.plugin.restock()
        assert running.task is not None
        with pytest.raises(ZeroDivisionError):
            await asyncio.wait_for(running.task, 5)
